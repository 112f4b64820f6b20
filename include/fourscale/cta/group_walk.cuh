// SPDX-License-Identifier: Apache-2.0
// Walks (see walk.cuh) over groups: many matrices of one width, packed row by row in one matrix, such as the
// experts of an MoE layer. The device reads where groups begin, so a launch depends only on the size of the
// packed matrix and the number of groups.
#pragma once

#include "../view/row_groups.hpp"
#include "walk.cuh"

namespace FOURSCALE_NAMESPACE::cta {

/// The tile that a CTA works on: tile `index` of group `group`. It consists of `count` units, from unit
/// `first` of the packed matrix on. If `count` is 0, the CTA has no work.
struct group_tile {
  int group;
  i64 index, first, count;
};

/// Cuts each group into tiles of 2^log_tile units; a unit is a row or a part of a row. The tiles of group g
/// have the numbers from (its first unit >> log_tile) + g on. That is behind all tiles of the groups before
/// it, so no sum over the groups is needed to find a tile. Some numbers belong to no tile.
struct group_tiles {
  row_groups groups;
  i64 units_of_row;
  int log_tile;

  /// How many tile numbers a packed matrix of `rows` rows has at most.
  FOURSCALE_H i64 count(i64 rows) const { return (rows * units_of_row >> log_tile) + groups.count; }

  /// Finds the tile with the number `tile`. It belongs to the last group whose first tile has this number or
  /// a lower one. All lanes of a warp call this with the same number, and compare 32 groups at a time.
  FOURSCALE_D group_tile find(i64 tile) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    int group = 0, count = static_cast<int>(groups.count);
    while (count > 1) {
      const int step = (count - 1) / 32 + 1, mine = lane * step;
      const bool before = mine < count && first_tile(group + mine) <= tile;
      const int last = __popc(__ballot_sync(0xffff'ffffu, before)) - 1;
      group += last * step;
      count = count - last * step < step ? count - last * step : step;
    }
    const i64 index = tile - first_tile(group), first = first_unit(group) + (index << log_tile),
              left = first_unit(group + 1) - first, most = i64{1} << log_tile;
    return {group, index, first, left < 0 ? 0 : left < most ? left : most};
  }

 private:
  FOURSCALE_D i64 first_unit(int g) const { return groups.offset(g) * units_of_row; }
  FOURSCALE_D i64 first_tile(int g) const { return (first_unit(g) >> log_tile) + g; }
};

/// The walk for linear scales. The blocks of a group lie one after the other, so a CTA takes 256 * Batch
/// consecutive blocks and a thread every 256th of them, as in row_walk.
template <int Batch>
struct group_walk {
  static constexpr int log_tile = 8 + (Batch == 4 ? 2 : Batch == 2 ? 1 : 0);
  static_assert(1 << log_tile == threads * Batch);
  i64 rows;
  divisor along;  ///< blocks of a row
  group_tiles tiles;

  struct cursor {
    static constexpr int batch = Batch;
    group_walk const& walk;
    group_tile tile;
    i64 first_row;
    u32 skipped = static_cast<u32>(tile.first - first_row * walk.along.d);  ///< blocks of first_row before it
    i64 first = tile.first + threadIdx.x;

    FOURSCALE_D u32 number(int k) const { return threadIdx.x + static_cast<u32>(k) * threads; }
    FOURSCALE_D u32 rows_below(int k) const { return walk.along.quotient(skipped + number(k)); }
    FOURSCALE_D static constexpr int steps() { return Batch; }
    FOURSCALE_D bool inside(int k) const { return number(k) < static_cast<u32>(tile.count); }
    FOURSCALE_D static constexpr bool padding(int) { return false; }
    FOURSCALE_D place at(int k) const {
      const u32 below = rows_below(k);
      return {first_row + below, skipped + number(k) - below * walk.along.d, first + i64{k} * threads};
    }
    template <class F>
    FOURSCALE_D tensor_scale<F> tensor(tensor_amax<F> const& amax) const {
      return amax.scale_of_group(tile.group);
    }
  };

