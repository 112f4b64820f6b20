// SPDX-License-Identifier: Apache-2.0
// A step of a warpgroup for a batch of columns, exact whatever the data: four products of K = 16, each from
// zero, and each exact. What the adder makes of them and the accumulators is first looked for in brackets,
// which seldom leave it open. docs/exact_gemm.md has the reasons.
#pragma once

#include "../ptx/wgmma.cuh"
#include "exact_step.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

/// What a lane has of a batch of Groups times eight columns: outputs as wgmma has them.
template <int Groups>
struct batch_of_blocks {
  static constexpr int outputs = 4 * Groups;
  float sums[4][outputs];

  /// Low words of the descriptors of the warpgroup's rows of A and of the batch's columns.
  FOURSCALE_D void issue(u32 a, u32 b) {
    ptx::wgmma_fence();
    FOURSCALE_UNROLL
    for (u32 block = 0; block < 4; ++block) ptx::wgmma_bf16(sums[block], a + 2 * block, b + 2 * block, false);
    ptx::wgmma_commit_group();
  }
  /// Until at most `Behind` batches that were issued later are on their way.
  template <int Behind>
  FOURSCALE_D void wait() {
    ptx::wgmma_wait_group<Behind>();
    FOURSCALE_UNROLL
    for (auto& block : sums) FOURSCALE_UNROLL
    for (float& x : block) asm volatile("" : "+f"(x)::"memory");  // is read behind this
  }
  FOURSCALE_D float4 of(int i) const { return {sums[0][i], sums[1][i], sums[2][i], sums[3][i]}; }
};

/// Limits of a warp's accumulators in a group of columns: of its upper eight rows, and of the lower ones.
/// Below them the adder drops nothing.
struct kept_limits {
  float upper = fourscale::model::value_facts::infinite(), lower = fourscale::model::value_facts::infinite();
};

/// A batch to the accumulators c, but for groups with an output of which the adder may drop bits, which is
/// when the accumulator is not below the limit: their bits are returned. All lanes take a longer way where
/// one has to.
template <int Groups>
FOURSCALE_D u32 add_batch(batch_of_blocks<Groups> const& batch, kept_limits const (&limits)[Groups],
                          float* c) {
  constexpr int outputs = 4 * Groups;
  const auto is_kept = [&](int i) {
    return fabsf(c[i]) < (i % 4 < 2 ? limits[i / 4].upper : limits[i / 4].lower);
  };
  detail::bracket all[outputs];
  u32 open = 0;
  bool kept = true;
  FOURSCALE_UNROLL
  for (int i = 0; i < outputs; ++i) {
    all[i] = detail::bracket_of(c[i], batch.of(i));
    open |= bit_cast<u32>(all[i].low) ^ bit_cast<u32>(all[i].high);
    kept = kept && is_kept(i);
  }
  if (__any_sync(~0u, open != 0)) {
    FOURSCALE_UNROLL
    for (int i = 0; i < outputs; ++i)
      if (__any_sync(~0u, all[i].low != all[i].high)) all[i].high = detail::add_in_double(c[i], batch.of(i));
  }
  if (__all_sync(~0u, kept)) {
    FOURSCALE_UNROLL
    for (int i = 0; i < outputs; ++i) c[i] = all[i].high;
    return 0;
  }
  u32 left = 0;
  FOURSCALE_UNROLL
  for (int group = 0; group < Groups; ++group) {
    const int i = 4 * group;
    if (__all_sync(~0u, is_kept(i) && is_kept(i + 1) && is_kept(i + 2) && is_kept(i + 3))) {
      FOURSCALE_UNROLL
      for (int j = i; j < i + 4; ++j) c[j] = all[j].high;
    } else {
      left |= 1u << group;
    }
  }
  return left;
}

/// The groups of columns `left` of a step by the adder's own rule. `first`: where the warp's rows and the
/// columns begin.
template <int Cols>
FOURSCALE_D void add_and_drop(decoded_operand const& a, decoded_operand const& b, exact_place const& first,
                              u32 left, float (&sums)[Cols / 2]) {
  FOURSCALE_UNROLL
  for (int group = 0; group < Cols / bounds_rows; ++group) {
    if ((left >> group & 1) == 0) continue;
    const exact_place at{first.row_a, first.row_b + group * bounds_rows, first.step, first.stage_a,
                         first.stage_b + static_cast<u32>(group * bounds_rows * decoded_row_bytes)};
    float* const x = sums + 4 * group;
    const float4 y = exact_step(a, b, at, true, {x[0], x[1], x[2], x[3]});
    x[0] = y.x, x[1] = y.y, x[2] = y.z, x[3] = y.w;
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
