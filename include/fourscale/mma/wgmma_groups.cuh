// SPDX-License-Identifier: Apache-2.0
// Many GEMMs, a grouped GEMM, in one launch of the kernel of wgmma_roles.cuh, such as those of the experts of
// an MoE layer. All A lie in one decoded operand and all B in another, one behind the other along rows or
// along K. All D are rows of one matrix. So only two things differ from one GEMM: which tiles there are
// (group_walk), and where their outputs go (group_part). A group here is one of the GEMMs.
#pragma once

#include "wgmma_tile.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

inline constexpr int most_groups = 64;  ///< GEMMs in a launch, which are arguments of the kernel

/// Where the outputs of a tile go: its first row and column in D, the end of its GEMM's rows of D, and the
/// factor of its GEMM.
struct group_part {
  i32 row, row_end, col;
  float factor;
};

/// One of the GEMMs.
struct gemm_group {
  i32 end;                   ///< its last tile plus 1; tiles of clusters are numbered over all GEMMs
  i32 row_tiles, col_tiles;  ///< its tiles of clusters
  i32 a_row, b_row;          ///< where it begins in the operands
  i32 first_run, runs;       ///< its runs along K
  i32 d_row, d_row_end;      ///< its rows of D: whole strips, or up to D's end, where alone boxes are clipped

  /// For the tile that begins at row `row` of operand A and row `col` of operand B.
  FOURSCALE_D group_part outputs(int row, int col, float factor) const {
    return {d_row + row - a_row, d_row_end, col - b_row, factor};
  }
};

/// The arguments of the kernel.
template <class T>
struct grouped_problem : problem<T, one_factor> {
  static constexpr bool grouped = true;
  float const* factors = nullptr;  ///< [group], of its outputs; the base's alpha means nothing
  int count = 0;
  gemm_group groups[most_groups] = {};
};

/// The tiles of this cluster, GEMM after GEMM, each in the order of tile_walk. It has the members of
/// tile_parts that the roles use, but no tile is split along K. A GEMM without runs would end the walk.
template <int Cols>
struct group_walk {
  gemm_group const* groups;
  int count, at, step, group = 0;
  cluster_tiles lie;
  int row = 0, col = 0, first = 0, runs = 0;  ///< as in tile_parts, but places in the operands

  template <class P>
  FOURSCALE_D explicit group_walk(P const& p)
      : groups(p.groups),
        count(p.count),
        at(static_cast<int>(blockIdx.x / cluster_ctas)),
        step(static_cast<int>(gridDim.x / cluster_ctas)),
        lie(p.lie) {
    seek();
  }
  FOURSCALE_D bool more() const { return runs > 0; }
  FOURSCALE_D void next() { at += step, seek(); }
  FOURSCALE_D static constexpr bool is_first_part() { return false; }
  FOURSCALE_D static constexpr bool is_second_part() { return false; }
  /// The runs of all tiles from here on.
  FOURSCALE_D int all_runs() const {
    int sum = 0, next = at;
    for (int i = group; i < count; ++i) {
      const int end = groups[i].end, tiles = next < end ? (end - next + step - 1) / step : 0;
      sum += tiles * groups[i].runs;
      next += tiles * step;
    }
    return sum;
  }
  FOURSCALE_D group_part outputs(float factor) const { return groups[group].outputs(row, col, factor); }

 private:
  FOURSCALE_D void seek() {
    while (group < count && at >= groups[group].end) ++group;
    runs = 0;
    if (group == count) return;
    gemm_group const& g = groups[group];
    const tile_walk<tile_rows, Cols, cluster_ctas> tile(g.row_tiles, g.col_tiles, lie,
                                                        group == 0 ? at : at - groups[group - 1].end);
    row = g.a_row + tile.row(), col = g.b_row + tile.col();
    first = g.first_run, runs = g.runs;
  }
};

/// Shared memory for the half of FP32 outputs that output_memory has no room for, in tiles of 128 columns;
/// otherwise none. of(): the memory of strip `strip` of the tile.
template <int Cols>
struct more_outputs {
  using memory = warp_output_memory;
  FOURSCALE_D static memory of(warp_output_memory const& m, int) { return m; }
};
template <>
struct more_outputs<128> {
  using memory = wide_output_memory<output_boxes(128)>;
  output_memory<128, strips> more;
  FOURSCALE_D memory of(warp_output_memory const& m, int strip) {
    return {m.boxes, m.strip, more[strip].boxes};
  }
};

/// The shared memory of a CTA.
template <int Cols>
struct grouped_memory : shared_memory<Cols>, more_outputs<Cols> {
  group_walk<Cols> walks[1 + certify_warps];      ///< in place of the base's
  group_part parts_of_groups[tile<Cols>::parts];  ///< `parts` has the other facts of each part
};

/// The problem that output_rows_of_warp gets for the outputs of one GEMM.
template <class T>
struct outputs_of_group {
  CUtensorMap const& map_d;
  matrix_view<T> d;  ///< ends with the GEMM's last row
  one_factor factor_of;
  float beta;

  template <class P>
  FOURSCALE_D outputs_of_group(P const& p, group_part const& of)
      : map_d(p.map_d), d(p.d), factor_of(of.factor, 0, 0), beta(p.beta) {
    d.rows = of.row_end;
  }
};

/// A whole warp: output_rows_of_warp::ask() for strip `strip` of part `number`. A strip behind the GEMM's
/// last row is another GEMM's.
template <class P, int Cols>
FOURSCALE_D void ask_for_outputs_of_group(P const& p, grouped_memory<Cols>& m, u32 number, int strip) {
  const group_part of = m.parts_of_groups[number % tile<Cols>::parts];
  const i32 row = of.row + strip * output_rows;
  if (row < of.row_end)
    m.outputs[strip].ask(outputs_of_group<typename decltype(p.d)::value_type>(p, of),
                         m.of(m.output[strip], strip), m.outputs_there + strip, {row, of.col});
}
/// A whole warp: output_rows_of_warp::store() for the same strip, under the factor of its GEMM.
template <class P, int Cols>
FOURSCALE_D void store_outputs_of_group(P const& p, grouped_memory<Cols>& m, u32 number, int strip,
                                        float const (&sums)[Cols / 2]) {
  const group_part of = m.parts_of_groups[number % tile<Cols>::parts];
  const output_place at{of.row + strip * output_rows, of.col};
  if (at.row >= of.row_end) return;
  const output_how how{m.outputs[strip].how().way, of.factor};
  m.outputs[strip].store(
      outputs_of_group<typename decltype(p.d)::value_type>(p, of), m.of(m.output[strip], strip),
      m.outputs_there + strip, how, at, [&] { return at; }, sums);
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
