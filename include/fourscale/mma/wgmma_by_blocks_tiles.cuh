// SPDX-License-Identifier: Apache-2.0
// Which tiles a CTA has where the GEMM by wgmma goes by blocks (wgmma_by_blocks.cuh), of one GEMM or of many
// in a launch (wgmma_groups.cuh), and their sizes.
#pragma once

#include "output_strip.cuh"
#include "wgmma_groups.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma::by_blocks {

inline constexpr int row_groups = tile_rows / bounds_rows, bound_warps = 3, stages = 4;

/// `Cols`: columns of a tile of the way by certificates. A tile here has half as many.
template <int Cols>
struct tile {
  static constexpr int cols = wgmma::tile<Cols>::half_cols, col_groups = cols / bounds_rows;
  static constexpr int b_bytes = cols * decoded_row_bytes, stage_bytes = a_bytes + b_bytes;
  static constexpr int batch_groups = 2;    ///< groups whose blocks are in registers at a time, twice
  static constexpr int outputs = cols / 2;  ///< of a lane
  static_assert(col_groups % batch_groups == 0 && row_groups + col_groups <= 32);
};

/// The tiles of a CTA, down the columns, of one GEMM after the other. Each role walks through them on its
/// own, and with them through the ring of stages, which goes on from tile to tile. Registers are scarce: what
/// follows from the problem is computed when it is asked for.
template <int Cols, class P>
struct walk {
  P const& p;
  int at = static_cast<int>(blockIdx.x);  ///< number of the tile in its GEMM
  int group = 0;                          ///< number of the GEMM
  u32 place = 0;                          ///< in two turns of the ring: stage, and parity of the turn

  FOURSCALE_D explicit walk(P const& problem) : p(problem) { seek(); }
  FOURSCALE_D bool more() const {
    if constexpr (P::grouped)
      return group < p.count;
    else
      return at < tiles();
  }
  FOURSCALE_D void next() { at += static_cast<int>(gridDim.x), seek(); }
  /// The tile's first row of A, row of B and step in the operands, and its number of steps.
  FOURSCALE_D int row() const { return gemm().a_row + row_in_gemm(); }
  FOURSCALE_D int col() const { return gemm().b_row + at / row_tiles() * tile<Cols>::cols; }
  FOURSCALE_D int first_step() const { return gemm().first_step; }
  FOURSCALE_D int steps() const { return gemm().steps; }
  /// Whether a strip of 16 rows has outputs. True for a GEMM alone: behind its rows there are zeros.
  FOURSCALE_D bool has_outputs(int strip) const {
    return !P::grouped || row_in_gemm() + strip * output_rows < gemm().rows;
  }
  /// Stores the outputs of a warp's strip to D. A whole warp; `memory` is its own.
  FOURSCALE_D void store(int strip, float const (&sums)[tile<Cols>::outputs], output_strip& memory) const {
    constexpr int cols = tile<Cols>::cols;
    if constexpr (P::grouped) {
      const group_part of = p.groups[group].outputs(row(), col(), __ldcg(p.factors + group));
      const outputs_of_group<typename decltype(p.d)::value_type> to(p, of);
      output_store(to).template outputs<cols>(to, of.row + strip * output_rows, of.col, sums, memory);
    } else {
      output_store(p).template outputs<cols>(p, row() + strip * output_rows, col(), sums, memory);
    }
  }
  FOURSCALE_D int stage() const { return static_cast<int>(place % stages); }
  FOURSCALE_D u32 parity() const { return place / stages; }
  FOURSCALE_D void next_stage() { place = (place + 1) % (2 * stages); }

 private:
  /// Where the GEMM begins in the operands, its steps, and its rows of D.
  struct extent {
    i32 a_row, b_row, first_step, steps;
    i64 rows;
  };
  FOURSCALE_D extent gemm() const {
    const i32 all_steps = static_cast<i32>(p.a.steps);
    if constexpr (P::grouped) {
      gemm_group const& g = p.groups[group];
      const i32 first = g.first_run * run_steps;
      return {g.a_row, g.b_row, first, min(g.runs * run_steps, all_steps - first), g.d_row_end - g.d_row};
    } else {
      return {0, 0, 0, all_steps, p.d.rows};
    }
  }
  FOURSCALE_D int row_tiles() const { return static_cast<int>(ceil_div<i64>(gemm().rows, tile_rows)); }
  FOURSCALE_D int row_in_gemm() const { return at % row_tiles() * tile_rows; }
  FOURSCALE_D int tiles() const {
    return row_tiles() * static_cast<int>(ceil_div<i64>(p.d.cols, tile<Cols>::cols));
  }
  /// Goes on to the GEMM that has tile `at`, past those that have fewer tiles.
  FOURSCALE_D void seek() {
    if constexpr (P::grouped)
      for (; more() && at >= tiles(); ++group) at -= tiles();
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma::by_blocks
