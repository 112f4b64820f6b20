// SPDX-License-Identifier: Apache-2.0
// Which way the GEMM by wgmma goes: by certificates (wgmma_roles.cuh) or by blocks (wgmma_by_blocks.cuh).
// Both have the same bits. Which one is faster depends on how many certificates hold: device/gemm_way.cuh
// takes samples.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

/// Steps of eight rows with eight columns: how many, and how many of them no certificate covers.
struct alignas(4) way_sample {
  u16 steps, uncertified;
};
inline constexpr u32 way_samples = 64;

/// The share of uncertified steps above which the way by blocks is the faster one, as measured:
/// docs/gemm_speed.md.
inline constexpr float share_by_blocks = 1.0f / 16;

/// The same in every warp of every CTA. Called by a whole warp.
template <class P>
FOURSCALE_D bool goes_by_blocks(P const& p) {
  u32 sum = 0;  // of both halves
  FOURSCALE_UNROLL
  for (u32 i = 0; i < way_samples; i += 32) sum += bit_cast<u32>(p.samples[i + threadIdx.x % 32]);
  const auto all = bit_cast<way_sample>(__reduce_add_sync(~0u, sum));
  return static_cast<float>(all.uncertified) > p.by_blocks_above * static_cast<float>(all.steps);
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
