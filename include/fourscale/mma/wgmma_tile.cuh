// SPDX-License-Identifier: Apache-2.0
// What the roles of the GEMM by wgmma (wgmma_roles.cuh) share: the sizes of its tile, the shared memory with
// its barriers, and the arguments of the kernel. A strip is the 16 rows of one warp. A group of columns is
// eight columns, which share their bounds. Along K, a step is 64 values, a run four steps, a window 32 steps.
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
#include "run_limits.cuh"
#include "step_counts.cuh"
#include "tile_parts.cuh"
#include "wgmma_way.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

inline constexpr int cluster_ctas = 2, multiply_groups = 2, multiply_threads = 128 * multiply_groups;
inline constexpr int threads = 128 + multiply_threads;
inline constexpr int tile_rows = 64 * multiply_groups;
inline constexpr int low_tile_rows = tile_rows / 2, low_tile_cols = 64;  ///< cluster_tiles::low
/// Registers of a thread, by setmaxnreg. Two warpgroups that multiply and the one with the other roles have
/// together what three warpgroups have when the kernel begins.
inline constexpr int multiply_registers = 224, other_registers = 56;
inline constexpr int strips = tile_rows / output_rows;  ///< of 16 rows, one for each warp that multiplies
inline constexpr int a_bytes = tile_rows * decoded_row_bytes;
/// The steps of a tile go in runs. Each step of a run has its own stage, so that an unrolled loop over a run
/// knows all addresses. Steps behind K are zeros, which change no sum.
inline constexpr int run_steps = 4, certify_warps = 3;
/// The runs of a tile go in windows. One word of a window has a bit for each step: set if the step is
/// certified for the whole tile. A run of four such steps needs no certificates of its own.
inline constexpr int window_steps = 32, window_runs = window_steps / run_steps;
/// How many runs' certificates shared memory has room for, and how many runs' depths, which give the limits
/// of accumulators.
inline constexpr int certified_runs = 8, depth_runs = 4;
inline constexpr u32 whole_run = (1u << run_steps) - 1;

/// The tile of a CTA: 128 rows by Cols columns, 192, or 128 or 64 where these keep more of a GPU busy. A tile
/// of 64 columns may have 64 rows, for one warpgroup.
template <int Cols>
struct tile {
  static constexpr int col_groups = Cols / bounds_rows;  ///< groups of eight columns
  static constexpr int half_cols = Cols / cluster_ctas;  ///< rows of B in one copy
  static constexpr int b_bytes = Cols * decoded_row_bytes, stage_bytes = a_bytes + b_bytes;
  static constexpr u32 all_cols = (1u << col_groups) - 1;
  /// Runs that have stages at a time. The copies of a narrow tile take longer than the products of one run.
  static constexpr int stage_runs = Cols == 64 ? 2 : 1, stages = stage_runs * run_steps;
  /// Slots for parts of tiles: the part that is multiplied, and those of which a step may be on its way. Each
  /// part has at least one run.
  static constexpr u32 parts = 2 * stage_runs;
  /// wgmma_call (device/gemm_wgmma.cuh) refuses a D of more tiles than this can count.
  using walk = tile_parts<tile_rows, Cols, cluster_ctas>;
};

/// What is proved of a window's steps for the whole tile, a bit for each step. hold: all sums are exact and
/// the adder drops nothing. kept: the adder drops nothing.
struct window_words {
  u32 hold = 0, kept = 0;

  FOURSCALE_D void next_run() { hold >>= run_steps, kept >>= run_steps; }
};

/// A part of a tile along K, which `load` writes for the warps that multiply.
struct alignas(16) tile_part {
  i32 row, col;  ///< this, `runs` and `first` as in tile_parts
  u32 is_first;
  i32 runs, first;
  u32 is_second;
};
/// What the end of a part needs of it, by one load: where the outputs of a strip go, and if the part is a
/// first one, whose sums are handed over.
struct part_end {
  output_place at;
  bool is_first;

  /// `part`: shared address of a tile_part.
  FOURSCALE_D part_end(u32 part, int strip) {
    static_assert(offsetof(tile_part, col) == 4 && offsetof(tile_part, is_first) == 8);
    const uint4 x = ptx::load_shared_u32x4(part);
    at = {static_cast<i32>(x.x) + strip * output_rows, static_cast<i32>(x.y)};
    is_first = x.z != 0;
  }
};

/// The magnitudes of a step, and the bounds that give their units: of each eight rows of a tile, then of each
/// eight columns.
template <int Cols>
struct magnitudes_of_step {
  static constexpr int groups = tile_rows / bounds_rows + tile<Cols>::col_groups;
  fourscale::model::step_magnitudes of[groups];
  fourscale::model::step_bounds bounds[groups];
};

/// Of problems in steps of 32 (wgmma_in_32s.cuh): the limits of a run, which come with its first stage.
template <int Cols>
struct alignas(16) limits_of_run {
  run_limit rows[tile_rows], cols[Cols];
};

