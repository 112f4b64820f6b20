// SPDX-License-Identifier: Apache-2.0
// The slow path of bf16_tile.cuh: the first step that is not certified for all of a warp's outputs, and those
// after it. In each step, 16 x 8 outputs with a certificate take it by add_step(), as in the fast loop. The
// others take it by blocks of 16 values (exact_step.cuh), which is exact whatever the data.
#pragma once

#include "bf16_steps.cuh"
#include "step_counts.cuh"

namespace FOURSCALE_NAMESPACE::mma::bf16_tile {

/// Counts a step's outputs without a certificate, if p.steps asks. `first`: the warp's first row and column.
template <class P>
FOURSCALE_D void count_uncertified(P const& p, exact_place const& first, certificates c) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (p.steps != nullptr && lane < row_blocks)
    count_steps(*p.steps, min(p.d.rows - first.row_a - 16 * lane, i64{16}), p.d.cols - first.row_b,
                (c.kept & ~c.exact) >> (col_blocks * lane) & all_cols,
                ~c.kept >> (col_blocks * lane) & all_cols);
}

/// Accumulators are compared with limits if bits may be dropped of at least this many of a warp's 32 times
/// 16 x 8 outputs. For fewer, the adder's own rule costs less than these limits, which spare it.
inline constexpr int least_asked = 4;

/// For limits of accumulators, where spans do not prove that the adder drops nothing: stores the depths of
/// the warp's rows and columns in a step at the shared address `depths`. Returns, in the bits of
/// certificates, where scales drop nothing and limits apply: nowhere, and nothing is stored, if too few
/// outputs need them.
template <class P>
FOURSCALE_D u32 load_limits(P const& p, exact_place const& first, certificates c, u32 depths) {
  if (__popc(~c.kept) < least_asked) return 0;
  const u32 lane = threadIdx.x % 32;
  const auto groups = [](decoded_operand const& x, int row) { return i64{chunk_of(x, row) * bounds_chunk}; };
  const auto depth_of = [&](decoded_operand const& x, int row) {
    return reinterpret_cast<u32 const*>(x.depths + first.step * x.row_groups() + groups(x, row))[lane % 16];
  };
  const auto span_of = [&](decoded_operand const& x, int row) {
    return u32{x.of_accumulators[x.bounds_at(groups(x, row) + lane % bounds_chunk, first.step)].span};
  };
  const u32 depth = lane < 16 ? depth_of(p.a, first.row_a) : depth_of(p.b, first.row_b);
  const u32 of_eight = lane / 8 % 2 == 0 ? span_of(p.a, first.row_a) : span_of(p.b, first.row_b);
  const u32 of_sixteen = max(of_eight, __shfl_xor_sync(~0u, of_eight, 1)),
            of_rows = __shfl_sync(~0u, of_sixteen, static_cast<int>(lane / col_blocks * 2)),
            of_cols = __shfl_sync(~0u, of_eight, static_cast<int>(8 + lane % col_blocks));
  ptx::store_shared_u32(depths + 4 * lane, depth);
  return __ballot_sync(~0u, fourscale::model::scales_drop_nothing(of_rows + of_cols));
}

/// Adds a step to the sums without a certificate, by blocks. `depths`: depth_bytes of shared memory.
template <class P>
FOURSCALE_D void add_exactly(P const& p, exact_place const& first, certificates c, u32 depths,
                             accumulators& sums) {
  const u32 limited = load_limits(p, first, c, depths);
  FOURSCALE_UNROLL
  for (int i = 0; i < row_blocks; ++i) {
    const auto of_rows = [&](u32 bits) { return bits >> (col_blocks * i) & all_cols; };
    const u32 which = of_rows(~(c.exact & c.kept)), below = static_cast<u32>(i);
    const u32 stage_a = first.stage_a + below * row_block_bytes;
    if ((which & of_rows(c.kept)) != 0)
      add_kept<col_blocks>(stage_a + place_in_a(), first.stage_b + place_in_b(), which & of_rows(c.kept),
                           sums[i]);
    if ((which & ~of_rows(c.kept)) == 0) continue;
    const exact_columns x{&p.a,
                          &p.b,
                          {first.row_a + 16 * i, first.row_b, first.step, stage_a, first.stage_b},
                          of_rows(limited),
                          depths + 16 * below,
                          depths + warp_rows};
    mma::add_exactly<col_blocks>(x, which & ~of_rows(c.kept), sums[i]);
  }
  count_uncertified(p, first, c);
}

/// The tile's steps from `step` on, which has landed in stage `index`; `parity`: that of its barrier's phase.
/// Not inlined: the sums get registers of this function's own. `w` stays in memory.
template <class P>
__noinline__ FOURSCALE_D void multiply_with_care(P const& p, warp_part& w, facts_of_warp const& facts,
                                                 int step, int index, u32 parity, accumulators& of_caller) {
  const stage_memory memory = w.memory;
  const int steps = static_cast<int>(p.a.steps), stages = memory.stages, ahead = steps_ahead(stages);
  step_facts of_step = facts.load(step);
  accumulators sums;
  copy_sums(of_caller, sums);
#pragma unroll 1
  for (; step < steps; ++step) {
    const u32 stage = memory.stage(index);
    const int next = index + 1 == stages ? 0 : index + 1;
    if (ahead > 1) arrive<0>(memory.barrier(next));
    w.copies.start_all(memory.stage(memory.later(index, ahead)));
    w.copies.next(step + ahead + 1 < steps);
    if (ahead == 1) arrive<0>(memory.barrier(next));
    const certificates c = certify(of_step);
    const u32 certified = c.exact & c.kept;
    if (certified != 0) {
      fragments_a a;
      u32 low[2][2];
      load_step(w, stage, a, low);
      add_step(
          a, stage + w.cols, low, sums, [=](int bit) { return (certified >> bit & 1) != 0; }, [](int) {},
          [](int) {});
    }
    if (certified != ~0u) add_exactly(p, w.place(step, stage), c, memory.depths(), sums);
    of_step = facts.load(min(step + 1, steps - 1));
    index = next, parity ^= static_cast<u32>(next == 0);
    ptx::mbarrier_wait(memory.barrier(next), parity);
    if (stages == 2) ptx::bar_sync<0, threads>();  // the other stage is filled next
  }
  copy_sums(sums, of_caller);
}

}  // namespace FOURSCALE_NAMESPACE::mma::bf16_tile
