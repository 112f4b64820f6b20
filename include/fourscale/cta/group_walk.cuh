// SPDX-License-Identifier: Apache-2.0
// The walk over many matrices of one width, packed row by row: the experts of an MoE layer. Where groups
// begin is read on the device, so a launch depends on nothing but the size of the packed matrix.
#pragma once

#include "../view/row_groups.hpp"
#include "walk.cuh"

namespace FOURSCALE_NAMESPACE::cta {

/// What a CTA works on: `rows` rows of group `group` from row `row` of the packed matrix on; tile `index` of
/// the group. No rows: nothing.
struct group_tile {
  int group;
  i64 index, row, rows;
};

/// Groups in tiles of 2^log_rows rows, numbered so that no sum over the groups is needed to find one: the
/// tiles of group g begin at (offsets[g] >> log_rows) + g, which is behind all those of the groups before.
/// Some numbers are nobody's.
struct group_tiles {
  row_groups groups;
  int log_rows;

  FOURSCALE_H i64 bound(i64 rows) const { return (rows >> log_rows) + groups.count; }

  /// By all lanes of a warp together: of 32 groups at a time, the last that begins at `tile` or before.
  FOURSCALE_D group_tile find(i64 tile) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    int first = 0, count = static_cast<int>(groups.count);
    while (count > 1) {
      const int step = (count - 1) / 32 + 1, mine = lane * step;
      const bool before = mine < count && begin(first + mine) <= tile;
      const int last = __popc(__ballot_sync(0xffff'ffffu, before)) - 1;
      first += last * step;
      count = count - last * step < step ? count - last * step : step;
    }
    const i64 index = tile - begin(first), row = groups.offset(first) + (index << log_rows),
              left = groups.offset(first + 1) - row, most = i64{1} << log_rows;
    return {first, index, row, left < most ? left : most};
  }

 private:
  FOURSCALE_D i64 begin(int g) const { return (groups.offset(g) >> log_rows) + g; }
};

/// A thread takes one block in each of several steps: first to the right, 2^log_wide times, then down. Linear
/// scales: a batch is all that a thread takes, and as much of it as possible along the row. `Swizzled`: tiles
/// of 128 rows, which few rows of a group leave empty; what there is is then wide.
template <int Batch, bool Swizzled>
struct group_walk {
  static constexpr int along = Swizzled ? 8 : 32;  ///< threads along a row
  static constexpr int distance = threads / along;
  i64 blocks;  ///< of a row
  group_tiles tiles;
  divisor tiles_along;
  int log_wide;

  struct cursor {
    static constexpr int batch = Batch;
    group_walk const& walk;
    group_tile tile;
    i64 first;
    int r = static_cast<int>(threadIdx.x) / along, b = static_cast<int>(threadIdx.x) % along;

    FOURSCALE_D int right(int k) const { return along * (k & ((1 << walk.log_wide) - 1)); }
    FOURSCALE_D int down(int k) const { return distance * (k >> walk.log_wide); }
    FOURSCALE_D int steps() const {
      if (tile.rows <= 0) return 0;
      return Swizzled ? static_cast<int>(tile.rows + distance - 1) / distance << walk.log_wide : Batch;
    }
    FOURSCALE_D bool inside(int k) const {
      return r + down(k) < tile.rows && first + b + right(k) < walk.blocks;
    }
    FOURSCALE_D bool padding(int k) const { return Swizzled && k < steps() && !inside(k); }
    FOURSCALE_D place at(int k) const {
      const int row = r + down(k), block = b + right(k);
      return {tile.row + row, first + block, 0, block / 4 * 512 + row % 32 * 16 + row / 32 * 4 + block % 4};
    }
    template <class F>
    FOURSCALE_D tensor_scale<F> tensor(tensor_amax<F> const& amax) const {
      return amax.scale_of_group(tile.group);
    }
    // What a sink that gathers scales asks for.
    FOURSCALE_D i64 first_block() const { return first; }
    FOURSCALE_D int scale_tiles() const { return tile.rows > 0 ? 2 << walk.log_wide : 0; }
    FOURSCALE_D i64 rows_in_tile() const { return tile.rows; }
    /// Tiles of the groups before, along the rows: a sum for each warp.
    FOURSCALE_D void count_before(u32 (&before)[threads / 32]) const {
      row_groups const& groups = walk.tiles.groups;
      u32 mine = 0;
      for (int g = static_cast<int>(threadIdx.x); g < tile.group; g += threads)
        mine += static_cast<u32>((groups.offset(g + 1) - groups.offset(g) + 127) >> 7);
      mine = __reduce_add_sync(0xffff'ffffu, mine);
      if (threadIdx.x % 32 == 0) before[threadIdx.x / 32] = mine;
    }
    FOURSCALE_D i64 scale_tile_row(u32 const (&before)[threads / 32]) const {
      i64 row = tile.index;
      FOURSCALE_UNROLL
      for (u32 sum : before) row += sum;
      return row;
    }
  };

  FOURSCALE_D cursor begin() const {
    const u32 at = cta_from_end(), row = tiles_along.quotient(at);
    return {*this, tiles.find(row), i64{at - row * tiles_along.d} * (along << log_wide)};
  }

  FOURSCALE_H static group_walk over(row_groups const& groups, i64 blocks) {
    constexpr int most = Swizzled ? 1 : Batch / 2;  // log2 of 4: 2, of 2: 1, of 1: 0
    int wide = 0;
    while (wide < most && blocks > along << wide) ++wide;
    const group_tiles t{groups, Swizzled ? 7 : 3 + Batch / 2 - wide};
    return {blocks, t, divisor(static_cast<u32>(ceil_div<i64>(blocks, along << wide))), wide};
  }
  /// CTAs for a packed matrix of that many rows, which must fit in a grid.
  FOURSCALE_H i64 ctas(i64 rows) const { return tiles.bound(rows) * tiles_along.d; }
};

}  // namespace FOURSCALE_NAMESPACE::cta
