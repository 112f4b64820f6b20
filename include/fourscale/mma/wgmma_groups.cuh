// SPDX-License-Identifier: Apache-2.0
// Many GEMMs by one launch of the kernel of wgmma_roles.cuh, such as those of the experts of an MoE layer.
// All A lie in one decoded operand and all B in another: one behind the other along rows, or along K; and all
// D are rows of one matrix. So only which tiles there are, and where their outputs go, is other than for one.
#pragma once

#include "wgmma_tile.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

inline constexpr int most_groups = 64;  ///< in a launch: they are arguments of the kernel

/// Where the outputs of a part of a tile go.
struct group_part {
  i32 row, row_end, col;
  float factor;
};

/// One of the GEMMs.
struct gemm_group {
  i32 end;                   ///< of its tiles of clusters, counted from those of the first group on
  i32 row_tiles, col_tiles;  ///< of clusters
  i32 a_row, b_row;          ///< where it begins in the operands
  i32 first_run, runs;       ///< along K
  i32 d_row, d_row_end;      ///< its rows of D

  /// Of the rows of the operands from `row` and `col` on.
  FOURSCALE_D group_part outputs(int row, int col, float factor) const {
    return {d_row + row - a_row, d_row_end, col - b_row, factor};
  }
};

template <class T>
struct grouped_problem : problem<T, one_factor> {
  static constexpr bool grouped = true;
  float const* factors = nullptr;  ///< of each group's outputs; that of the base means nothing
  int count = 0;
  gemm_group groups[most_groups] = {};
};

/// The tiles of this cluster, group after group, each in the bands of tile_walk. As tile_parts, but no tile
/// is shared.
template <int Cols>
struct group_walk {
  gemm_group const* groups;
  int count, at, step, group = 0;
  cluster_tiles lie;
  int row = 0, col = 0, first = 0, runs = 0;  ///< as in tile_parts, of the operands

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

/// Room for what else FP32 outputs take, where there is some.
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

/// With what groups need besides.
template <int Cols>
struct grouped_memory : shared_memory<Cols>, more_outputs<Cols> {
  group_walk<Cols> walks[1 + certify_warps];  ///< in place of the base's
  group_part parts_of_groups[tile<Cols>::parts];
};

/// What output_rows_of_warp asks of a problem, for the outputs of a group.
template <class T>
struct outputs_of_group {
  CUtensorMap const& map_d;
  matrix_view<T> d;  ///< up to the group's last row
  one_factor factor_of;
  float beta;

  template <class P>
  FOURSCALE_D outputs_of_group(P const& p, group_part const& of)
      : map_d(p.map_d), d(p.d), factor_of(of.factor, 0, 0), beta(p.beta) {
    d.rows = of.row_end;
  }
};

/// A warp: output_rows_of_warp::ask() for strip `strip` of a part. Rows behind the group's last one are
/// another group's.
template <class P, int Cols>
FOURSCALE_D void ask_for_outputs_of_group(P const& p, grouped_memory<Cols>& m, u32 number, int strip) {
  const group_part of = m.parts_of_groups[number % tile<Cols>::parts];
  const i32 row = of.row + strip * output_rows;
  if (row < of.row_end)
    m.outputs[strip].ask(outputs_of_group<typename decltype(p.d)::value_type>(p, of),
                         m.of(m.output[strip], strip), m.outputs_there + strip, row, of.col);
}
/// And store().
template <class P, int Cols>
FOURSCALE_D void store_outputs_of_group(P const& p, grouped_memory<Cols>& m, u32 number, int strip,
                                        float const (&sums)[Cols / 2]) {
  const group_part of = m.parts_of_groups[number % tile<Cols>::parts];
  const i32 row = of.row + strip * output_rows;
  if (row >= of.row_end) return;
  if (threadIdx.x % 32 == 0) m.outputs[strip].factor = of.factor;
  __syncwarp();
  m.outputs[strip].store(outputs_of_group<typename decltype(p.d)::value_type>(p, of),
                         m.of(m.output[strip], strip), m.outputs_there + strip, row, of.col, sums);
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
