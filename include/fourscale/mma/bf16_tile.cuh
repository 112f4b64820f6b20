// SPDX-License-Identifier: Apache-2.0
// A CTA's 128 x 256 tile of A * B^T with the bits of Blackwell's block-scaled MMA, on any GPU from sm_80 on.
// A step of K = 64 is a chain of four mma.sync from zero, and one addition rounded toward zero to the
// accumulator. Eight warps take 64 x 64 outputs each. A stage of shared memory is a step of both operands;
// all threads fill it with cp.async.
//
// Four warps, one of each quarter of the processor, run half a step behind the others: they come to the
// barrier of a step in the middle of the step before. So one warp of a quarter multiplies while the other
// one loads its rows of A or waits.
#pragma once

#include "../ptx/bar.cuh"
#include "../ptx/cp_async.cuh"
#include "../ptx/mbarrier.cuh"
#include "../view/gemm_epilogue.hpp"
#include "../view/gemm_factors.hpp"
#include "exact_step.cuh"
#include "output_strip.cuh"
#include "step_counts.cuh"
#include "tile_walk.cuh"

namespace FOURSCALE_NAMESPACE::mma::bf16_tile {

inline constexpr int warp_rows = 64, warp_cols = 64, warps_down = 2, warps_across = 4;
inline constexpr int warps = warps_down * warps_across, threads = 32 * warps;
inline constexpr int tile_rows = warps_down * warp_rows, tile_cols = warps_across * warp_cols;
inline constexpr int a_bytes = tile_rows * decoded_row_bytes, b_bytes = tile_cols * decoded_row_bytes;
inline constexpr int stage_bytes = a_bytes + b_bytes;
/// Stages of 48 KiB. With two, all warps run in step.
inline constexpr int least_stages = 2, most_stages = 4;

inline constexpr int row_blocks = warp_rows / 16, col_blocks = warp_cols / 8;  ///< of a warp's mma
inline constexpr u32 row_block_bytes = 16 * decoded_row_bytes, col_block_bytes = 8 * decoded_row_bytes;
inline constexpr u32 all_cols = (1u << col_blocks) - 1;
static_assert(row_blocks * col_blocks == 32, "A lane finds the certificate of 16 x 8 outputs.");
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

// ---------------------------------------------------------------- copy, certify

inline constexpr int chunks = decoded_row_bytes / 16, copy_rows = threads / chunks;

/// Copies steps into stages. A thread takes a chunk of 16 bytes of every 32nd row. In place of rows that an
/// operand has not, it copies the last one: what comes of them is not stored.
struct stage_copies {
  u8 const *a, *b;       ///< the chunks of the thread's first rows in the next step
  u32 last_a, last_b;    ///< the last rows of the operands, from the thread's first one on; may be negative
  u32 row_bytes, place;  ///< of an operand; in a stage

  FOURSCALE_D stage_copies(decoded_operand const& x, decoded_operand const& y, int row, int col) {
    const int r = static_cast<int>(threadIdx.x) / chunks, chunk = static_cast<int>(threadIdx.x) % chunks;
    a = reinterpret_cast<u8 const*>(x.values + (row + r) * x.padded_k()) + 16 * chunk;
    b = reinterpret_cast<u8 const*>(y.values + (col + r) * y.padded_k()) + 16 * chunk;
    last_a = static_cast<u32>(static_cast<int>(x.rows) - 1 - row - r);
    last_b = static_cast<u32>(static_cast<int>(y.rows) - 1 - col - r);
    row_bytes = static_cast<u32>(x.steps * decoded_row_bytes);
    place = chunk_place(r, chunk);
  }
  /// The next step to this stage. Addresses are found anew each time, for the accumulators need the
  /// registers.
  FOURSCALE_D void start(u32 stage) {
    for (u32* x : {&last_a, &last_b, &row_bytes}) ptx::keep(*x);
    copy<tile_rows>(a, last_a, stage + place);
    copy<tile_cols>(b, last_b, stage + a_bytes + place);
    a += decoded_row_bytes, b += decoded_row_bytes;
  }

