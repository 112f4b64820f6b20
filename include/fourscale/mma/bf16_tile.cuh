// SPDX-License-Identifier: Apache-2.0
// A CTA's 128 x 256 tile of A * B^T with the bits of Blackwell's block-scaled MMA, on any GPU from sm_80 on.
// A step of K = 64 is a chain of four mma.sync from zero, and one addition rounded toward zero to the
// accumulator. Eight warps take 64 x 64 outputs each. A stage of shared memory is a step of both operands:
// bf16_stages.cuh.
//
// A warp has the rows of A of a step in registers. It loads those of the next step, block by block, while it
// multiplies its last columns, so that the tensor cores need not wait at the beginning of a step. Copies are
// started in between, a few at a time. Warps wait for copies, not for each other.
//
// A step that is not certified for all of a warp's outputs is added to all the same. Sums that it must not be
// added to are saved before, made again in a function, and take the place of what came of the addition. So
// the loop has one form, whose registers nothing else needs.
#pragma once

#include "../ptx/bar.cuh"
#include "../view/gemm_epilogue.hpp"
#include "../view/gemm_factors.hpp"
#include "bf16_stages.cuh"
#include "output_strip.cuh"
#include "step_counts.cuh"
#include "tile_walk.cuh"

namespace FOURSCALE_NAMESPACE::mma::bf16_tile {

inline constexpr u32 row_block_bytes = 16 * decoded_row_bytes, col_block_bytes = 8 * decoded_row_bytes;
inline constexpr u32 all_cols = (1u << col_blocks) - 1;
static_assert(warps * sizeof(output_strip) <= least_stages * stage_bytes);

/// D = alpha * A * B^T + beta * D: the arguments of the kernel.
template <class T, class Factors>
struct problem {
  decoded_operand a, b;
  matrix_view<T> d;
  Factors factor_of;  ///< of an output: see output_strip.cuh
  float beta;
  gemm_steps* steps;  ///< counts, or null
};

// ---------------------------------------------------------------- multiply

/// Sums of a thread: of each 16 rows, as mma.sync and output_store have them.
using accumulators = float[row_blocks][warp_cols / 2];
/// A step of a warp's rows of A, as mma.sync takes them.
using fragments_a = u32[4][row_blocks][4];

/// Blocks of 16 values along K change the places of chunks only: their addresses differ in these bits.
FOURSCALE_HD constexpr u32 block_bits(int block) { return static_cast<u32>(block) * 32; }

/// `rows`: where the lane's row of the first block is.
FOURSCALE_D inline void load_a(u32 rows, int block, fragments_a& a) {
  FOURSCALE_UNROLL
  for (int i = 0; i < row_blocks; ++i)
    ptx::ldmatrix_m8n8_x4_b16(a[block][i],
                              (rows ^ block_bits(block)) + static_cast<u32>(i) * row_block_bytes);
}
/// Two blocks of eight columns.
FOURSCALE_D inline void load_b(u32 cols, int block, int group, u32 (&b)[2][2]) {
  u32 r[4];
  ptx::ldmatrix_m8n8_x4_b16(r, (cols ^ block_bits(block)) + static_cast<u32>(group) * col_block_bytes);
  b[0][0] = r[0], b[0][1] = r[1], b[1][0] = r[2], b[1][1] = r[3];
}

/// Adds a step, eight columns at a time. `low`: the first two blocks of the first of them. `slot(n)` is done
/// meanwhile, n = 0 to 15, and `reload(block)` where the last columns have taken this block of A.
template <class Slot, class Reload>
FOURSCALE_D void add_step(fragments_a& a, u32 cols, u32 (&low)[2][2], accumulators& sums, Slot const& slot,
                          Reload const& reload) {
  constexpr float zero[4] = {};
  u32 high[2][2];
  FOURSCALE_UNROLL
  for (int j = 0; j < col_blocks; ++j) {
    const bool last = j + 1 == col_blocks;
    float chain[row_blocks][4];
    load_b(cols, 2, j, high);
    FOURSCALE_UNROLL
    for (int i = 0; i < row_blocks; ++i) ptx::mma_sync_m16n8k16_bf16(chain[i], a[0][i], low[0], zero);
    slot(2 * j);
    if (last) reload(0);
    FOURSCALE_UNROLL
    for (int i = 0; i < row_blocks; ++i) ptx::mma_sync_m16n8k16_bf16(chain[i], a[1][i], low[1], chain[i]);
    if (last)
      reload(1);
    else
      load_b(cols, 0, j + 1, low);
    FOURSCALE_UNROLL
    for (int i = 0; i < row_blocks; ++i) ptx::mma_sync_m16n8k16_bf16(chain[i], a[2][i], high[0], chain[i]);
    slot(2 * j + 1);
    if (last) reload(2);
    FOURSCALE_UNROLL
    for (int i = 0; i < row_blocks; ++i) ptx::mma_sync_m16n8k16_bf16(chain[i], a[3][i], high[1], chain[i]);
    if (last) reload(3);
    FOURSCALE_UNROLL
    for (int i = 0; i < 4 * row_blocks; ++i) {
      float& sum = sums[i / 4][4 * j + i % 4];
      sum = __fadd_rz(sum, chain[i / 4][i % 4]);
    }
  }
}

/// Accumulators of 16 x 8 outputs each, in the order of certificates, as they were before a step.
struct saved_sums {
  float4 of[row_blocks * col_blocks];

