// SPDX-License-Identifier: Apache-2.0
// FP8 in blocks of 128 values along columns, or of 128 x 128, and both copies. A CTA transposes a square of
// 128 x 128 values into shared memory, and then quantizes its columns as quantize_wide.cuh quantizes rows.
#pragma once

#include "quantize_wide.cuh"

namespace FOURSCALE_NAMESPACE::cta {

/// A square of 128 x 128 values in shared memory, column by column: the values of a vector are neighbours in
/// a column. The order of the vectors differs between columns (a swizzle), so that the threads of fill_tile()
/// write to different banks.
template <class T>
struct wide_tile {
  static constexpr int side = wide_block;
  static constexpr int vector_values = 16 / static_cast<int>(sizeof(T));
  static constexpr int vectors = side / vector_values;  ///< of a column
  vector16 columns[side][vectors];

  /// Where vector `vector` of column `col` is in columns[col].
  FOURSCALE_D static int swizzled(int col, int vector) { return vector ^ col / vector_values % vectors; }
};

namespace detail {

/// Loads values of a row of x from column `col` on; those outside of x are zero. `Aligned`: rows of x are
/// aligned to 16 bytes.
template <bool Aligned, class T, int N>
FOURSCALE_D values<T, N> load_part(matrix_view<T const> const& x, i64 row, i64 col) {
  values<T, N> part{};
  if (row >= x.rows) return part;
  if (Aligned && col + N <= x.cols) return values<T, N>::load(&x.at(row, col));
  FOURSCALE_UNROLL
  for (int i = 0; i < N; ++i)
    if (col + i < x.cols) part.set(i, x.at(row, col + i));
  return part;
}

}  // namespace detail

/// Fills a tile with the square of x that begins at first_row, first_col. All threads of a CTA call it; a
/// barrier must follow.
template <bool Aligned, class T>
FOURSCALE_D void fill_tile(matrix_view<T const> const& x, i64 first_row, i64 first_col, wide_tile<T>& tile) {
  using tile_type = wide_tile<T>;
  constexpr int n = tile_type::vector_values, count = tile_type::vectors;
  using part = values<T, n>;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count * count; i += threads) {
    const int col = i % count * n, vector = i / count;  // neighbouring threads read neighbours in a row
    part rows[n];
    FOURSCALE_UNROLL
    for (int r = 0; r < n; ++r)
      rows[r] = detail::load_part<Aligned, T, n>(x, first_row + vector * n + r, first_col + col);
    FOURSCALE_UNROLL
    for (int c = 0; c < n; ++c) {
      part column{};
      FOURSCALE_UNROLL
      for (int r = 0; r < n; ++r) column.set(r, rows[r].get(c));
      column.store(reinterpret_cast<T*>(&tile.columns[col + c][tile_type::swizzled(col + c, vector)]));
    }
  }
}

/// The producer of the pieces in a tile, which are pieces of the transposed matrix.
template <class T>
struct tile_producer {
  using block_type = values<T, piece_values>;
  wide_tile<T> const& tile;
  i64 rows, cols;              ///< of the transposed matrix
  i64 first_row, first_piece;  ///< of the tile in it

  FOURSCALE_D block_type load(place const& at) const {
    constexpr int n = piece_values / wide_tile<T>::vector_values;
    const int col = static_cast<int>(at.row - first_row), piece = static_cast<int>(at.block - first_piece);
    block_type values;
    FOURSCALE_UNROLL
    for (int i = 0; i < n; ++i) {
      const vector16 v = tile.columns[col][wide_tile<T>::swizzled(col, piece * n + i)];
      FOURSCALE_UNROLL
      for (int w = 0; w < 4; ++w) values.words[4 * i + w] = v.words[w];
    }
    return values;
  }
};

/// Quantizes a square of 128 x 128 of a copy; `source` gives its values. tile_row and tile_block count
/// squares of the copy. All threads of a CTA call it.
template <block_format F, bool Is2d, producer Producer, class Layout, bool Aligned,
          quantizer_for<F> Quantizer>
FOURSCALE_D void quantize_wide_tile(i64 tile_row, i64 tile_block, Producer const& source,
                                    wide_sink<F, Layout, Aligned> const& sink, Quantizer const& q,
                                    [[maybe_unused]] reduction& shared) {
  const tile_cursor<F, Layout> cursor{sink.q, tile_row * wide_block, tile_block * pieces_of_block};
  if constexpr (Is2d)
    quantize_wide_square<F>(cursor, source, sink, q, shared);
  else
    quantize_wide_rows<F>(cursor, source, sink, q);
}

/// The same for the columnwise copy, from a filled tile.
template <block_format F, bool Is2d, class T, class Layout, bool Aligned, quantizer_for<F> Quantizer>
FOURSCALE_D void quantize_wide_tile(i64 tile_row, i64 tile_block, wide_tile<T> const& tile,
                                    wide_sink<F, Layout, Aligned> const& sink, Quantizer const& q,
                                    reduction& shared) {
  quantize_wide_tile<F, Is2d>(
      tile_row, tile_block,
      tile_producer<T>{tile, sink.q.rows, sink.q.cols, tile_row * wide_block, tile_block * pieces_of_block},
      sink, q, shared);
}

/// Makes the columnwise copy of the square of x with 128 columns from 128 * tile_row on and 128 rows from 128
/// * tile_block on. `q` is prepared(). All threads of a CTA call it.
template <block_format F, bool Is2d, bool Aligned, class T, class Layout, quantizer_for<F> Quantizer>
FOURSCALE_D void quantize_wide_columns(i64 tile_row, i64 tile_block, matrix_view<T const> const& x,
                                       wide_sink<F, Layout, Aligned> const& sink, Quantizer const& q,
                                       wide_tile<T>& tile, reduction& shared) {
  fill_tile<Aligned>(x, tile_block * wide_block, tile_row * wide_block, tile);
  __syncthreads();
  quantize_wide_tile<F, Is2d>(tile_row, tile_block, tile, sink, q, shared);
}

/// Makes both copies of the square of x that is number `down` from above and `along` from the left. The
/// rowwise copy is made from x itself, which is still in L1.
template <block_format F, bool Is2d, bool Aligned, class T, class Layout, class LayoutT,
          quantizer_for<F> Rowwise, quantizer_for<F> Columnwise>
FOURSCALE_D void quantize_wide_both(i64 down, i64 along, matrix_view<T const> const& x,
                                    wide_sink<F, Layout, Aligned> const& sink, Rowwise const& rowwise,
                                    wide_sink<F, LayoutT, Aligned> const& sink_t,
                                    Columnwise const& columnwise, wide_tile<T>& tile, reduction& shared) {
  fill_tile<Aligned>(x, down * wide_block, along * wide_block, tile);
  const matrix_producer<T, piece_values, Aligned ? access::vectors : access::anywhere> rows{x.data, x.rows,
                                                                                            x.cols, x.ld};
  if (along < Layout::padded_blocks(sink.q.blocks()))
    quantize_wide_tile<F, Is2d>(down, along, rows, sink, rowwise, shared);
  __syncthreads();
  if (down < LayoutT::padded_blocks(sink_t.q.blocks()))
    quantize_wide_tile<F, Is2d>(along, down, tile, sink_t, columnwise, shared);
}

}  // namespace FOURSCALE_NAMESPACE::cta