  FOURSCALE_D cursor begin() const {
    const group_tile tile = tiles.find(cta_from_end());
    return {*this, tile,
            tile.first < i64{1} << 31 ? along.quotient(static_cast<u32>(tile.first)) : tile.first / along.d};
  }

  FOURSCALE_H static group_walk over(row_groups const& groups, i64 rows, i64 blocks) {
    return {rows, divisor(static_cast<u32>(blocks)), {groups, blocks, log_tile}};
  }
  FOURSCALE_H i64 ctas() const { return tiles.count(rows); }
  FOURSCALE_H dim3 grid() const { return dim3(static_cast<unsigned>(ctas())); }
};

/// The walk for swizzled scales: each group by tiles of 128 rows x 32 blocks. A thread takes four blocks of a
/// row, then four of the row 32 below, and stops where the group has no more rows: the tiles of small groups
/// are nearly empty.
template <int Batch>
struct group_tile_walk {
  static constexpr int along = 32, scale_tiles = along / 4;
  i64 rows, blocks;
  group_tiles tiles;
  divisor tiles_along;

  struct cursor {
    static constexpr int batch = Batch;
    group_tile_walk const& walk;
    group_tile tile;
    i64 first;
    int r = static_cast<int>(threadIdx.x) / 8, b = static_cast<int>(threadIdx.x) % 8;
    i64 row = tile.first + r, block = first + b, blocks_left = walk.blocks - block;
    int rows_left = static_cast<int>(tile.count) - r;

    FOURSCALE_D int steps() const { return 4 * (static_cast<int>(tile.count + 31) / 32); }
    FOURSCALE_D bool inside(int k) const { return 32 * (k / 4) < rows_left && 8 * (k % 4) < blocks_left; }
    FOURSCALE_D bool padding(int k) const { return k < steps() && !inside(k); }
    FOURSCALE_D place at(int k) const {
      return {row + 32 * (k / 4), block + 8 * (k % 4), 0,
              b / 4 * 512 + b % 4 + 16 * r + k % 4 * 1024 + k / 4 * 4};
    }
    template <class F>
    FOURSCALE_D tensor_scale<F> tensor(tensor_amax<F> const& amax) const {
      return amax.scale_of_group(tile.group);
    }
    // The members that swizzled_sink needs, which gathers the scales of a tile.
    FOURSCALE_D i64 first_block() const { return first; }
    /// Counts the tiles of 128 rows in all groups before this one. All threads call it; each warp writes its
    /// part of the sum to `before`.
    FOURSCALE_D void count_before(u32 (&before)[threads / 32]) const {
      row_groups const& groups = walk.tiles.groups;
      u32 mine = 0;
#pragma unroll 1
      for (int g = static_cast<int>(threadIdx.x); g < tile.group; g += threads)
        mine += static_cast<u32>((groups.offset(g + 1) - groups.offset(g) + 127) >> 7);
      mine = __reduce_add_sync(0xffff'ffffu, mine);
      if (threadIdx.x % 32 == 0) before[threadIdx.x / 32] = mine;
    }
    /// The row of the tile in the layout of the packed scales, in tiles of 128 rows. Needs a barrier after
    /// count_before().
    FOURSCALE_D i64 scale_tile_row(u32 const (&before)[threads / 32]) const {
      i64 tile_row = tile.index;
      FOURSCALE_UNROLL
      for (u32 sum : before) tile_row += sum;
      return tile_row;
    }
    FOURSCALE_D i64 rows_in_tile() const { return tile.count; }
  };

  FOURSCALE_D cursor begin() const {
    const u32 at = cta_from_end(), tile_row = tiles_along.quotient(at);
    return {*this, tiles.find(tile_row), i64{at - tile_row * tiles_along.d} * along};
  }

  FOURSCALE_H static group_tile_walk over(row_groups const& groups, i64 rows, i64 blocks) {
    return {rows, blocks, {groups, 1, 7}, divisor(static_cast<u32>(ceil_div<i64>(blocks, along)))};
  }
  FOURSCALE_H i64 ctas() const { return tiles.count(rows) * tiles_along.d; }
  FOURSCALE_H dim3 grid() const { return dim3(static_cast<unsigned>(ctas())); }
};

}  // namespace FOURSCALE_NAMESPACE::cta