 private:
  template <int Rows>
  FOURSCALE_D void copy(u8 const* from, u32 last, u32 to) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < Rows / copy_rows; ++i)
      ptx::cp_async_cg_16(
          to + static_cast<u32>(i * copy_rows * decoded_row_bytes),
          from + i64{min(i * copy_rows, static_cast<int>(last))} * static_cast<int>(row_bytes));
  }
};

/// The stages of shared memory, one after the other and again from the first.
struct stage_ring {
  u32 first, end;

  FOURSCALE_D u32 ahead(u32 stage, int by) const {
    const u32 to = stage + static_cast<u32>(by * stage_bytes);
    return to < end ? to : to - (end - first);
  }
};

/// How many steps ahead of the one that has just arrived copies are started, of this many stages: one stage
/// less than would be without warps that are behind.
FOURSCALE_HD constexpr int steps_ahead(int stages) { return stages > 2 ? stages - 2 : 1; }

/// Waits until a step has arrived for all. The stage that no warp needs any more may be filled again.
FOURSCALE_D inline void wait_for_step(int stages) {
  if (steps_ahead(stages) > 1)
    ptx::cp_async_wait_group<1>();
  else
    ptx::cp_async_wait_group<0>();
  ptx::bar_sync<0, threads>();
}

/// Reads the bounds of steps: lanes 0 to 7 of eight rows each, 8 to 15 of eight columns each. Those beyond an
/// operand have the bounds of the last ones there are.
struct bounds_reader {
  u16 const* at;  ///< of the next step

  FOURSCALE_D bounds_reader(decoded_operand const& a, decoded_operand const& b, int row, int col) {
    const i64 lane = threadIdx.x % 32, r = row / bounds_rows + lane % 8, c = col / bounds_rows + lane % 8;
    at = lane < 8 ? reinterpret_cast<u16 const*>(a.bounds) + a.bounds_at(min(r, a.row_groups() - 1), 0)
                  : reinterpret_cast<u16 const*>(b.bounds) + b.bounds_at(min(c, b.row_groups() - 1), 0);
  }
  FOURSCALE_D u32 next() {
    const u32 bounds = *at;
    at += bounds_chunk;
    return bounds;
  }
};
static_assert(warp_rows == 8 * bounds_rows && warp_cols == 8 * bounds_rows);

/// From what the lanes of the warp have read. Bit 8 i + j is for rows 16 i to 16 i + 15, columns 8 j to 8 j +
/// 7.
FOURSCALE_D inline certificates certify(u32 bounds) {
  u32 lane = threadIdx.x % 32;
  ptx::keep(lane);  // found anew each time: the accumulators need the registers
  const u32 pairs = __vmaxu4(bounds, __shfl_xor_sync(~0u, bounds, 1)),
            rows = __shfl_sync(~0u, pairs, static_cast<int>(lane) / col_blocks * 2),
            cols = __shfl_sync(~0u, bounds, 8 + static_cast<int>(lane) % col_blocks);
  const fourscale::model::step_bounds of_rows{static_cast<u8>(rows), static_cast<u8>(rows >> 8)},
      of_cols{static_cast<u8>(cols), static_cast<u8>(cols >> 8)};
  return {__ballot_sync(~0u, sums_are_exact(of_rows, of_cols)),
          __ballot_sync(~0u, nothing_is_dropped(of_rows, of_cols))};
}

// ---------------------------------------------------------------- multiply

/// Sums of a thread: of each 16 rows, as mma.sync and output_store have them.
using accumulators = float[row_blocks][warp_cols / 2];
/// A step of a warp's rows of A, as mma.sync takes them.
using fragments_a = u32[4][row_blocks][4];

/// Blocks of 16 values along K change the places of chunks only: their addresses differ in these bits.
FOURSCALE_HD constexpr u32 block_bits(int block) { return static_cast<u32>(block) * 32; }

