// SPDX-License-Identifier: Apache-2.0
// Walks: which blocks of a matrix a thread takes, and in what order.
//
// A walk is an argument of a kernel; walk.begin() in the kernel gives the cursor of the thread. A cursor has
//   batch           how many blocks are on their way from memory at once, a constant
//   steps()         the number of steps at most: batch, or more than one batch
//   inside(k)       true if there is a block at step k
//   padding(k)      if not inside(k): true if step k lies in the padding of the scale layout
//   at(k)           the place of step k
//   tensor(amax)    the tensor scale of its blocks, unless rows have their own
#pragma once

#include "../view/tensor_amax.hpp"
#include "divisor.cuh"
#include "values.cuh"

namespace FOURSCALE_NAMESPACE::cta {

inline constexpr int threads = 256;  ///< threads of a CTA that walks along rows

/// The number of the CTA, counted from the end of the grid. amax() goes through a matrix from its start. What
/// it read last is still in L2, and quantize() reads it first.
FOURSCALE_D inline u32 cta_from_end() { return gridDim.x - 1 - blockIdx.x; }

/// The place of a block: its row and block in the matrix, its index, counted along the rows of the scale
/// layout, and where its scale is among those that the CTA gathers, see swizzled_sink.
struct place {
  i64 row, block, index = 0;
  int gathered = 0;
};

/// The place of a block in rows of `along` blocks without padding.
FOURSCALE_D inline place place_in(i64 along, i64 row, i64 block) { return {row, block, row * along + block}; }

/// How many blocks a thread has on their way from memory: 128 bytes of values, or one block.
template <int N, class T>
inline constexpr int blocks_on_the_way = N * sizeof(T) > 64   ? 1
                                         : N * sizeof(T) > 32 ? 2
                                                              : 4;

/// Walks over the blocks of the scale layout, counted along rows: a CTA takes 256 * Batch consecutive blocks,
/// a thread every 256th of them. `Padded`: the layout has padding. blockIdx.y counts chunks of rows whose
/// blocks 31 bits can count.
template <int Batch, bool Padded>
struct row_walk {
  i64 rows, blocks, layout_rows;
  divisor along;  ///< blocks of a row in the layout
  u32 chunk_rows;

  struct cursor {
    static constexpr int batch = Batch;
    row_walk const& walk;
    i64 first_row;
    u32 count, first;  ///< within the chunk
    i64 first_of_all = first_row * walk.along.d + first;

    FOURSCALE_D u32 number(int k) const { return first + static_cast<u32>(k) * threads; }
    FOURSCALE_D i64 row(int k) const { return first_row + walk.along.quotient(number(k)); }
    FOURSCALE_D i64 block(int k) const { return number(k) - walk.along.quotient(number(k)) * walk.along.d; }
    FOURSCALE_D static constexpr int steps() { return Batch; }
    FOURSCALE_D bool inside(int k) const {
      return number(k) < count && (!Padded || (row(k) < walk.rows && block(k) < walk.blocks));
    }
    FOURSCALE_D bool padding(int k) const { return Padded && number(k) < count && !inside(k); }
    FOURSCALE_D place at(int k) const { return {row(k), block(k), first_of_all + i64{k} * threads}; }
    template <class F>
    FOURSCALE_D tensor_scale<F> tensor(tensor_amax<F> const& amax) const {
      return amax.scale_of_all();
    }
  };

  FOURSCALE_D cursor begin() const {
    const i64 first_row = i64{blockIdx.y} * chunk_rows, rows_left = layout_rows - first_row;
    const u32 in_chunk = static_cast<u32>(rows_left < chunk_rows ? rows_left : chunk_rows);
    return {*this, first_row, in_chunk * along.d, cta_from_end() * (threads * Batch) + threadIdx.x};
  }

  template <class Layout>
  FOURSCALE_H static row_walk over(Layout, i64 rows, i64 blocks) {
    const i64 r = Layout::padded_rows(rows), b = Layout::padded_blocks(blocks), most = (i64{1} << 31) / b - 1;
    return {rows, blocks, r, divisor(static_cast<u32>(b)), static_cast<u32>(r < most ? r : most)};
  }
  FOURSCALE_H dim3 grid() const {
    return dim3(static_cast<unsigned>(ceil_div<i64>(i64{chunk_rows} * along.d, threads * Batch)),
                static_cast<unsigned>(ceil_div<i64>(layout_rows, chunk_rows)));
  }
};

/// True if a walk goes by tiles of swizzled scales.
template <class Walk>
inline constexpr bool by_tiles = requires {
  Walk::scale_tiles;
};

/// Walks over any matrix, however large; a thread takes one block. Neighbouring threads take neighbouring
/// blocks of a row. In a transposed matrix, neighbouring rows are neighbours in memory, so there they take
/// the same block of neighbouring rows.
template <bool Transposed>
struct any_walk {
  i64 rows, blocks, layout_rows, layout_blocks;