  FOURSCALE_D void save(u32 which, accumulators const& sums) {
    FOURSCALE_UNROLL
    for (int i = 0; i < row_blocks; ++i) FOURSCALE_UNROLL
    for (int j = 0; j < col_blocks; ++j) {
      float const* const x = sums[i] + 4 * j;
      if (which >> (col_blocks * i + j) & 1) of[col_blocks * i + j] = {x[0], x[1], x[2], x[3]};
    }
  }
  FOURSCALE_D void restore(u32 which, accumulators& sums) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < row_blocks; ++i) FOURSCALE_UNROLL
    for (int j = 0; j < col_blocks; ++j) {
      if ((which >> (col_blocks * i + j) & 1) == 0) continue;
      const float4 y = of[col_blocks * i + j];
      float* const x = sums[i] + 4 * j;
      x[0] = y.x, x[1] = y.y, x[2] = y.z, x[3] = y.w;
    }
  }
};

/// Adds the step to those without a certificate. `first`: the first rows and columns of the warp.
template <class P>
__noinline__ FOURSCALE_D void add_exactly(P const& p, exact_place const& first, certificates c,
                                          saved_sums& sums) {
  for (u32 left = ~(c.exact & c.kept); left != 0; left &= left - 1) {
    const int bit = __ffs(static_cast<int>(left)) - 1, i = bit / col_blocks, j = bit % col_blocks;
    const exact_place at{first.row_a + 16 * i, first.row_b + 8 * j, first.step,
                         first.stage_a + static_cast<u32>(i) * row_block_bytes,
                         first.stage_b + static_cast<u32>(j) * col_block_bytes};
    sums.of[bit] = exact_step(p.a, p.b, at, (c.kept >> bit & 1) == 0, sums.of[bit]);
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (p.steps != nullptr && lane < row_blocks)
    count_steps(*p.steps, min(p.d.rows - first.row_a - 16 * lane, i64{16}), p.d.cols - first.row_b,
                (c.kept & ~c.exact) >> (col_blocks * lane) & all_cols,
                ~c.kept >> (col_blocks * lane) & all_cols);
}

/// A warp's part of the tile at (row, col) of D.
struct warp_part {
  stage_memory memory;
  int row, col;  ///< of the tile
  stage_copies copies;
  bounds_copies bounds;
  u32 rows, cols;  ///< in a stage: the lane's rows of A and B for ldmatrix

  template <class P>
  FOURSCALE_D warp_part(P const& p, stage_memory m, int r, int c)
      : memory(m), row(r), col(c), copies(p.a, p.b, r, c), bounds(p.a, p.b, r, c) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    rows = stage_of_rows() + chunk_place(lane % 16, lane / 16);
    cols = stage_of_cols() + chunk_place(lane % 8, lane / 8);
  }
  FOURSCALE_D static int down() { return static_cast<int>(threadIdx.x) / 32 / warps_across; }
  FOURSCALE_D static int across() { return static_cast<int>(threadIdx.x) / 32 % warps_across; }
  /// Bytes from the begin of a stage to the warp's first rows.
  FOURSCALE_D static u32 stage_of_rows() { return static_cast<u32>(down() * warp_rows * decoded_row_bytes); }
  FOURSCALE_D static u32 stage_of_cols() {
    return static_cast<u32>(a_bytes + across() * warp_cols * decoded_row_bytes);
  }
  FOURSCALE_D exact_place place(int step, u32 stage) const {
    return {row + down() * warp_rows, col + across() * warp_cols, step, stage + stage_of_rows(),
            stage + stage_of_cols()};
  }
  /// Its certificates in window 0 or 1.
  FOURSCALE_D uncertified_steps certify(int window) const {
    constexpr int line_bytes = 2 * window_bytes;
    return {memory.window(window) + static_cast<u32>(down() * line_bytes),
            memory.window(window) + static_cast<u32>((warps_down + across()) * line_bytes)};
  }
};

