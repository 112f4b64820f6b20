// SPDX-License-Identifier: Apache-2.0
// The order in which the tiles of D are taken.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::mma {

/// The tiles of this cluster, in bands of eight columns of them, so that tiles which run at the same time
/// share rows and columns. The CTAs of a cluster take tiles one below the other.
template <int TileRows, int TileCols, int ClusterCtas>
struct tile_walk {
  static constexpr int band = 8;
  int rows, cols, count, at, step;

  /// The caller refuses what has more tiles than this can count.
  template <class P>
  FOURSCALE_D explicit tile_walk(P const& p)
      : rows(static_cast<int>(ceil_div<i64>(p.d.rows, TileRows * ClusterCtas))),
        cols(static_cast<int>(ceil_div<i64>(p.d.cols, TileCols))),
        count(rows * cols),
        at(static_cast<int>(blockIdx.x / ClusterCtas)),
        step(static_cast<int>(gridDim.x / ClusterCtas)) {}
  FOURSCALE_D bool more() const { return at < count; }
  FOURSCALE_D void next() { at += step; }
  /// How many there are from here on.
  FOURSCALE_D int left() const { return more() ? ceil_div<int>(count - at, step) : 0; }
  FOURSCALE_D int first_band_col() const { return at / (band * rows) * band; }
  FOURSCALE_D int band_cols() const { return min(band, cols - first_band_col()); }
  FOURSCALE_D int in_band() const { return at % (band * rows); }
  /// Of the band's tiles, taken row by row. A whole band needs no division.
  FOURSCALE_D int row_in_band() const {
    const int width = band_cols();
    return width == band ? in_band() / band : in_band() / width;
  }
  /// The first row of this CTA's tile, and its first column.
  FOURSCALE_D int row() const {
    return (row_in_band() * ClusterCtas + static_cast<int>(blockIdx.x % ClusterCtas)) * TileRows;
  }
  FOURSCALE_D int col() const {
    return (first_band_col() + in_band() - row_in_band() * band_cols()) * TileCols;
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma
