// SPDX-License-Identifier: Apache-2.0
// Quantizes whole matrices on the CPU, on all cores if compiled with OpenMP. quantize() takes the policies of
// the device function and gives the same bits, in the usual floating-point environment: rounding to nearest
// even, FTZ and DAZ off. All of host/ needs this environment, except amax() and row_amax();
// docs/exactness.md says more.
//
// The work is done in segments (segment.hpp): up to 1024 values whose blocks go through each stage together.
// A range is a number of consecutive 1-D blocks, counted row after row. A band is a rectangle of blocks, for
// matrices that are transposed or have 2-D blocks.
#pragma once

#include "../view/requirements.hpp"
#include "../view/validate.hpp"
#include "segment.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

namespace detail {

/// Zeroes all scales if the layout has padding. quantize() then writes the scales of all blocks.
template <class F, class Layout>
void clear_scale_padding(block_scaled_view<F, Layout, u8> const& q) {
  if constexpr (Layout::has_padding && block_scale_bytes<F> != 0)
    __builtin_memset(q.scales, 0, static_cast<u64>(scale_bytes<F, Layout>(q.rows, q.cols)));
}

/// A copy of some rows of a transposed matrix in which each row is contiguous. Short rows follow one another.
/// Longer rows have a cache line between them; otherwise they would all fall into a few sets of the L1 cache.
template <class T, i64 Rows, i64 Cols>
struct gathered_rows {
  static constexpr i64 line = 64 / static_cast<i64>(sizeof(T));
  alignas(64) T values[Rows * (Cols + line)];

