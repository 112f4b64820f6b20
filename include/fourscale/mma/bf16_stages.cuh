// SPDX-License-Identifier: Apache-2.0
// Operands of bf16_tile.cuh in shared memory: stages, each a step of both, that all threads fill with
// cp.async; behind them the bounds of two windows of steps, a barrier for each stage, and for each warp what
// its accumulators are asked (bf16_with_care.cuh).
//
// A thread arrives at the barrier of a step when what it has copied of it is there, and waits for it before
// it reads. So who has waited for a step knows that all have finished those before the last one, whose stages
// and windows may be filled again.
#pragma once

#include "../ptx/cp_async.cuh"
#include "../ptx/mbarrier.cuh"
#include "exact_step.cuh"

namespace FOURSCALE_NAMESPACE::mma::bf16_tile {

inline constexpr int warp_rows = 64, warp_cols = 64, warps_down = 2, warps_across = 4;
inline constexpr int warps = warps_down * warps_across, threads = 32 * warps;
inline constexpr int tile_rows = warps_down * warp_rows, tile_cols = warps_across * warp_cols;
inline constexpr int row_blocks = warp_rows / 16, col_blocks = warp_cols / 8;  ///< of a warp's mma
static_assert(row_blocks * col_blocks == 32, "A lane finds the certificate of 16 x 8 outputs.");
static_assert(warp_rows == bounds_rows * bounds_chunk && warp_cols == bounds_rows * bounds_chunk);

inline constexpr int a_bytes = tile_rows * decoded_row_bytes, b_bytes = tile_cols * decoded_row_bytes;
inline constexpr int stage_bytes = a_bytes + b_bytes;
/// Stages of 48 KiB. With two, all warps wait for each other in every step.
inline constexpr int least_stages = 2, most_stages = 4;

/// Bounds: for a warp's rows, or columns, 16 bytes a step.
inline constexpr int window_steps = 8, window_bytes = 16 * window_steps;
inline constexpr int bounds_bytes = (warps_down + warps_across) * 2 * window_bytes;

/// What accumulators are asked: for each warp, a byte for each of its rows and columns.
inline constexpr int depth_bytes = warp_rows + warp_cols;

/// How many steps ahead copies are started, of this many stages.
FOURSCALE_HD constexpr int steps_ahead(int stages) { return stages > 2 ? stages - 2 : 1; }

/// Where everything is, in addresses of shared memory.
struct stage_memory {
  u32 first;
  int stages;

  static constexpr int bytes(int stages) {
    return stages * stage_bytes + bounds_bytes + most_stages * 8 + warps * depth_bytes;
  }
  FOURSCALE_D u32 stage(int i) const { return first + static_cast<u32>(i * stage_bytes); }
  /// Bounds of window 0 or 1, of the warps in one line; those in the next line are 2 * window_bytes behind.
  FOURSCALE_D u32 window(int i) const { return stage(stages) + static_cast<u32>(i * window_bytes); }
  FOURSCALE_D u32 barrier(int i) const { return window(0) + static_cast<u32>(bounds_bytes + 8 * i); }
  FOURSCALE_D u32 depths() const { return barrier(most_stages) + threadIdx.x / 32 * depth_bytes; }
};

/// Copies steps into stages. A thread takes two chunks of 16 bytes, the n-th and the n-th but four, of every
/// 64th row: its address serves both. In place of rows that an operand has not, it copies the last one: what
/// comes of them is not stored. Behind the last step it copies that one again.
struct stage_copies {
  static constexpr int chunks = decoded_row_bytes / 16 / 2, rows = threads / chunks;
  static constexpr int parts_of_a = tile_rows / rows, parts = parts_of_a + tile_cols / rows;
  u8 const *a, *b;       ///< the chunks of the thread's first rows in the next step
  int last_a, last_b;    ///< the last rows of the operands, from the thread's first one on; may be negative
  u32 row_bytes, place;  ///< of an operand; in a stage

  FOURSCALE_D stage_copies(decoded_operand const& x, decoded_operand const& y, int row, int col) {
    const int r = static_cast<int>(threadIdx.x) / chunks, chunk = static_cast<int>(threadIdx.x) % chunks;
    a = reinterpret_cast<u8 const*>(x.values + (row + r) * x.padded_k()) + 16 * chunk;
    b = reinterpret_cast<u8 const*>(y.values + (col + r) * y.padded_k()) + 16 * chunk;
    last_a = static_cast<int>(x.rows) - 1 - row - r;
    last_b = static_cast<int>(y.rows) - 1 - col - r;
    row_bytes = static_cast<u32>(x.steps * decoded_row_bytes);
    place = chunk_place(r, chunk);
  }
  /// A part of the next step to this stage. Its address is found anew each time, for the accumulators need
  /// the registers. `Whole`: the operands have all rows of the tile.
  template <bool Whole>
  FOURSCALE_D void start(int part, u32 stage) {
    ptx::keep(row_bytes);
    const bool of_a = part < parts_of_a;
    const int first = (of_a ? part : part - parts_of_a) * rows;
    const int row = Whole ? first : min(first, of_a ? last_a : last_b);
    u8 const* const from = (of_a ? a : b) + i64{row} * static_cast<int>(row_bytes);
    const u32 to = static_cast<u32>((of_a ? 0 : a_bytes) + first * decoded_row_bytes);
    ptx::cp_async_cg_16(stage + place + to, from);
    ptx::cp_async_cg_16(stage + (place ^ 16 * chunks) + to, from + 16 * chunks);
  }
  /// All parts, for operands of any rows, and all copies before as one group.
  FOURSCALE_D void start_all(u32 stage) {
    FOURSCALE_UNROLL
    for (int part = 0; part < parts; ++part) start<false>(part, stage);
    ptx::cp_async_commit_group();
  }
  FOURSCALE_D void next(bool more) {
    const int by = more ? decoded_row_bytes : 0;
    a += by, b += by;
  }
};

/// Copies bounds: each of the first threads those of a step and 64 rows, or columns. Behind an operand they
/// have those of its last rows, and behind the last step that one's.
struct bounds_copies {
  u8 const* from;  ///< of the first step

  FOURSCALE_D bounds_copies(decoded_operand const& x, decoded_operand const& y, int row, int col) {
    const int line = static_cast<int>(threadIdx.x) / window_steps;
    const bool of_a = line < warps_down;
    const int last = static_cast<int>(ceil_div<i64>(of_a ? x.rows : y.rows, warp_rows)) - 1;
    const int chunk = min(of_a ? row / warp_rows + line : col / warp_cols + line - warps_down, last);
    from = reinterpret_cast<u8 const*>(of_a ? x.bounds : y.bounds) + chunk * x.steps * 16;
  }
  /// The window of this first step to stage_memory::window().
  FOURSCALE_D void start(int first, int steps, u32 window) const {
    const u32 thread = threadIdx.x, line = thread / window_steps, step = thread % window_steps;
    if (line < warps_down + warps_across)
      ptx::cp_async_cg_16(window + line * (2 * window_bytes) + step * 16,
                          from + i64{min(first + static_cast<int>(step), steps - 1)} * 16);
  }
};

/// What this thread has started has arrived, but for the latest groups. All threads arrive: one lane for its
/// warp is 2 % faster, but racecheck does not follow it.
template <int LatestGroups>
FOURSCALE_D void arrive(u32 barrier) {
  ptx::cp_async_wait_group<LatestGroups>();
  ptx::mbarrier_arrive(barrier);
}

// ---------------------------------------------------------------- certify

/// Whether the sum of byte 0 of `one` and of a byte of `two`, 0 or 2, is `Sum` or more: both at once.
template <u32 Sum>
FOURSCALE_HD constexpr bool one_reaches(u32 two, u32 one) {
  constexpr u32 both = 0x1'0001u;
  return (((two & 0xff * both) + (one & 0xff) * both + (0x8000 - Sum) * both) & 0x8000 * both) != 0;
}
/// Of two times eight rows and of eight columns, the bounds of each in two bytes: not all sums are exact.
FOURSCALE_HD constexpr bool sums_may_round(u32 of_rows, u32 of_cols) {
  return one_reaches<8 * 24>(of_rows, of_cols);
}
/// Something may be dropped.
FOURSCALE_HD constexpr bool bits_may_drop(u32 of_rows, u32 of_cols) {
  return one_reaches<35 + 1>(of_rows >> 8, of_cols >> 8);
}

/// The certificates of a lane in a window's steps: rows 16 i to 16 i + 15 of the warp and columns 8 j to
/// 8 j + 7 for lane 8 i + j. Two bits a step: bit n that not all sums are proved exact, and bit 16 + n that
/// the adder may drop bits, in step n.
struct uncertified_steps {
  u32 bits = 0;

  /// From the window of the warp's rows and that of its columns.
  FOURSCALE_D uncertified_steps(u32 window_of_rows, u32 window_of_cols) {
    const u32 lane = threadIdx.x % 32;
    const u32 rows = window_of_rows + lane / col_blocks * 4, cols = window_of_cols + lane % col_blocks * 2;
    FOURSCALE_UNROLL
    for (int step = 0; step < window_steps; ++step) {
      const u32 place = static_cast<u32>(16 * step);
      const u32 two = ptx::load_shared_u32(rows + place), one = ptx::load_shared_u16(cols + place);
      bits |= sums_may_round(two, one) ? 1u << step : 0u;
      bits |= bits_may_drop(two, one) ? 0x1'0000u << step : 0u;
    }
  }
  FOURSCALE_D bool any_of_warp() const { return __any_sync(~0u, bits != 0) != 0; }
  FOURSCALE_D certificates of_step(int step) const {
    return {__ballot_sync(~0u, (bits >> step & 1) == 0), __ballot_sync(~0u, (bits >> (16 + step) & 1) == 0)};
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma::bf16_tile
