// SPDX-License-Identifier: Apache-2.0
// Which sums of a tile are exact: the role `certify` of the GEMM by wgmma. It compares the bounds of rows
// with those of columns, as docs/exact_gemm.md derives them: for whole tiles first, 32 steps at a time; in
// runs where that is not enough, for 16 rows by 8 columns.
#pragma once

#include "wgmma_tile.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

/// Loads those of eight rows from `all` bounds or norms of x, or none.
template <class T>
FOURSCALE_D T load_facts(decoded_operand const& x, T const* all, i64 row_group, i64 step, bool wanted) {
  if (!wanted || row_group >= x.row_groups() || step >= x.steps) return {};
  return all[step * x.row_groups() + row_group];
}

/// Where a certifying warp's lane is: eight rows of A and of B, of a step.
struct certify_place {
  i64 row, col;
  bool has_row, has_col;
};

/// What is known of a lane's rows in a step.
struct certify_facts {
  fourscale::model::step_bounds of_row, of_col;
  fourscale::model::block_norms row_norms, col_norms;

  FOURSCALE_D certify_facts() {}
  template <class P>
  FOURSCALE_D certify_facts(P const& p, certify_place const& at, i64 step)
      : of_row(load_facts(p.a, p.a.bounds, at.row, step, at.has_row)),
        of_col(load_facts(p.b, p.b.bounds, at.col, step, at.has_col)),
        row_norms(load_facts(p.a, p.a.norms, at.row, step, at.has_row)),
        col_norms(load_facts(p.b, p.b.norms, at.col, step, at.has_col)) {}
};

/// What the warps of all strips may do with a step, in the lane of the same number. A lane has the facts of
/// eight rows, and of eight columns.
template <int Cols>
FOURSCALE_D certificates certify_step(certify_facts const& x) {
  constexpr u32 all_cols = tile<Cols>::all_cols;
  const auto largest = [](u8 bound) { return static_cast<u8>(__reduce_max_sync(~0u, u32{bound})); };
  const fourscale::model::step_bounds rows{largest(x.of_row.width), largest(x.of_row.span)},
      cols{largest(x.of_col.width), largest(x.of_col.span)};
  certificates result{all_cols, all_cols};
  if (sums_are_exact(rows, cols) && nothing_is_dropped(rows, cols)) return result;
  auto row_norms = x.row_norms;
  const u32 mine = x.of_row.width | u32{x.of_row.span} << 16;
  const u32 of_rows = __vmaxu2(mine, __shfl_xor_sync(~0u, mine, 1));
  FOURSCALE_UNROLL
  for (u32& word : row_norms.words) word = __vmaxu2(word, __shfl_xor_sync(~0u, word, 1));
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 2
  for (int i = 0; i < strips; ++i) {
    const u32 r = __shfl_sync(~0u, of_rows, 2 * i);
    const fourscale::model::step_bounds bounds{static_cast<u8>(r), static_cast<u8>(r >> 16)};
    const fourscale::model::block_norms norms{__shfl_sync(~0u, row_norms.words[0], 2 * i),
                                              __shfl_sync(~0u, row_norms.words[1], 2 * i)};
    const u32 exact =
                  __ballot_sync(~0u, sums_are_exact(bounds, x.of_col) || sums_are_exact(norms, x.col_norms)),
              kept = __ballot_sync(~0u, nothing_is_dropped(bounds, x.of_col));
    if (lane == i) result = {exact & all_cols, kept & all_cols};
  }
  return result;
}

