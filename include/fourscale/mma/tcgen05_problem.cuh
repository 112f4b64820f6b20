// SPDX-License-Identifier: Apache-2.0
// The arguments of a tcgen05 GEMM, and its tile scheduler: the order in which a cluster takes the tiles of D.
#pragma once

#include <cuda.h>

#include "../view/block_scaled_view.hpp"
#include "../view/gemm_factors.hpp"
#include "../view/matrix_view.hpp"
#include "tcgen05_tile.cuh"

namespace FOURSCALE_NAMESPACE::mma::tcgen05 {

/// The arguments of the kernel that computes D = alpha * A * B^T + beta * D.
template <block_format F, block_format G, class T>
struct problem {
  CUtensorMap codes_a, codes_b;  ///< maps of bytes, 128-byte swizzle; a box is a stage
  CUtensorMap map_d;             ///< valid if by_boxes: see tcgen05_store.cuh
  block_scaled_view<F, swizzled_128x4, u8 const> a;
  block_scaled_view<G, swizzled_128x4, u8 const> b;
  matrix_view<T> d;
  gemm_factors factors;
  bool wide_d;    ///< rows of D begin at multiples of 16 bytes
  bool by_boxes;  ///< TMA stores D, in boxes
};

/// The tile scheduler of group `group` of a cluster. At each turn a cluster takes a stack of tiles of D, one
/// below the other, and each of its groups takes one tile of it. The stacks are numbered column after column,
/// and a cluster takes every `step`-th one: so CTAs that run at the same time share rows of B. All groups of
/// a cluster take the same number of tiles, so the last one of a group may lie below D.
template <class Tile>
struct tile_walk {
  static constexpr int ctas = Tile::cta_group * Tile::sharing, rows = Tile::rows * Tile::sharing;
  i64 along_rows, count, at, step, first_row;

  template <class P>
  FOURSCALE_D tile_walk(P const& p, u32 group)
      : along_rows(ceil_div<i64>(p.d.rows, rows)),
        count(along_rows * ceil_div<i64>(p.d.cols, Tile::columns)),
        at(blockIdx.x / ctas),
        step(gridDim.x / ctas),
        first_row(i64{group} * Tile::rows) {}
  FOURSCALE_D bool more() const { return at < count; }
  FOURSCALE_D void next() { at += step; }
  FOURSCALE_D i64 row() const { return at % along_rows * rows + first_row; }
  FOURSCALE_D i64 col() const { return at / along_rows * Tile::columns; }
};

}  // namespace FOURSCALE_NAMESPACE::mma::tcgen05
