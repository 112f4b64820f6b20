// SPDX-License-Identifier: Apache-2.0
// Whole tiles and parts of tiles along K, so that all clusters of a GPU are done at the same time. Sums go
// along K in order, so that a tile's second part begins with the sums of the first one.
#pragma once

#include "tile_walk.cuh"

namespace FOURSCALE_NAMESPACE::mma {

/// What a cluster does, in this order: whole tiles, all clusters at the same place of K, so that they find
/// in L2 what another one has read; then its share of the last tiles: first the part of a tile whose sums the
/// next cluster goes on with, then what is whole, at last the second part of the tile that the cluster before
/// has begun. As a share is a tile or more, that one's first part is over by then. A GPU starts clusters in
/// order, so the one that is waited for has begun: all end, even where not all run at once.
///
/// Whole tiles are those of tile_walk, but for the last ones: between one and two for each cluster, which
/// share them evenly. Without `split` all are those of tile_walk. Runs are units along K.
template <int TileRows, int TileCols, int ClusterCtas>
struct tile_parts {
  tile_walk<TileRows, TileCols, ClusterCtas> tile;  ///< of the part
  int row, col;                                     ///< the first ones of this CTA's tile
  int first, runs;                                  ///< of its runs; none, if there is no part left
  int runs_of_tile;
  int index = 0;             ///< of the part
  int first_walked, walked;  ///< tiles of tile_walk: the first, and how many
  int base = 0;              ///< the first tile that is shared
  int begin = 0, end = 0;    ///< runs of this cluster from there on

  template <class P>
  FOURSCALE_D tile_parts(P const& p, int of_tile, bool split, cluster_tiles lie)
      : tile(p, lie), runs_of_tile(of_tile) {
    first_walked = tile.at, walked = tile.left();
    if (split) {
      const int clusters = tile.step;
      walked = tile.count / clusters - 1;
      base = walked * clusters;
      const i64 all = i64{tile.count - base} * of_tile;
      begin = static_cast<int>(tile.at * all / clusters);
      end = static_cast<int>((tile.at + 1) * all / clusters);
    }
    seek();
  }

  FOURSCALE_D bool more() const { return runs > 0; }
  FOURSCALE_D void next() { ++index, seek(); }
  /// The sums are the next cluster's to go on with.
  FOURSCALE_D bool is_first_part() const { return first + runs < runs_of_tile; }
  /// They begin as those of the cluster before.
  FOURSCALE_D bool is_second_part() const { return first > 0; }
  /// The runs of all parts.
  FOURSCALE_D int all_runs() const { return walked * runs_of_tile + end - begin; }

 private:
  FOURSCALE_D void go_to(int at, int first_run, int end_run) {
    tile.at = at;
    first = first_run, runs = end_run - first_run;
    row = tile.row(), col = tile.col();
  }
  /// To part `index`, or the next one that there is.
  FOURSCALE_D void seek() {
    if (index < walked) return go_to(first_walked + index * tile.step, 0, runs_of_tile);
    const int begun = end / runs_of_tile;  // the tile of the first part
    if (index == walked) {
      if (end % runs_of_tile != 0) return go_to(base + begun, 0, end % runs_of_tile);
      ++index;
    }
    const int whole = ceil_div<int>(begin, runs_of_tile) + index - walked - 1;
    if (whole < begun) return go_to(base + whole, 0, runs_of_tile);
    if (whole == begun && begin % runs_of_tile != 0)
      return go_to(base + begin / runs_of_tile, begin % runs_of_tile, runs_of_tile);
    runs = 0;
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma
