// SPDX-License-Identifier: Apache-2.0
// What the roles of the GEMM by wgmma share: the sizes of its tile, shared memory, and the arguments of the
// kernel. How it works: wgmma_roles.cuh.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "../ptx/prefetch.cuh"
#include "../view/gemm_factors.hpp"
#include "carried_sums.cuh"
#include "certified_strips.cuh"
#include "decoded_operand.cuh"
#include "exact_step.cuh"
#include "output_rows.cuh"
#include "step_counts.cuh"
#include "tile_parts.cuh"
#include "wgmma_way.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

inline constexpr int cluster_ctas = 2, multiply_groups = 2, threads = 128 * (1 + multiply_groups);
inline constexpr int tile_rows = 64 * multiply_groups;
inline constexpr int low_tile_rows = tile_rows / 2, low_tile_cols = 64;  ///< cluster_tiles::low
/// Of a thread. Two groups of the former and one of the latter have what three have when the kernel begins.
inline constexpr int multiply_registers = 224, other_registers = 56;
inline constexpr int strips =
    tile_rows / output_rows;  ///< of sixteen rows, one for each warp that multiplies
inline constexpr int a_bytes = tile_rows * decoded_row_bytes;
/// Steps of a tile go in runs, a stage each, so that an inner loop knows all addresses. Behind K they are of
/// zeros, which change no sum.
inline constexpr int run_steps = 4, certify_warps = 3;
/// Runs of a tile go in windows. Of a window one word says which steps whole tiles certify: a bit each. A run
/// of four such steps needs no certificates of its own.
inline constexpr int window_steps = 32, window_runs = window_steps / run_steps;
/// Whose certificates there is room for, and of how many of these what accumulators are asked.
inline constexpr int certified_runs = 8, depth_runs = 4;
inline constexpr u32 whole_run = (1u << run_steps) - 1;

/// A tile of 128 rows by Cols columns: 192, or 128 or 64 where these keep more of a GPU busy. One of 64
/// columns may have 64 rows, for one warpgroup.
template <int Cols>
struct tile {
  static constexpr int col_groups = Cols / bounds_rows;  ///< of eight columns, which share their bounds
  static constexpr int half_cols = Cols / cluster_ctas;  ///< of B, which each CTA loads for both
  static constexpr int b_bytes = Cols * decoded_row_bytes, stage_bytes = a_bytes + b_bytes;
  static constexpr u32 all_cols = (1u << col_groups) - 1;
  /// Runs that have stages. Copies of narrow tiles take longer than a run of theirs.
  static constexpr int stage_runs = Cols == 64 ? 2 : 1, stages = stage_runs * run_steps;
  /// Parts of tiles of which a step may be on its way, and that which is multiplied: each has a run or more.
  static constexpr u32 parts = 2 * stage_runs;
  /// launch_wgmma() refuses what has more tiles than this can count.
  using walk = tile_parts<tile_rows, Cols, cluster_ctas>;
};

/// Which steps of a window whole tiles certify, a bit each: that all of its sums are exact and nothing is
/// dropped, or the latter alone.
struct window_words {
  u32 hold = 0, kept = 0;

  FOURSCALE_D void next_run() { hold >>= run_steps, kept >>= run_steps; }
};

/// A part of a tile, as `load` leaves it to those that multiply.
struct tile_part {
  i32 row, col, first, runs;  ///< as in tile_parts
  u32 is_first, is_second;
};

/// Of a step: magnitudes, and bounds for their units, of the rows of a tile in eights, then of its columns.
template <int Cols>
struct magnitudes_of_step {
  static constexpr int groups = tile_rows / bounds_rows + tile<Cols>::col_groups;
  fourscale::model::step_magnitudes of[groups];
  fourscale::model::step_bounds bounds[groups];
};

