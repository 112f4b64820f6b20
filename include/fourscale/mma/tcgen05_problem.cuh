// SPDX-License-Identifier: Apache-2.0
// What a tcgen05 GEMM is given, and the order in which a cluster takes the tiles of D.
#pragma once

#include <cuda.h>

#include "../view/block_scaled_view.hpp"
#include "../view/gemm_factors.hpp"
#include "../view/matrix_view.hpp"
#include "tcgen05_tile.cuh"

namespace FOURSCALE_NAMESPACE::mma::tcgen05 {

/// D = alpha * A * B^T + beta * D: the arguments of the kernel.
template <block_format F, block_format G, class T>
struct problem {
  CUtensorMap codes_a, codes_b;  ///< of bytes, with the 128-byte swizzle; boxes of one stage
  CUtensorMap map_d;             ///< if D goes by boxes: see tcgen05_store.cuh
  block_scaled_view<F, swizzled_128x4, u8 const> a;
  block_scaled_view<G, swizzled_128x4, u8 const> b;
  matrix_view<T> d;
  gemm_factors factors;
  bool wide_d;    ///< rows of D begin at multiples of 16 bytes
  bool by_boxes;  ///< TMA stores D
};

/// The tiles of group `group` of a cluster, which takes as many as it has groups, one below the other: every
/// `step`-th of these, column after column of them, so that CTAs that run at the same time share rows of B.
/// All groups take as many tiles as each other, so the last one may lie below D.
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
