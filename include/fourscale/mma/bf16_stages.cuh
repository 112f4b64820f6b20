// SPDX-License-Identifier: Apache-2.0
// Operands of bf16_tile.cuh in shared memory: stages, each a step of both, that all threads fill with
// cp.async; behind them a barrier for each stage, and what each warp's accumulators are asked.
//
// A thread arrives at the barrier of a step when what it has copied of it is there, and waits for it before
// it reads. So who has waited for a step knows that all have finished those before the last one, whose stages
// may be filled again.
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

/// What accumulators are asked: for each warp, a byte for each of its rows and columns.
inline constexpr int depth_bytes = warp_rows + warp_cols;

/// How many steps ahead copies are started, of this many stages.
FOURSCALE_HD constexpr int steps_ahead(int stages) { return stages > 2 ? stages - 2 : 1; }

/// Where everything is, in addresses of shared memory.
struct stage_memory {
  u32 first;
  int stages;

  static constexpr int bytes(int stages) {
    return stages * stage_bytes + most_stages * 8 + warps * depth_bytes;
  }
  /// The stage of so many steps later.
  FOURSCALE_D int later(int i, int by) const { return i + by >= stages ? i + by - stages : i + by; }
  FOURSCALE_D u32 stage(int i) const { return first + static_cast<u32>(i * stage_bytes); }
  FOURSCALE_D u32 barrier(int i) const { return stage(stages) + static_cast<u32>(8 * i); }
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

/// What this thread has started has arrived, but for the latest groups. All threads arrive: one lane for its
/// warp is 2 % faster, but racecheck does not follow it.
template <int LatestGroups>
FOURSCALE_D void arrive(u32 barrier) {
  ptx::cp_async_wait_group<LatestGroups>();
  ptx::mbarrier_arrive(barrier);
}

}  // namespace FOURSCALE_NAMESPACE::mma::bf16_tile
