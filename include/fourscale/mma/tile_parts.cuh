// SPDX-License-Identifier: Apache-2.0
// A tile scheduler that splits the last tiles along K (stream-K), so that all clusters of a GPU are done at
// the same time. Sums run along K in order: the cluster with a tile's second part goes on from the
// accumulators of the first part, which carried_sums.cuh hands over.
#pragma once

#include "tile_walk.cuh"

namespace FOURSCALE_NAMESPACE::mma {

/// The work of a cluster, in this order:
///   1. Whole tiles of tile_walk. All clusters are at the same place of K, so that they find in L2 what
///      another cluster has read.
///   2. Its share of the last tiles: the first part of the tile that the next cluster finishes, then whole
///      tiles, then the second part of the tile that the cluster before has begun. A share is a tile or more,
///      so that first part is over by then. A GPU starts clusters in order, so the cluster that is waited for
///      has begun: there is no deadlock, even where not all clusters run at once.
/// The last tiles are between one and two for each cluster, shared evenly. Without `split` all tiles are
/// whole. K is counted in runs (wgmma_tile.cuh).
template <int TileRows, int TileCols, int ClusterCtas>
struct tile_parts {
  tile_walk<TileRows, TileCols, ClusterCtas> tile;  ///< at the tile of the current part
  int row, col;                                     ///< of D, where this CTA's tile begins
  int first, runs;           ///< the part's first run in its tile, and its runs: 0 if no part is left
  int runs_of_tile;          ///< of a whole tile
  int index = 0;             ///< number of the part
  int first_walked, walked;  ///< whole tiles before the share: the first, and how many
  int base = 0;              ///< the first tile that is shared
  int begin = 0, end = 0;    ///< the share of this cluster: runs, counted from tile `base` on

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
  /// The next cluster goes on with the sums of this part.
  FOURSCALE_D bool is_first_part() const { return first + runs < runs_of_tile; }
  /// The sums of this part begin as those of the cluster before.
  FOURSCALE_D bool is_second_part() const { return first > 0; }
  /// The runs of all parts.
  FOURSCALE_D int all_runs() const { return walked * runs_of_tile + end - begin; }

 private:
  FOURSCALE_D void go_to(int at, int first_run, int end_run) {
    tile.at = at;
    first = first_run, runs = end_run - first_run;
    row = tile.row(), col = tile.col();
  }
  /// Goes to part `index`, or to the next part that is not empty.
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