template <int Cols>
struct shared_memory {
  alignas(1024) u8 stage[tile<Cols>::stages][tile<Cols>::stage_bytes];  ///< A, then B
  output_memory<Cols, strips> output;                                   ///< of each warp
  output_rows_of_warp<Cols> outputs[strips];                            ///< of each warp
  /// Of the warp that loads, and of each that certifies.
  typename tile<Cols>::walk walks[1 + certify_warps];
  /// The part that is multiplied, and those that are loaded. A part is there with its first stage; when that
  /// is written over, all are done with the part that had these words before.
  tile_part parts[tile<Cols>::parts];
  int all_runs;  ///< of all parts
  /// Certificates of the last runs that no window certifies; bits: eight columns each.
  certificates of_rows[certified_runs][run_steps][strips];
  /// For runs in which the adder may drop bits: depths of accumulators (bytes_of_eight), and where
  /// scales drop nothing, as in `of_rows`.
  alignas(16) u8 depths_of_rows[depth_runs][run_steps][tile_rows],
      depths_of_cols[depth_runs][run_steps][Cols];
  u32 limited[depth_runs][run_steps][strips];
  /// Below this no accumulator of a strip makes the adder drop anything where scales drop nothing: asked
  /// first.
  float limits[depth_runs][run_steps][strips];
  exact_columns redone[strips];                        ///< of each warp
  magnitudes_of_step<Cols> magnitudes[certify_warps];  ///< of each warp that certifies
  /// All of a warpgroup's certificates of the step hold.
  alignas(16) u32 fast[certified_runs][multiply_groups][run_steps];
  window_words window[2];
  u32 windows_begun;  ///< by whichever warp that certifies comes first
  alignas(8) std::uint64_t full[tile<Cols>::stages], empty[tile<Cols>::stages], turn[multiply_groups],
      outputs_there[strips], certified[certified_runs], used[certified_runs], window_filled[2],
      window_read[2];
};

/// D = alpha * A * B^T + beta * D: the arguments of the kernel.
template <class T, class Factors>
struct problem {
  static constexpr bool grouped = false;  ///< many GEMMs in one: wgmma_groups.cuh
  CUtensorMap map_a, map_b;  ///< of the values: boxes of a step by tile_rows, and by half_cols of a tile
  CUtensorMap map_d;         ///< if outputs go by boxes: see output_rows.cuh
  decoded_operand a, b;
  matrix_view<T> d;
  Factors factor_of;  ///< of an output: see output_strip.cuh
  float beta;
  gemm_steps* steps;                           ///< counts, or null
  bool split = false;                          ///< the last tiles are shared evenly: see tile_parts.cuh
  cluster_tiles lie = cluster_tiles::stacked;  ///< low: 64 rows by 64 columns, for one warpgroup
  carried_sums carried = {};
  way_sample* samples = nullptr;            ///< [way_samples]
  float by_blocks_above = share_by_blocks;  ///< see is_faster_by_blocks()
  certified_strips certified = {};          ///< if strips are certified ahead
};

/// Whether tiles are low. With other columns nobody has to ask.
template <int Cols, class P>
FOURSCALE_D bool has_low_tiles(P const& p) {
  return Cols == low_tile_cols && p.lie == cluster_tiles::low;
}

/// Runs of a tile.
template <class P>
FOURSCALE_D int runs_of(P const& p) {
  return static_cast<int>(ceil_div<i64>(p.a.steps, run_steps));
}

/// One thread: the first copies do not wait for their maps.
template <class P>
FOURSCALE_D void prefetch_maps(P const& p) {
  for (CUtensorMap const* map : {&p.map_a, &p.map_b}) ptx::prefetch_tensormap(map);
}

FOURSCALE_D inline void wait(std::uint64_t* barrier, u32 parity) {
  while (!cuda::ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}
template <int Cols>
FOURSCALE_D void init_barriers(shared_memory<Cols>& m, bool low) {
  const u32 warps = low ? strips / 2 : strips;
  for (int i = 0; i < tile<Cols>::stages; ++i) {
    cuda::ptx::mbarrier_init(m.full + i, 1);
    cuda::ptx::mbarrier_init(m.empty + i, warps * cluster_ctas);
  }
  for (auto& there : m.outputs_there) cuda::ptx::mbarrier_init(&there, 1);
  for (int i = 0; i < multiply_groups; ++i) cuda::ptx::mbarrier_init(m.turn + i, 4);
  for (int i = 0; i < certified_runs; ++i) {
    cuda::ptx::mbarrier_init(m.certified + i, 1);
    cuda::ptx::mbarrier_init(m.used + i, warps);
  }
  m.windows_begun = 0;
  for (int i = 0; i < 2; ++i) {
    cuda::ptx::mbarrier_init(m.window_filled + i, 1);
    cuda::ptx::mbarrier_init(m.window_read + i, warps + certify_warps - 1);
  }
  cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