/// Copies the tile's first steps and waits for the first of them. `Whole`: the operands have all rows of the
/// tile.
template <bool Whole>
FOURSCALE_D void start_steps(warp_part& w, int steps, int ahead) {
  const stage_memory memory = w.memory;
  for (int i = 0; i < ahead; ++i) {
    FOURSCALE_UNROLL
    for (int part = 0; part < stage_copies::parts; ++part) w.copies.start<Whole>(part, memory.stage(i));
    if (i == 0) w.bounds.start(0, steps, memory.window(0));
    w.copies.next(i + 1 < steps);
    ptx::cp_async_commit_group();
  }
  if (ahead > 1)
    arrive<1>(memory.barrier(0));
  else
    arrive<0>(memory.barrier(0));
  ptx::mbarrier_wait(memory.barrier(0), 0);
}

/// The tile's steps. What is done in which slot of a step is a matter of trial.
template <bool Whole, class P>
FOURSCALE_D void multiply_steps(P const& p, warp_part& w, accumulators& sums) {
  constexpr int half = stage_copies::parts / 2;
  const stage_memory memory = w.memory;
  const int steps = static_cast<int>(p.a.steps), stages = memory.stages, ahead = steps_ahead(stages);
  start_steps<Whole>(w, steps, ahead);
  u32 stage = memory.stage(0), parity = 0, low[2][2];
  int index = 0;  // of the stage
  fragments_a a;
  load_b(stage + w.cols, 0, 0, low);
  FOURSCALE_UNROLL
  for (int block = 0; block < 4; ++block) load_a(stage + w.rows, block, a);
#pragma unroll 1
  for (int first = 0; first < steps; first += window_steps) {
    const int window = first / window_steps % 2;
    const uncertified_steps uncertified = w.certify(window);
    u32 others = uncertified.of_warp();
    w.bounds.start(first + window_steps, steps, memory.window(1 - window));
#pragma unroll 1
    for (int step = first; step < min(first + window_steps, steps); ++step, others >>= 1) {
      const int next_index = index + 1 == stages ? 0 : index + 1;
      const int filled = index + ahead >= stages ? index + ahead - stages : index + ahead;
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
      certificates c{~0u, ~0u};
      saved_sums saved;
      if ((others & 1) != 0) {
        c = uncertified.of_step(step - first);
        saved.save(~(c.exact & c.kept), sums);
      }
      add_step(a, stage + w.cols, low, sums, slot, reload);
      if ((others & 1) != 0) {
        add_exactly(p, w.place(step, stage), c, saved);
        saved.restore(~(c.exact & c.kept), sums);
      }
      if (stages == 2)
        ptx::bar_sync<0, threads>();  // the other stage is filled next
      else
        __syncwarp();  // tells the compiler that all lanes are here: counters stay in uniform registers
      stage = next, index = next_index, parity = next_parity;
    }
  }
}

/// A warp's part of the tile at (row, col) of D. `memory`: stage_memory::bytes().
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
  ptx::bar_sync<0, threads>();  // the strips take the place of the stages
  const output_store store(p);
  const exact_place to = w.place(0, 0);
  FOURSCALE_UNROLL
  for (int i = 0; i < row_blocks; ++i)
    store.template outputs<warp_cols>(p, to.row_a + 16 * i, to.row_b, sums[i],
                                      reinterpret_cast<output_strip*>(memory)[threadIdx.x / 32]);
}

}  // namespace FOURSCALE_NAMESPACE::mma::bf16_tile
