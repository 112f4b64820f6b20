// SPDX-License-Identifier: Apache-2.0
// Whole tiles and parts of tiles along K, so that all clusters of a GPU are done at the same time. Sums go
// along K in order, so that a tile's second part begins with the sums of the first one.
#pragma once

#include "tile_walk.cuh"

namespace FOURSCALE_NAMESPACE::mma {

/// What a cluster does, in this order: the first part of a tile, if it has one, whose sums the next cluster
/// goes on with; whole tiles; and the second part of the tile that the cluster before has begun. So nobody
/// waits long: a first part is what each begins with, a second part is the last that it does. A GPU starts
/// clusters in order, so the one that is waited for has begun: all end, even where not all run at once.
///
/// Whole tiles are those of tile_walk, but for the last ones: between one and two for each cluster, which
/// share them evenly. Without `split` all are those of tile_walk. Runs are units along K.
template <int TileRows, int TileCols, int ClusterCtas>
struct tile_parts {
  tile_walk<TileRows, TileCols, ClusterCtas> tile;  ///< of the part
  int first, runs;                                  ///< of its runs; none, if there is no part left
  int runs_of_tile;
  int index = 0;             ///< of the part
  int first_walked, walked;  ///< tiles of tile_walk: the first, and how many
  int base = 0;              ///< the first tile that is shared
  int begin = 0, end = 0;    ///< runs of this cluster from there on

  template <class P>
  FOURSCALE_D tile_parts(P const& p, int of_tile, bool split) : tile(p), runs_of_tile(of_tile) {
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
  FOURSCALE_D int row() const { return tile.row(); }
  FOURSCALE_D int col() const { return tile.col(); }

 private:
  FOURSCALE_D void go_to(int at, int first_run, int end_run) {
    tile.at = at;
    first = first_run, runs = end_run - first_run;
  }
  /// From part `index` on to one that there is.
  FOURSCALE_D void seek() {
    if (index == 0) {
      if (end % runs_of_tile != 0) return go_to(base + end / runs_of_tile, 0, end % runs_of_tile);
      index = 1;
    }
    if (index <= walked) return go_to(first_walked + (index - 1) * tile.step, 0, runs_of_tile);
    const int whole = ceil_div<int>(begin, runs_of_tile) + index - walked - 1;
    if (whole < end / runs_of_tile) return go_to(base + whole, 0, runs_of_tile);
    if (whole == end / runs_of_tile && begin % runs_of_tile != 0)
      return go_to(base + begin / runs_of_tile, begin % runs_of_tile, runs_of_tile);
    go_to(0, 0, 0);
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma
