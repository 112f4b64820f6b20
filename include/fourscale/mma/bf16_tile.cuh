// SPDX-License-Identifier: Apache-2.0
// A CTA's 128 x 256 tile of A * B^T with the bits of Blackwell's block-scaled MMA, on any GPU from sm_80 on.
// Operands are decoded to bf16 (decoded_operand). A step of K = 64 is a chain of four mma.sync from zero, and
// one addition to the accumulator, rounded toward zero: Blackwell's bits, where a certificate holds.
//
// Eight warps take 64 x 64 outputs each (bf16_steps.cuh). All are producers and consumers: all threads copy
// steps into pipeline stages (bf16_stages.cuh). A warp has the A fragments of a whole step in registers. It
// loads those of the next step, block by block, while it multiplies its last columns, so that the tensor
// cores need not wait at the beginning of a step. It starts copies in between, a few at a time. Warps wait
// for copies at mbarriers, not for each other.
//
// Before the first step a warp counts the steps, from the first on, that are certified for all of its outputs
// (bf16_certify.cuh). Its loop for these does only the above, and has all registers. For the other steps the
// warp goes on in a function with registers of its own (bf16_with_care.cuh).
#pragma once

#include "../ptx/bar.cuh"
#include "../view/gemm_epilogue.hpp"
#include "../view/gemm_factors.hpp"
#include "bf16_with_care.cuh"
#include "output_strip.cuh"
#include "tile_walk.cuh"
#include "wgmma_way.cuh"

namespace FOURSCALE_NAMESPACE::mma::bf16_tile {

static_assert(warps * sizeof(output_strip) <= least_stages * stage_bytes);

/// D = alpha * A * B^T + beta * D: the arguments of the kernel.
template <class T, class Factors>
struct problem {
  decoded_operand a, b;
  matrix_view<T> d;
  Factors factor_of;  ///< the factor of an output: see output_strip.cuh
  float beta;
  gemm_steps* steps;                     ///< counts how steps are added, or null
  wgmma::way_sample* samples = nullptr;  ///< not null if samples may refuse values, so that D is left alone
};

/// Adds the tile's steps to the warp's sums, from the first one that is not certified for all of them on by
/// multiply_with_care(). `Whole`: see stage_copies. Which slot does what was found by trial.
template <bool Whole, class P>
FOURSCALE_D void multiply_steps(P const& p, warp_part& w, accumulators& sums) {
  constexpr int half = stage_copies::parts / 2;
  const stage_memory memory = w.memory;
  const int steps = static_cast<int>(p.a.steps), stages = memory.stages, ahead = steps_ahead(stages);
  start_steps(w, steps, ahead);
  const exact_place origin = w.place(0, 0);
  // The count is the same in all lanes; the reduction tells the compiler so.
  const int certified = static_cast<int>(
      __reduce_min_sync(~0u, static_cast<unsigned>(certified_steps(p, origin.row_a, origin.row_b))));
  wait_for_first(w, ahead);
  u32 stage = memory.stage(0), parity = 0, low[2][2];
  int index = 0;  // of the step's stage
  fragments_a a;
  load_step(w, stage, a, low);
#pragma unroll 1
  for (int step = 0; step < certified; ++step) {
    const int next_index = index + 1 == stages ? 0 : index + 1;
    const int filled = memory.later(index, ahead);
    const u32 next = memory.stage(next_index), full = memory.barrier(next_index);
    const u32 next_parity = parity ^ static_cast<u32>(next_index == 0);
    bool there = false;
    const auto slot = [&](int n) {
      if (n == 4 && ahead > 1) arrive<0>(full);
      if (n == 2 || n == 6) {
        FOURSCALE_UNROLL
        for (int i = 0; i < half; ++i) w.copies.start<Whole>((n == 2 ? 0 : half) + i, memory.stage(filled));
      }
      if (n == 12) {
        ptx::cp_async_commit_group();
        w.copies.next(step + ahead + 1 < steps);
        if (ahead == 1) arrive<0>(full);
        there = ptx::mbarrier_test(full, next_parity);
      }
      if (n == 13 && !there) ptx::mbarrier_wait(full, next_parity);
    };
    const auto reload = [&](int block) {
      if (block == 1) load_b(next + w.cols, 0, 0, low);
      load_a(next + w.rows, block, a);
    };
    add_step(
        a, stage + w.cols, low, sums, [](int) { return true; }, slot, reload);
    if (stages == 2)
      ptx::bar_sync<0, threads>();  // the other stage is filled next
    else
      __syncwarp();  // tells the compiler that all lanes are here: counters stay in uniform registers
    stage = next, index = next_index, parity = next_parity;
  }
  if (certified == steps) return;
  accumulators in_memory;
  warp_part w_in_memory = w;
  copy_sums(sums, in_memory);
  const facts_of_warp facts(p, origin.row_a, origin.row_b);
  multiply_with_care(p, w_in_memory, facts, certified, index, parity, in_memory);
  copy_sums(in_memory, sums);
}

/// The tile at (row, col) of D, by all threads. `memory`: stage_memory::bytes(stages), at a multiple of 1024.
template <class P>
FOURSCALE_D void multiply(P const& p, int row, int col, int stages, u8* memory) {
  const stage_memory places{ptx::shared_address(memory), stages};
  if (static_cast<int>(threadIdx.x) < stages)
    ptx::mbarrier_init(places.barrier(static_cast<int>(threadIdx.x)), threads);
  ptx::bar_sync<0, threads>();
  warp_part w(p, places, row, col);
  accumulators sums{};
  if (row + tile_rows <= p.d.rows && col + tile_cols <= p.d.cols)
    multiply_steps<true>(p, w, sums);
  else
    multiply_steps<false>(p, w, sums);
  ptx::cp_async_wait_group<0>();
  ptx::bar_sync<0, threads>();  // the epilogue's strips overwrite the stages
  const output_store store(p);
  const exact_place to = w.place(0, 0);
  FOURSCALE_UNROLL
  for (int i = 0; i < row_blocks; ++i)
    store.template outputs<warp_cols>(p, to.row_a + 16 * i, to.row_b, sums[i],
                                      reinterpret_cast<output_strip*>(memory)[threadIdx.x / 32]);
}

}  // namespace FOURSCALE_NAMESPACE::mma::bf16_tile
