// SPDX-License-Identifier: Apache-2.0
// Which way the GEMM by wgmma goes: by certificates (wgmma_roles.cuh) or by blocks (wgmma_by_blocks.cuh).
// Both have the same bits. Which one is faster depends on how many certificates hold: device/gemm_way.cuh
// takes samples.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

/// Steps of eight rows with eight columns: how many, how many of them no certificate covers, and how many
/// widths alone leave open. `refused`: not 0 where values are not what their operand has, so that the kernel
/// leaves D alone; another one multiplies.
struct alignas(8) way_sample {
  u16 steps, uncertified, open, refused;
};
inline constexpr u32 way_samples = 64;

/// The share of uncertified steps above which the way by blocks is the faster one, as measured:
/// docs/gemm_speed.md.
inline constexpr float share_by_blocks = 1.0f / 16;

/// The sum of all samples. Called by a whole warp.
FOURSCALE_D inline way_sample sum_of_samples(way_sample const* samples) {
  uint2 sum{};  // each of halves
  FOURSCALE_UNROLL
  for (u32 i = 0; i < way_samples; i += 32) {
    const uint2 x = *reinterpret_cast<uint2 const*>(samples + i + threadIdx.x % 32);
    sum.x += x.x, sum.y += x.y;
  }
  return bit_cast<way_sample>(uint2{__reduce_add_sync(~0u, sum.x), __reduce_add_sync(~0u, sum.y)});
}

/// The way of a GEMM: none; by blocks, or else by certificates; and whether strips are certified ahead for
/// these.
struct gemm_way {
  bool refused, by_blocks, by_strips;
};
/// The same in every warp of every CTA. Called by a whole warp.
template <class P>
FOURSCALE_D gemm_way way_of(P const& p) {
  const way_sample all = sum_of_samples(p.samples);
  const bool by_blocks =
      static_cast<float>(all.uncertified) > p.by_blocks_above * static_cast<float>(all.steps);
  return {all.refused != 0, by_blocks,
          !by_blocks && p.certified.words != nullptr && all.open >= p.certified.least_open};
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