  /// Copies `rows` rows from `row` on, and of each `cols` values from `col` on. `cols` is a multiple of four.
  /// It reads four stored rows (columns of x) at a time and prefetches the next ones itself: the hardware
  /// does not prefetch where each stored row is in another page.
  template <matrix_like M>
  matrix_view<T const> gather(M const& x, i64 row, i64 rows, i64 col, i64 cols) {
    const i64 ld = cols <= 4 * line ? cols : cols + line;
    for (i64 c = 0; c < cols; c += 4) {
      if constexpr (requires { x.base.data; })
        for (i64 ahead = c + 16; ahead < c + 20 && ahead < cols; ++ahead)
          for (i64 r = 0; r < rows; r += line) __builtin_prefetch(&x.at(row + r, col + ahead));
      for (i64 r = 0; r < rows; ++r) {
        const auto value = [&](i64 i) -> T { return x.at(row + r, col + c + i); };
        T const four[4] = {value(0), value(1), value(2), value(3)};
        __builtin_memcpy(values + r * ld + c, four, sizeof four);
      }
    }
    return {values, rows, cols, ld};
  }
};

/// The most rows and blocks of a band. With 2-D blocks, a band has the rows of one block. A transposed matrix
/// in 1-D blocks has as many rows in a band as two cache lines have values. A band of a transposed matrix
/// fits in 64 KiB.
template <class F, class M, bool Is2d>
struct band_shape {
  static constexpr i64 value_bytes = sizeof(typename M::value_type), capacity = segment_size / F::block_size;
  static constexpr i64 rows = Is2d ? F::block_size : M::is_transposed ? 128 / value_bytes : 1;
  static constexpr i64 fit = 65536 / (rows * F::block_size * value_bytes);
  static constexpr i64 blocks = !M::is_transposed || fit > capacity ? capacity : fit > 1 ? fit : 1;
};

/// Part of a quantized matrix: the blocks [first, first + count) of rows [row, last_row).
struct band {
  i64 row, last_row, first;
  int count;
};

/// Quantizes one range of 1-D blocks. x is not transposed. It is the matrix from row `x_row` and block
/// `x_block` on: the whole matrix, or a gathered band.
template <class Segment, matrix_like M>
void quantize_range(Segment& s, M const& x, i64 x_row, i64 x_block, block_range const& at) {
  s.load(x, x_row, x_block, at);
  s.clear_amax(at.count);
  s.raise_amax();
  s.choose_scales();
  s.store();
}

/// Quantizes a band of 1-D blocks. If the band has whole rows, a range may go on from one row to the next;
/// else each row is a range.
template <class Segment, matrix_like M>
void quantize_rows(Segment& s, M const& x, i64 x_row, i64 x_block, band const& b) {
  const i64 all = (b.last_row - b.row) * b.count;
  const int at_once = b.count == s.q.blocks() ? Segment::capacity : b.count;
  for (i64 i = 0; i < all; i += at_once) {
    block_range at = range_of(i, all, b.count, at_once);
    at.row += b.row;
    at.block += b.first;
    quantize_range(s, x, x_row, x_block, at);
  }
}

/// Quantizes a band of 2-D blocks: the rows of the band share the scale of each block. It loads the values
/// once for the amaxes, once more to weigh candidate scales if the policy does that, and once for the codes.
template <class Segment, matrix_like M>
void quantize_tiles(Segment& s, M const& x, i64 x_row, i64 x_block, band const& b) {
  using format = typename Segment::format;
  const auto load = [&](i64 row) { s.load(x, x_row, x_block, {row, b.first, b.count}); };
  s.clear_amax(b.count);
  for (i64 row = b.row; row < b.last_row; ++row) {
    load(row);
    s.raise_amax();
  }
  s.at.row = b.row;
  if constexpr (amax_scaling_policy<typename Segment::scale_policy, format>) {
    s.choose_scales();
  } else {
    s.begin_weighing();
    for (i64 row = b.row; row < b.last_row; ++row) {
      load(row);
      s.weigh_row(static_cast<int>(row - b.row));
    }
    s.choose_lighter(format::block_size);
  }
  for (i64 row = b.row; row < b.last_row; ++row) {
    load(row);
    s.store();
  }
}

/// Quantizes a band of a matrix that is transposed or has 2-D blocks. Gathers the values of a transposed one
/// first.
template <bool Is2d, matrix_like M, class F, class Layout, class Quantizer>
void quantize_band(M const& x, block_scaled_view<F, Layout, u8> const& q, Quantizer const& recipe,
                   band const& b) {
  using shape_of = band_shape<F, M, Is2d>;
  segment<F, Layout, Quantizer, decltype(values_for<F, M, Quantizer>())> s(q, recipe, 0);
  const auto quantize = [&](auto const& rows, i64 x_row, i64 x_block) {
    if constexpr (Is2d)
      quantize_tiles(s, rows, x_row, x_block, b);
    else
      quantize_rows(s, rows, x_row, x_block, b);
  };
  if constexpr (M::is_transposed) {
    constexpr i64 n = F::block_size;
    gathered_rows<typename M::value_type, shape_of::rows, shape_of::blocks * n> gathered;
    quantize(gathered.gather(x, b.row, b.last_row - b.row, b.first * n, b.count * n), b.row, b.first);
  } else {
    quantize(x, 0, 0);
  }
}

/// Quantizes a matrix that is not transposed, in 1-D blocks: in ranges of as many blocks as a segment holds,
/// across the ends of rows. Policies see row r as row `above` + r.
template <matrix_like M, class F, class Layout, class Quantizer>
void quantize_ranges(M const& x, block_scaled_view<F, Layout, u8> const& q, Quantizer const& recipe,
                     i64 above) {
  using segment_type = segment<F, Layout, Quantizer, decltype(values_for<F, M, Quantizer>())>;
  const i64 blocks = q.rows * q.blocks(), ranges = ceil_div<i64>(blocks, segment_type::capacity);
#ifdef _OPENMP
#pragma omp parallel for schedule(static) if (q.rows * q.cols > 65536)
#endif
  for (i64 i = 0; i < ranges; ++i) {
    segment_type s(q, recipe, above);
    quantize_range(s, x, 0, 0,
                   range_of(i * segment_type::capacity, blocks, q.blocks(), segment_type::capacity));
  }
}

/// Quantizes a matrix that is transposed or has 2-D blocks, in bands.
template <bool Is2d, matrix_like M, class F, class Layout, class Quantizer>
void quantize_bands(M const& x, block_scaled_view<F, Layout, u8> const& q, Quantizer const& recipe) {
  using shape_of = band_shape<F, M, Is2d>;
  const i64 bands_along = ceil_div(q.blocks(), shape_of::blocks),
            bands = ceil_div(q.rows, shape_of::rows) * bands_along;
#ifdef _OPENMP
#pragma omp parallel for schedule(static) if (q.rows * q.cols > 65536)
#endif
  for (i64 i = 0; i < bands; ++i) {
    const i64 row = i / bands_along * shape_of::rows, first = i % bands_along * shape_of::blocks,
              rows_left = q.rows - row, blocks_left = q.blocks() - first,
              rows = rows_left < shape_of::rows ? rows_left : shape_of::rows,
              count = blocks_left < shape_of::blocks ? blocks_left : shape_of::blocks;
    quantize_band<Is2d>(x, q, recipe, {row, row + rows, first, static_cast<int>(count)});
  }
}

/// quantize() after validation. Policies see row r as row `above` + r, but quantize_bands() takes `above` as
/// 0.
template <bool Is2d, matrix_like M, class F, class Layout, class Quantizer>
void quantize_valid(M const& x, block_scaled_view<F, Layout, u8> const& q, Quantizer const& of_any_input,
                    i64 above) {
  const Quantizer recipe = for_input<typename M::value_type>(of_any_input);
  clear_scale_padding(q);
  if constexpr (Is2d || M::is_transposed)
    quantize_bands<Is2d>(x, q, recipe);
  else
    quantize_ranges(x, q, recipe, above);
}

}  // namespace detail

/// Quantizes x into q in blocks along the rows of x. quantize(transposed(x), q) makes the columnwise copy.
/// Formats with a tensor scale use q.amax, which must be brought to the range of the quantizer. Padding of
/// the scale layout is zeroed. With `blocks_2d<16, 16>{}` (32 for MX) the blocks are square tiles; the last
/// tiles may have fewer rows. Errors: see validate(); the output is then untouched.
template <class M, class F, class Layout, class Byte, class Quantizer = quantizer<>, class Blocks = blocks_1d>
errc quantize(M const& x, block_scaled_view<F, Layout, Byte> const& q, Quantizer const& quantizer = {},
              Blocks shape = {}) {
  if constexpr (fourscale::detail::can_quantize<M, F, Byte, Quantizer, Blocks>()) {
    if (const errc e = validate(x, q, shape, quantizer); e != errc::ok) return e;
    detail::quantize_valid<Blocks::is_2d>(x, q, quantizer, 0);
  }
  return errc::ok;
}

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
