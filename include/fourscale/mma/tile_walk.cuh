// SPDX-License-Identifier: Apache-2.0
// A static tile scheduler: the order in which CTAs, or clusters of CTAs, take the tiles of D.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::mma {

/// How the tiles of a cluster's CTAs lie to each other.
enum class cluster_tiles : u8 {
  stacked,       ///< one below the other, in the same columns
  side_by_side,  ///< in the same rows
  low            ///< side by side, with half as many rows each
};

/// The tiles of this cluster: every `step`-th of all, where `step` is the number of clusters. A tile here is
/// what a cluster takes at a time. Tiles are numbered in bands, eight columns of tiles, and row by row in a
/// band, so that tiles which run at the same time share rows and columns.
template <int TileRows, int TileCols, int ClusterCtas>
struct tile_walk {
  static constexpr int band = 8;
  cluster_tiles lie;
  int rows, cols, count, at, step;  ///< D in tiles; the number of the current tile

  /// P: .d. The caller refuses a D of more tiles than an int counts.
  template <class P>
  FOURSCALE_D explicit tile_walk(P const& p, cluster_tiles they_lie = cluster_tiles::stacked)
      : tile_walk(they_lie == cluster_tiles::low
                      ? tiles_of<TileRows / 2>(p.d.rows, false)
                      : tiles_of<TileRows>(p.d.rows, they_lie == cluster_tiles::stacked),
                  tiles_of<TileCols>(p.d.cols, they_lie != cluster_tiles::stacked), they_lie,
                  static_cast<int>(blockIdx.x / ClusterCtas)) {}
  /// From tile `place` on, for `of_rows` by `of_cols` tiles.
  FOURSCALE_D tile_walk(int of_rows, int of_cols, cluster_tiles they_lie, int place)
      : lie(they_lie),
        rows(of_rows),
        cols(of_cols),
        count(rows * cols),
        at(place),
        step(static_cast<int>(gridDim.x / ClusterCtas)) {}
  FOURSCALE_D bool more() const { return at < count; }
  FOURSCALE_D void next() { at += step; }
  /// How many tiles are left, this one included.
  FOURSCALE_D int left() const { return more() ? quotient(count - at + step - 1, step) : 0; }
  FOURSCALE_D int first_band_col() const { return quotient(at, band * rows) * band; }
  FOURSCALE_D int band_cols() const { return min(band, cols - first_band_col()); }
  FOURSCALE_D int in_band() const { return at - quotient(at, band * rows) * (band * rows); }
  /// The row of tiles in the band. The width of a whole band is a constant, which needs no division.
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
  /// Tiles along an extent of D. `follow`: the CTAs of a cluster follow each other along it; else they lie at
  /// the same place. Divides by constants, and in 32 bits as everywhere here: the first copies wait for this.
  template <int Extent>
  FOURSCALE_D static int tiles_of(i64 extent, bool follow) {
    const u32 tiles = ceil_div<u32>(static_cast<u32>(extent), Extent);
    return static_cast<int>(follow ? ceil_div<u32>(tiles, ClusterCtas) : tiles);
  }
  FOURSCALE_D static int quotient(int x, int y) {
    return static_cast<int>(static_cast<u32>(x) / static_cast<u32>(y));
  }
  /// From the place of the cluster along an extent, the place of this CTA. `follow`: as in tiles_of().
  FOURSCALE_D static int of_cluster(int x, bool follow) {
    return follow ? x * ClusterCtas + static_cast<int>(blockIdx.x % ClusterCtas) : x;
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma
