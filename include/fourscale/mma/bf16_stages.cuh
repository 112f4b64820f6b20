// SPDX-License-Identifier: Apache-2.0
// Shared memory of bf16_tile.cuh: pipeline stages, each a step (K = 64) of both operands, which all threads
// fill with cp.async; behind them an mbarrier for each stage, and each warp's depths (load_limits()).
//
// A thread arrives at the barrier of step s + 1 during step s, when its own copies have landed, and waits
// there before it reads. So a thread that has waited for step s knows that all threads have finished the
// steps up to s - 2, whose stages may be filled again: no "empty" barriers are needed.
#pragma once

#include "../ptx/cp_async.cuh"
#include "../ptx/mbarrier.cuh"
#include "exact_step.cuh"

namespace FOURSCALE_NAMESPACE::mma::bf16_tile {

inline constexpr int warp_rows = 64, warp_cols = 64, warps_down = 2, warps_across = 4;
inline constexpr int warps = warps_down * warps_across, threads = 32 * warps;
inline constexpr int tile_rows = warps_down * warp_rows, tile_cols = warps_across * warp_cols;
inline constexpr int row_blocks = warp_rows / 16, col_blocks = warp_cols / 8;  ///< m16n8 tiles of a warp
static_assert(row_blocks * col_blocks == 32, "A lane finds the certificate of 16 x 8 outputs.");
static_assert(warp_rows == bounds_rows * bounds_chunk && warp_cols == bounds_rows * bounds_chunk);

inline constexpr int a_bytes = tile_rows * decoded_row_bytes, b_bytes = tile_cols * decoded_row_bytes;
inline constexpr int stage_bytes = a_bytes + b_bytes;
/// A stage has 48 KiB. With two stages, all warps wait for each other in every step.
inline constexpr int least_stages = 2, most_stages = 4;

/// The depths (accumulator_bounds::depth) of a warp's rows and columns in a step, a byte each.
inline constexpr int depth_bytes = warp_rows + warp_cols;

/// How many steps ahead of the current one copies are started.
FOURSCALE_HD constexpr int steps_ahead(int stages) { return stages > 2 ? stages - 2 : 1; }

/// Where everything lies, as shared-memory addresses. `first`: of stage 0, a multiple of 1024.
struct stage_memory {
  u32 first;
  int stages;

  static constexpr int bytes(int stages) {
    return stages * stage_bytes + most_stages * 8 + warps * depth_bytes;
  }
  /// The stage of the step that comes `by` steps after that of stage i.
  FOURSCALE_D int later(int i, int by) const { return i + by >= stages ? i + by - stages : i + by; }
  FOURSCALE_D u32 stage(int i) const { return first + static_cast<u32>(i * stage_bytes); }
  FOURSCALE_D u32 barrier(int i) const { return stage(stages) + static_cast<u32>(8 * i); }
  FOURSCALE_D u32 depths() const { return barrier(most_stages) + threadIdx.x / 32 * depth_bytes; }
};

/// Copies steps into stages. A thread copies the 16-byte chunks n and n + 4 of every 64th row, so that one
/// address serves both. In place of rows beyond the operand it copies the last row; outputs of these are not
/// stored. Beyond the last step it copies that step again.
struct stage_copies {
  static constexpr int chunks = decoded_row_bytes / 16 / 2, rows = threads / chunks;
  static constexpr int parts_of_a = tile_rows / rows, parts = parts_of_a + tile_cols / rows;
  u8 const *a, *b;       ///< chunk n of the thread's first rows of A and B, in the next step
  int last_a, last_b;    ///< last rows of the operands, relative to the thread's first ones; may be negative
  u32 row_bytes, place;  ///< bytes of a row of an operand; offset of chunk n in a stage of A or of B

  FOURSCALE_D stage_copies(decoded_operand const& x, decoded_operand const& y, int row, int col) {
    const int r = static_cast<int>(threadIdx.x) / chunks, chunk = static_cast<int>(threadIdx.x) % chunks;
    a = reinterpret_cast<u8 const*>(x.values + (row + r) * x.padded_k()) + 16 * chunk;
    b = reinterpret_cast<u8 const*>(y.values + (col + r) * y.padded_k()) + 16 * chunk;
    last_a = static_cast<int>(x.rows) - 1 - row - r;
    last_b = static_cast<int>(y.rows) - 1 - col - r;
    row_bytes = static_cast<u32>(x.steps * decoded_row_bytes);
    place = chunk_place(r, chunk);
  }
  /// Starts 64 rows of the next step, part `part`, into this stage. Computes the address anew each time,
  /// since accumulators need the registers. `Whole`: the operands have all rows of the tile.
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
  /// Starts all parts, for operands of any number of rows, and commits all pending copies as one group.
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

/// Waits for all of this thread's groups of copies but the latest ones, then arrives. All threads arrive:
/// racecheck does not follow one lane that arrives for its warp.
template <int LatestGroups>
FOURSCALE_D void arrive(u32 barrier) {
  ptx::cp_async_wait_group<LatestGroups>();
  ptx::mbarrier_arrive(barrier);
}

}  // namespace FOURSCALE_NAMESPACE::mma::bf16_tile
