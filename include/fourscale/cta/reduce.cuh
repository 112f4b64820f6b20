// SPDX-License-Identifier: Apache-2.0
// Reductions: one number from those of all threads of a warp or a CTA. Whole warps take part, whatever the
// shape of the CTA. The order of a sum is fixed, so that its bits are the same in every launch.
#pragma once

#include "../ptx/arith.hpp"

namespace FOURSCALE_NAMESPACE::cta {

/// The shared memory of sum() and largest(): a number for each warp. Two calls in a row need one each, or a
/// __syncthreads() between them.
struct reduction {
  float of_warp[32];
};

/// The sum over the lanes of a warp, the same in all of them. Lanes are added in pairs at distance 16, 8, 4,
/// 2, 1.
FOURSCALE_D inline float warp_sum(float mine) {
  FOURSCALE_UNROLL
  for (int distance = 16; distance >= 1; distance /= 2)
    mine = ptx::add_rn_f32(mine, __shfl_xor_sync(0xffff'ffffu, mine, distance));
  return mine;
}

/// The sum over the threads of a one-dimensional CTA, the same in all of them. The sums of the warps are
/// added in the order in which a warp adds its lanes.
FOURSCALE_D inline float sum(float mine, reduction& shared) {
  mine = warp_sum(mine);
  const u32 lane = threadIdx.x % 32;
  if (lane == 0) shared.of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  return warp_sum(lane < blockDim.x / 32 ? shared.of_warp[lane] : 0.0f);
}

/// The largest `mine` of a one-dimensional CTA, the same in all threads. Each `mine` is a magnitude and no
/// NaN.
FOURSCALE_D inline float largest(float mine, reduction& shared) {
  const u32 lane = threadIdx.x % 32;
  const i32 of_warp = __reduce_max_sync(0xffff'ffffu, bit_cast<i32>(mine));
  if (lane == 0) shared.of_warp[threadIdx.x / 32] = bit_cast<float>(of_warp);
  __syncthreads();
  mine = lane < blockDim.x / 32 ? shared.of_warp[lane] : 0.0f;
  return bit_cast<float>(__reduce_max_sync(0xffff'ffffu, bit_cast<i32>(mine)));
}

/// Raises *amax (device memory) to the largest `mine` of a warp. Each `mine` is a magnitude and no NaN. The
/// warp reads *amax first: where it is already as large, as it soon is, no atomic operation is needed. The
/// result does not depend on the order of warps.
FOURSCALE_D inline void raise_amax(float mine, float* amax) {
  const i32 largest = __reduce_max_sync(0xffff'ffffu, bit_cast<i32>(mine));
  i32* const out = reinterpret_cast<i32*>(amax);
  if (threadIdx.x % 32 == 0 && largest > *static_cast<i32 volatile*>(out)) atomicMax(out, largest);
}

}  // namespace FOURSCALE_NAMESPACE::cta
