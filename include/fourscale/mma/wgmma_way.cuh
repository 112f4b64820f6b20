// SPDX-License-Identifier: Apache-2.0
// Which way the GEMM by wgmma goes: by certificates (wgmma_roles.cuh), where a step is one sum of 64 products
// if that is proved exact; or by blocks (wgmma_by_blocks.cuh), where every step is four sums of 16. Both give
// the same bits. Which one is faster depends on how many certificates hold: device/gemm_way.cuh takes samples
// while the operands are decoded.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

/// A sample of up to 16 steps of eight rows by eight columns: how many steps; a bit for each that no
/// certificate covers; how many the widths alone leave open. `refused`: not 0 where decoded values are not
/// those of the operand: the kernel then leaves D alone, and another one multiplies.
struct alignas(8) way_sample {
  u16 steps, uncertified, open, refused;
};
/// Samples i and i + way_pairs are a pair: the same steps, for different rows and columns.
inline constexpr u32 way_pairs = 32, way_samples = 2 * way_pairs;

/// Sums over all samples. `together`: steps that are uncertified in both samples of a pair. If no step is
/// uncertified, `steps` is not counted, but 0.
struct sample_sums {
  u32 steps, uncertified, together, open;
  bool refused;

  /// The share of the steps that are uncertified.
  FOURSCALE_HD float share() const {
    return uncertified == 0 ? 0 : static_cast<float>(uncertified) / static_cast<float>(steps);
  }
  /// How much more often than by chance a step is uncertified if it is for other rows and columns, too: from
  /// 0, no more often, to 1, always. It is high where values along K differ in size, as tokens do.
  FOURSCALE_HD float alike() const {
    const float again = 2 * static_cast<float>(together) / static_cast<float>(uncertified);
    const float more = (again - share()) / (1 - share());
    return more > 0 ? more : 0;  // and 0 for NaN
  }
};

/// The way by blocks is faster if share() > share_by_blocks * (1 + more_if_alike * alike()). Where
/// uncertified steps are alike, all warps make the same steps again at the same time, and do not wait for
/// each other in most steps: so certificates stay faster for more of them. As measured: docs/gemm_speed.md.
inline constexpr float share_by_blocks = 1.0f / 16;
inline constexpr int more_if_alike = 4;
/// With `above` < 0 always true.
FOURSCALE_HD inline bool is_faster_by_blocks(sample_sums const& x, float above = share_by_blocks) {
  if (x.uncertified == 0 || above < 0) [[likely]]
    return above < 0;
  // x.share() > above * (1 + more_if_alike * x.alike()) without divisions, since a small GEMM waits for it.
  // In whole numbers, since all kernels must give the same answer, and a * b + c of floats may be contracted.
  const int all = static_cast<int>(x.steps), some = static_cast<int>(x.uncertified), others = all - some,
            again = 2 * static_cast<int>(x.together) * all - some * some;
  if (others == 0) return above < 1;
  return static_cast<float>(some * some * others) >
         above * static_cast<float>(all) *
             static_cast<float>(some * others + more_if_alike * (again > 0 ? again : 0));
}

/// Called by a whole warp; all lanes have the result.
FOURSCALE_D inline sample_sums sum_of_samples(way_sample const* samples) {
  static_assert(way_pairs == 32, "A pair for each lane; sums of 16 steps each take 11, 11 and 10 bits.");
  const u32 lane = threadIdx.x % 32;
  const auto load = [samples](u32 i) {
    return bit_cast<way_sample>(*reinterpret_cast<uint2 const*>(samples + i));
  };
  const way_sample x = load(lane), y = load(lane + way_pairs);
  const u32 others = u32{x.open} + y.open + (u32{x.refused} << 16 | u32{y.refused} << 24),
            all_others = __reduce_add_sync(~0u, others);
  sample_sums sums{0, 0, 0, all_others & 0xffffu, all_others >> 16 != 0};
  if (__any_sync(~0u, (x.uncertified | y.uncertified) != 0)) [[unlikely]] {
    const auto count = [](int bits) { return static_cast<u32>(__popc(static_cast<u32>(bits))); };
    const u32 steps = u32{x.steps} + y.steps, uncertified = count(x.uncertified) + count(y.uncertified),
              together = count(x.uncertified & y.uncertified),
              all = __reduce_add_sync(~0u, steps | uncertified << 11 | together << 22);
    sums.steps = all & 0x7ffu, sums.uncertified = all >> 11 & 0x7ffu, sums.together = all >> 22;
  }
  return sums;
}

/// The way of a GEMM: none if it is refused, else by blocks or by certificates. `by_strips`: by certificates,
/// and strips are certified ahead.
struct gemm_way {
  bool refused, by_blocks, by_strips;
};
/// The way of problem p, from its samples: the same in every warp of every CTA. Called by a whole warp.
template <class P>
FOURSCALE_D gemm_way way_of(P const& p) {
  const sample_sums all = sum_of_samples(p.samples);
  const bool by_blocks = is_faster_by_blocks(all, p.by_blocks_above);
  return {all.refused, by_blocks,
          !by_blocks && p.certified.words != nullptr && all.open >= p.certified.least_open};
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