/// `rows`: where the lane's row of the first block is.
FOURSCALE_D inline void load_a(u32 rows, fragments_a& a) {
  FOURSCALE_UNROLL
  for (int block = 0; block < 4; ++block) FOURSCALE_UNROLL
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

/// A step of `Count` groups of eight columns from First on. `fast`: the certificates where not all hold; sums
/// without one stay as they are.
template <bool All, int First, int Count>
FOURSCALE_D void add_cols(fragments_a const& a, u32 cols, u32 fast, accumulators& sums) {
  constexpr float zero[4] = {};
  u32 low[2][2], high[2][2];
  load_b(cols, 0, First, low);
  FOURSCALE_UNROLL
  for (int j = First; j < First + Count; ++j) {
    float chain[row_blocks][4];
    load_b(cols, 2, j, high);
    FOURSCALE_UNROLL
    for (int i = 0; i < row_blocks; ++i) ptx::mma_sync_m16n8k16_bf16(chain[i], a[0][i], low[0], zero);
    FOURSCALE_UNROLL
    for (int i = 0; i < row_blocks; ++i) ptx::mma_sync_m16n8k16_bf16(chain[i], a[1][i], low[1], chain[i]);
    if (j + 1 < First + Count) load_b(cols, 0, j + 1, low);
    FOURSCALE_UNROLL
    for (int i = 0; i < row_blocks; ++i) ptx::mma_sync_m16n8k16_bf16(chain[i], a[2][i], high[0], chain[i]);
    FOURSCALE_UNROLL
    for (int i = 0; i < row_blocks; ++i) ptx::mma_sync_m16n8k16_bf16(chain[i], a[3][i], high[1], chain[i]);
    FOURSCALE_UNROLL
    for (int i = 0; i < 4 * row_blocks; ++i) {
      float& sum = sums[i / 4][4 * j + i % 4];
      if (All || (fast >> (col_blocks * (i / 4) + j) & 1) != 0) sum = __fadd_rz(sum, chain[i / 4][i % 4]);
    }
  }
}

/// The sums without a certificate. `first`: the first rows and columns of the warp.
template <class P>
FOURSCALE_D void add_exactly(P const& p, exact_place const& first, certificates c, accumulators& sums) {
  FOURSCALE_UNROLL
  for (int i = 0; i < row_blocks; ++i) FOURSCALE_UNROLL
  for (int j = 0; j < col_blocks; ++j) {
    const int bit = col_blocks * i + j;
    if ((c.exact & c.kept) >> bit & 1) continue;
    float* const x = sums[i] + 4 * j;
    const exact_place at{first.row_a + 16 * i, first.row_b + 8 * j, first.step,
                         first.stage_a + static_cast<u32>(i) * row_block_bytes,
                         first.stage_b + static_cast<u32>(j) * col_block_bytes};
    const float4 y = exact_step(p.a, p.b, at, (c.kept >> bit & 1) == 0, {x[0], x[1], x[2], x[3]});
    x[0] = y.x, x[1] = y.y, x[2] = y.z, x[3] = y.w;
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (p.steps != nullptr && lane < row_blocks)
    count_steps(*p.steps, min(p.d.rows - first.row_a - 16 * lane, i64{16}), p.d.cols - first.row_b,
                (c.kept & ~c.exact) >> (col_blocks * lane) & all_cols,
                ~c.kept >> (col_blocks * lane) & all_cols);
}

/// Where a warp's outputs are in the tile.
struct place_in_tile {
  int warp, row, col;
  u32 a, b;  ///< bytes from the begin of a stage to the warp's first rows

  FOURSCALE_D place_in_tile() : place_in_tile(static_cast<int>(threadIdx.x) / 32) {}
  FOURSCALE_D explicit place_in_tile(int w)
      : warp(w),
        row(w / warps_across * warp_rows),
        col(w % warps_across * warp_cols),
        a(static_cast<u32>(row * decoded_row_bytes)),
        b(static_cast<u32>(a_bytes + col * decoded_row_bytes)) {}
};

/// What a warp needs in every step.
struct warp_state {
  stage_copies copies;
  bounds_reader bounds;
  stage_ring ring;
  u32 rows, cols;  ///< in a stage: the lane's rows of A and B for ldmatrix

  /// The place of the warp's outputs, from what is at hand: no registers are held for it.
  template <class P>
  FOURSCALE_D exact_place place(P const& p, int step, u32 stage) const {
    u32 thread = threadIdx.x;
    ptx::keep(thread);
    const place_in_tile at(static_cast<int>(thread) / 32);
    const int r = static_cast<int>(thread) / chunks;
    return {static_cast<int>(p.a.rows) - 1 - r - static_cast<int>(copies.last_a) + at.row,
            static_cast<int>(p.b.rows) - 1 - r - static_cast<int>(copies.last_b) + at.col, step, stage + at.a,
            stage + at.b};
  }
};

/// Starts the copies of the step that comes `by` steps after that of `stage`, if it is one.
FOURSCALE_D inline void start_copies(warp_state& s, u32 stage, int by, bool there) {
  if (there) s.copies.start(s.ring.ahead(stage, by));
  ptx::cp_async_commit_group();
}

/// A warp's part of the tile's steps, from copies that are on their way on.
template <class P>
FOURSCALE_D void multiply_steps(P const& p, int stages, warp_state& s, accumulators& sums) {
  const int steps = static_cast<int>(p.a.steps), distance = steps_ahead(stages);
  const bool behind = static_cast<int>(threadIdx.x) >= threads / 2 && stages > 2;
  u32 stage = s.ring.first, next = s.bounds.next();
  if (behind) wait_for_step(stages);
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    if (!behind) wait_for_step(stages);
    start_copies(s, stage, distance, step + distance < steps);
    fragments_a a;
    load_a(stage + s.rows, a);
    const u32 bounds = next;
    if (step + 1 < steps) next = s.bounds.next();
    const certificates c = certify(bounds);
    const u32 fast = c.exact & c.kept;
    if (fast == ~0u)
      add_cols<true, 0, col_blocks / 2>(a, stage + s.cols, fast, sums);
    else
      add_cols<false, 0, col_blocks / 2>(a, stage + s.cols, fast, sums);
    if (behind && step + 1 < steps) wait_for_step(stages);
    if (fast == ~0u) {
      add_cols<true, col_blocks / 2, col_blocks / 2>(a, stage + s.cols, fast, sums);
    } else {
      add_cols<false, col_blocks / 2, col_blocks / 2>(a, stage + s.cols, fast, sums);
      add_exactly(p, s.place(p, step, stage), certify(bounds), sums);
    }
    stage = s.ring.ahead(stage, 1);
  }
}

/// A warp's part of the tile at (row, col) of D. `memory`: the stages.
template <class P>
FOURSCALE_D void multiply(P const& p, int row, int col, int stages, u8* memory) {
  const int lane = static_cast<int>(threadIdx.x) % 32, steps = static_cast<int>(p.a.steps);
  const u32 first_stage = ptx::shared_address(memory);
  const place_in_tile at;
  warp_state s{{p.a, p.b, row, col},
               {p.a, p.b, row + at.row, col + at.col},
               {first_stage, first_stage + static_cast<u32>(stages * stage_bytes)},
               at.a + chunk_place(lane % 16, lane / 16),
               at.b + chunk_place(lane % 8, lane / 8)};
  for (int i = 0; i < steps_ahead(stages); ++i) start_copies(s, first_stage, i, i < steps);
  accumulators sums{};
  multiply_steps(p, stages, s, sums);
  ptx::bar_sync<0, threads>();  // the strips take the place of the stages
  const output_store store(p);
  const exact_place to = s.place(p, steps, first_stage);
  FOURSCALE_UNROLL
  for (int i = 0; i < row_blocks; ++i)
    store.template outputs<warp_cols>(p, to.row_a + 16 * i, to.row_b, sums[i],
                                      reinterpret_cast<output_strip*>(memory)[threadIdx.x / 32]);
}

}  // namespace FOURSCALE_NAMESPACE::mma::bf16_tile