template <int Cols>
struct shared_memory {
  alignas(1024) u8 stage[tile<Cols>::stages][tile<Cols>::stage_bytes];  ///< A, then B
  output_memory<Cols, strips> output;         ///< where each multiplying warp puts its outputs
  output_rows_of_warp<Cols> outputs[strips];  ///< how each multiplying warp stores them
  /// Of the thread that loads, then of each warp that certifies.
  typename tile<Cols>::walk walks[1 + certify_warps];
  /// The part that is multiplied, and those that are loaded. `load` writes a part before it
  /// refills the part's first stage: by then all warps are done with the part that had the slot before.
  tile_part parts[tile<Cols>::parts];
  int all_runs;  ///< of all parts
  /// Certificates of the latest runs that no window certifies, with a bit for each group of columns.
  certificates of_rows[certified_runs][run_steps][strips];
  /// For runs in which the adder may drop bits: the depth of each row and column (bytes_of_eight), and, as
  /// bits like those of `of_rows`, where scales drop nothing.
  alignas(16) u8 depths_of_rows[depth_runs][run_steps][tile_rows],
      depths_of_cols[depth_runs][run_steps][Cols];
  u32 limited[depth_runs][run_steps][strips];
  /// The least limit of a strip's accumulators: if all are below, the adder drops nothing where scales drop
  /// nothing. Compared first.
  float limits[depth_runs][run_steps][strips];
  exact_columns redone[strips];  ///< of each multiplying warp, for add_exactly()
  union {
    magnitudes_of_step<Cols> magnitudes[certify_warps];   ///< of each warp that certifies
    limits_of_run<Cols> of_runs[tile<Cols>::stage_runs];  ///< in their place, in steps of 32
  };
  /// Not 0 if all certificates of the step hold for the warpgroup's rows.
  alignas(16) u32 fast[certified_runs][multiply_groups][run_steps];
  window_words window[2];
  u32 windows_begun;  ///< counts windows; the certifying warp that comes first to a window counts it
  /// Barriers. Of stages: full, empty. Of warpgroups: turn. Of TMA's reads of D for each warp: outputs_there.
  /// Of certificates: certified, used. Of windows: window_filled, window_read.
  alignas(8) std::uint64_t full[tile<Cols>::stages], empty[tile<Cols>::stages], turn[multiply_groups],
      outputs_there[strips], certified[certified_runs], used[certified_runs], window_filled[2],
      window_read[2];
};

/// D = alpha * A * B^T + beta * D: the arguments of the kernel.
template <class T, class Factors>
struct problem {
  static constexpr bool grouped = false;  ///< true: many GEMMs in one launch (wgmma_groups.cuh)
  CUtensorMap map_a, map_b;  ///< of the values: boxes of a step by the tile's rows, and by half_cols
  CUtensorMap map_d;         ///< if outputs go by boxes: see output_rows.cuh
  decoded_operand a, b;
  matrix_view<T> d;
  Factors factor_of;  ///< the factor of an output: see output_strip.cuh
  float beta;
  gemm_steps* steps;                           ///< counts, or null
  bool split = false;                          ///< clusters share the last tiles evenly: tile_parts.cuh
  cluster_tiles lie = cluster_tiles::stacked;  ///< low: 64 rows by 64 columns, for one warpgroup
  carried_sums carried = {};                   ///< used if `split`
  way_sample* samples = nullptr;               ///< [way_samples]
  float by_blocks_above = share_by_blocks;     ///< see is_faster_by_blocks()
  certified_strips certified = {};             ///< if a kernel before this one certifies strips
};

template <class P>
concept has_limits = requires(P const& p) {
  p.limits_a, p.limits_b;
};

/// Whether tiles are low (64 x 64). Constant for tiles of more columns.
template <int Cols, class P>
FOURSCALE_D bool has_low_tiles(P const& p) {
  return Cols == low_tile_cols && p.lie == cluster_tiles::low;
}

/// Runs of a whole tile along K.
template <class P>
FOURSCALE_D int runs_of(P const& p) {
  return static_cast<int>(ceil_div<i64>(p.a.steps, run_steps));
}

/// The sums of a thread where a part begins: zeros or, if it is a second part, those of the first.
template <class P, int N>
FOURSCALE_D void begin_part(P const& p, bool is_second, float (&sums)[N]) {
  if (is_second) {
    p.carried.template take<multiply_threads>(static_cast<int>(blockIdx.x) - cluster_ctas,
                                              static_cast<int>(threadIdx.x) - 128, sums);
  } else {
    FOURSCALE_UNROLL
    for (float& sum : sums) sum = 0.0f;
  }
}

/// One thread. The first copies then do not wait for their maps.
template <class P>
FOURSCALE_D void prefetch_maps(P const& p) {
  for (CUtensorMap const* map : {&p.map_a, &p.map_b}) ptx::prefetch_tensormap(map);
}

FOURSCALE_D inline void wait(std::uint64_t* barrier, u32 parity) {
  while (!cuda::ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}
/// One thread: initializes each barrier with its arrivals a phase. `low`: one warpgroup multiplies.
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
