// SPDX-License-Identifier: Apache-2.0
// sum_before(): the exclusive sum over the lanes of a warp.
#pragma once

#include "../ptx/shfl.cuh"

namespace FOURSCALE_NAMESPACE::warp {

/// The sum of x over the lanes before this one, modulo 2^32; `all`: over all lanes. A whole warp calls it.
FOURSCALE_D inline u32 sum_before(u32 x, u32& all) {
  u32 sum = x;
  FOURSCALE_UNROLL
  for (u32 distance = 1; distance < 32; distance *= 2) ptx::add_shfl_up<32>(sum, sum, distance);
  all = __shfl_sync(~0u, sum, 31);
  return sum - x;
}

}  // namespace FOURSCALE_NAMESPACE::warp