/// The largest bounds that `Groups` times eight rows from `first` on have in a step.
template <int Groups>
FOURSCALE_D fourscale::model::step_bounds largest_bounds(decoded_operand const& x, i64 first, i64 step) {
  static_assert(Groups % bounds_chunk == 0 && sizeof(fourscale::model::step_bounds) * bounds_chunk == 16);
  auto const* const from = reinterpret_cast<uint4 const*>(x.bounds + step * x.row_groups() + first);
  uint4 chunks[Groups / bounds_chunk]{};
  FOURSCALE_UNROLL
  for (int i = 0; i < Groups / bounds_chunk; ++i)
    if (first + i * bounds_chunk < x.row_groups()) chunks[i] = from[i];
  u32 most = 0;
  FOURSCALE_UNROLL
  for (uint4 const& x4 : chunks) most = __vmaxu4(most, __vmaxu4(__vmaxu4(x4.x, x4.y), __vmaxu4(x4.z, x4.w)));
  most = __vmaxu4(most, most >> 16);
  return {static_cast<u8>(most), static_cast<u8>(most >> 8)};
}

/// The word of a window, in all lanes; a lane takes a step. Steps behind K are of zeros.
template <int Cols, class P>
FOURSCALE_D u32 certify_window(P const& p, i64 first_row, i64 first_col, i64 first_step) {
  const i64 step = first_step + threadIdx.x % 32;
  bool holds = true;
  if (step < p.a.steps) {
    const auto rows = largest_bounds<tile_rows / bounds_rows>(p.a, first_row / bounds_rows, step),
               cols = largest_bounds<tile<Cols>::col_groups>(p.b, first_col / bounds_rows, step);
    holds = sums_are_exact(rows, cols) && nothing_is_dropped(rows, cols);
  }
  return __ballot_sync(~0u, holds);
}

/// One warp of certify_warps, which share the steps of a run. Each finds the windows' words for itself.
template <class P, int Cols>
FOURSCALE_D void certify(P const& p, shared_memory<Cols>& m, int warp) {
  constexpr int most = ceil_div<int>(run_steps, certify_warps);  // steps of a run for a warp
  const int lane = static_cast<int>(threadIdx.x) % 32, runs_of_tile = runs_of(p);
  u32 all = 0, windows = 0, window = 0;  // runs with certificates, and windows, of all tiles
  for (typename tile<Cols>::walk walk(p, runs_of_tile, p.split); walk.more(); walk.next()) {
    const i64 row = walk.row(), col = walk.col();
    const certify_place at{row / bounds_rows + lane, col / bounds_rows + lane, lane < tile_rows / bounds_rows,
                           lane < tile<Cols>::col_groups};
    for (int run = 0; run < walk.runs; ++run, window >>= run_steps) {
      const int first_step = (walk.first + run) * run_steps;
      if (run % window_runs == 0) {
        window = certify_window<Cols>(p, row, col, first_step);
        if (warp == 0) {
          wait(m.window_read + (windows & 1), windows >> 1 & 1 ^ 1);  // the first time around, at once
          if (lane == 0) {
            m.window[windows & 1] = window;
            cuda::ptx::mbarrier_arrive(m.window_filled + (windows & 1));
          }
        }
        ++windows;
      }
      if ((window & whole_run) == whole_run) continue;
      const u32 slot = all % certified_runs;
      certify_facts facts[most];
      FOURSCALE_UNROLL
      for (int i = 0; i < most; ++i)
        if (i * certify_warps + warp < run_steps)
          facts[i] = certify_facts(p, at, first_step + i * certify_warps + warp);
      wait(m.used + slot, all / certified_runs & 1 ^ 1);  // the first time around, it passes at once
      FOURSCALE_UNROLL
      for (int i = 0; i < most; ++i) {
        const int step = i * certify_warps + warp;
        if (step >= run_steps) break;
        const certificates c = certify_step<Cols>(facts[i]);
        const u32 fast_strips = __ballot_sync(~0u, (c.exact & c.kept) == tile<Cols>::all_cols);
        if (lane < strips) m.of_rows[slot][step][lane] = c;
        if (lane < multiply_groups) m.fast[slot][lane][step] = (~fast_strips >> (4 * lane) & 15u) == 0;
      }
      __syncwarp();
      if (lane == 0) cuda::ptx::mbarrier_arrive(m.certified + slot);
      ++all;
    }
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