  struct cursor {
    static constexpr int batch = 1;
    any_walk const& walk;
    i64 first;

    FOURSCALE_D i64 row() const { return Transposed ? first % walk.layout_rows : first / walk.layout_blocks; }
    FOURSCALE_D i64 block() const {
      return Transposed ? first / walk.layout_rows : first % walk.layout_blocks;
    }
    FOURSCALE_D static constexpr int steps() { return 1; }
    FOURSCALE_D bool inside(int) const {
      return first < walk.layout_rows * walk.layout_blocks && row() < walk.rows && block() < walk.blocks;
    }
    FOURSCALE_D bool padding(int k) const {
      return first < walk.layout_rows * walk.layout_blocks && !inside(k);
    }
    FOURSCALE_D place at(int) const { return {row(), block(), first}; }
    template <class F>
    FOURSCALE_D tensor_scale<F> tensor(tensor_amax<F> const& amax) const {
      return amax.scale_of_all();
    }
  };

  FOURSCALE_D cursor begin() const {
    return {*this, (i64{blockIdx.y} * gridDim.x + blockIdx.x) * threads + threadIdx.x};
  }
  template <class Layout>
  FOURSCALE_H static any_walk over(Layout, i64 rows, i64 blocks) {
    return {rows, blocks, Layout::padded_rows(rows), Layout::padded_blocks(blocks)};
  }
  FOURSCALE_H dim3 grid() const {
    const i64 ctas = ceil_div<i64>(layout_rows * layout_blocks, threads), most = 0x7fff'ffff;
    return dim3(static_cast<unsigned>(ctas < most ? ctas : most),
                static_cast<unsigned>(ceil_div(ctas, most)));
  }
};

/// Walks by tiles of 128 rows x 8 blocks, whose swizzled scales are 1 KiB without gaps. A thread takes one
/// block in each of the rows r, r + 32, r + 64 and r + 96.
template <int Batch>
struct tile_walk {
  static constexpr int along = 8, scale_tiles = along / 4;
  i64 rows, blocks;
  divisor tiles_along;

  struct cursor {
    static constexpr int batch = Batch;
    tile_walk const& walk;
    i64 tile_row, tile_col;
    int r = static_cast<int>(threadIdx.x) / along, b = static_cast<int>(threadIdx.x) % along;
    i64 row = tile_row * 128 + r, block = tile_col * along + b;
    bool in_row = block < walk.blocks;

    FOURSCALE_D static constexpr int steps() { return 4; }
    FOURSCALE_D bool inside(int k) const { return in_row && row + 32 * k < walk.rows; }
    FOURSCALE_D bool padding(int k) const { return !inside(k); }
    FOURSCALE_D place at(int k) const {
      return {row + 32 * k, block, 0, b / 4 * 512 + 16 * r + 4 * k + b % 4};
    }
    template <class F>
    FOURSCALE_D tensor_scale<F> tensor(tensor_amax<F> const& amax) const {
      return amax.scale_of_all();
    }
    // The members that swizzled_sink needs, which gathers the scales of a tile.
    FOURSCALE_D i64 first_block() const { return tile_col * along; }
    FOURSCALE_D i64 scale_tile_row(u32 const (&)[threads / 32]) const { return tile_row; }
    FOURSCALE_D static constexpr int rows_in_tile() { return 128; }
  };

  FOURSCALE_D cursor begin() const {
    const u32 at = cta_from_end(), tile_row = tiles_along.quotient(at);
    return {*this, tile_row, at - tile_row * tiles_along.d};
  }

  FOURSCALE_H static i64 tiles(i64 rows, i64 blocks) {
    return ceil_div<i64>(blocks, along) * ceil_div<i64>(rows, 128);
  }
  FOURSCALE_H static tile_walk over(i64 rows, i64 blocks) {
    return {rows, blocks, divisor(static_cast<u32>(ceil_div<i64>(blocks, along)))};
  }
  FOURSCALE_H dim3 grid() const { return dim3(static_cast<unsigned>(tiles(rows, blocks))); }
};

}  // namespace FOURSCALE_NAMESPACE::cta
