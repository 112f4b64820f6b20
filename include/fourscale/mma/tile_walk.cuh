// SPDX-License-Identifier: Apache-2.0
// The order in which the tiles of D are taken.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::mma {

/// How the tiles of a cluster's CTAs lie.
enum class cluster_tiles : u8 {
  stacked,       ///< one below the other
  side_by_side,  ///< they have the same rows
  low            ///< side by side, of half as many rows
};

/// The tiles of this cluster, in bands of eight columns of them, so that tiles which run at the same time
/// share rows and columns.
template <int TileRows, int TileCols, int ClusterCtas>
struct tile_walk {
  static constexpr int band = 8;
  cluster_tiles lie;
  int rows, cols, count, at, step;

  /// The caller refuses what has more tiles than this can count.
  template <class P>
  FOURSCALE_D explicit tile_walk(P const& p, cluster_tiles they_lie = cluster_tiles::stacked)
      : tile_walk(they_lie == cluster_tiles::low
                      ? tiles_of<TileRows / 2>(p.d.rows, false)
                      : tiles_of<TileRows>(p.d.rows, they_lie == cluster_tiles::stacked),
                  tiles_of<TileCols>(p.d.cols, they_lie != cluster_tiles::stacked), they_lie,
                  static_cast<int>(blockIdx.x / ClusterCtas)) {}
  /// At tile `place` of so many rows and columns of tiles of clusters.
  FOURSCALE_D tile_walk(int of_rows, int of_cols, cluster_tiles they_lie, int place)
      : lie(they_lie),
        rows(of_rows),
        cols(of_cols),
        count(rows * cols),
        at(place),
        step(static_cast<int>(gridDim.x / ClusterCtas)) {}
  FOURSCALE_D bool more() const { return at < count; }
  FOURSCALE_D void next() { at += step; }
  /// How many there are from here on.
  FOURSCALE_D int left() const { return more() ? quotient(count - at + step - 1, step) : 0; }
  FOURSCALE_D int first_band_col() const { return quotient(at, band * rows) * band; }
  FOURSCALE_D int band_cols() const { return min(band, cols - first_band_col()); }
  FOURSCALE_D int in_band() const { return at - quotient(at, band * rows) * (band * rows); }
  /// Of the band's tiles, taken row by row. A whole band needs no division.
  FOURSCALE_D int row_in_band() const {
    const int width = band_cols();
    return width == band ? quotient(in_band(), band) : quotient(in_band(), width);
  }
  /// The first row of this CTA's tile, and its first column.
  FOURSCALE_D int row() const {
    return of_cluster(row_in_band(), is_stacked()) * (is_low() ? TileRows / 2 : TileRows);
  }
  FOURSCALE_D int col() const {
    return of_cluster(first_band_col() + in_band() - row_in_band() * band_cols(), !is_stacked()) * TileCols;
  }

 private:
  FOURSCALE_D bool is_stacked() const { return lie == cluster_tiles::stacked; }
  FOURSCALE_D bool is_low() const { return lie == cluster_tiles::low; }
  /// Of a cluster, whose CTAs follow each other or have the same. By constants, and in 32 bits, as all
  /// divisions here: the first copies wait for them.
  template <int Extent>
  FOURSCALE_D static int tiles_of(i64 extent, bool follow) {
    const u32 tiles = ceil_div<u32>(static_cast<u32>(extent), Extent);
    return static_cast<int>(follow ? ceil_div<u32>(tiles, ClusterCtas) : tiles);
  }
  FOURSCALE_D static int quotient(int x, int y) {
    return static_cast<int>(static_cast<u32>(x) / static_cast<u32>(y));
  }
  /// This CTA's, where those of a cluster follow each other, or have the same.
  FOURSCALE_D static int of_cluster(int x, bool follow) {
    return follow ? x * ClusterCtas + static_cast<int>(blockIdx.x % ClusterCtas) : x;
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma
