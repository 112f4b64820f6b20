// SPDX-License-Identifier: Apache-2.0
// Whole matrices on the CPU, on all cores where the user compiles with OpenMP. Same policies, same bits as a
// kernel.
#pragma once

#include "../view/requirements.hpp"
#include "../view/validate.hpp"
#include "run.hpp"

namespace fourscale::host {

namespace detail {

/// Zeroes the scales of a layout with padding; quantize() then writes all the others.
template <class F, class Layout>
void clear_scale_padding(block_scaled_view<F, Layout, u8> const& q) {
  if constexpr (Layout::has_padding && block_scale_bytes<F> != 0)
    __builtin_memset(q.scales, 0, static_cast<u64>(scale_bytes<F, Layout>(q.rows, q.cols)));
}

/// What holds the values of a run: bf16 of a row stay in place, unless a policy asks for whole blocks.
template <class F, class M, class Quantizer>
constexpr auto values_for() {
  constexpr bool by_pairs = __is_same(decltype(Quantizer::transform), identity) &&
                            __is_same(decltype(Quantizer::round), nearest_even) &&
                            amax_scaling_policy<decltype(Quantizer::scale), F>;
  if constexpr (by_pairs && bf16_values::fits && __is_same(typename M::value_type, bf16))
    return bf16_values{};
  else
    return float_values{};
}

/// Part of a transposed matrix, transposed once more, so that its rows lie in memory. They lie a line further
/// apart than they are long: else all would meet in a few sets of the first cache.
template <class T, i64 Rows, i64 Cols>
struct gathered_rows {
  static constexpr i64 line = 64 / static_cast<i64>(sizeof(T)), ld = Cols + line;
  alignas(64) T values[Rows * ld];

  /// `rows` from `row` on, of each the `cols` values from `col` on, a multiple of four: four stored rows of x
  /// at a time. No cache looks ahead by itself where each is in another page.
  template <matrix_like M>
  matrix_view<T const> gather(M const& x, i64 row, i64 rows, i64 col, i64 cols) {
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

/// What is quantized at a time: rows and blocks. Of a transposed matrix, as many rows as two lines of memory
/// have values, and as many values of each as 64 KiB hold.
template <class F, class M, bool Is2d>
struct band_shape {
  static constexpr i64 value_bytes = sizeof(typename M::value_type), capacity = run<F>::capacity;
  static constexpr i64 rows = Is2d ? F::block_size : M::is_transposed ? 128 / value_bytes : 1;
  static constexpr i64 fit = 65536 / (rows * F::block_size * value_bytes);
  static constexpr i64 blocks = !M::is_transposed || fit > capacity ? capacity : fit > 1 ? fit : 1;
};

/// Part of a quantized matrix: rows [row, last_row) of the blocks [first, first + count). Policies see row r
/// as `above` + r.
struct band {
  i64 row, last_row, first;
  int count;
  i64 above;
};

/// Each row of a band by itself, or all under common scales. In x, which is not transposed, they begin at row
/// x_row and block x_first.
template <bool Is2d, class F, class Layout, matrix_like M, class Quantizer>
void quantize_band(M const& x, i64 x_row, i64 x_first, block_scaled_view<F, Layout, u8> const& q,
                   Quantizer const& recipe, band const& b) {
  run<F, decltype(values_for<F, M, Quantizer>())> r;
  const tensor_scale<F> of_first_row = q.amax.scale_of_row(b.row);
  const auto load = [&](i64 i) { r.load(x, x_row + (i - b.row), x_first, b.count, recipe.transform); };
  const auto where = [&](i64 i) { return position{b.above + i, b.first * F::block_size}; };
  if constexpr (Is2d) {
    r.clear_amax(b.count);
    for (i64 i = b.row; i < b.last_row; ++i) {
      load(i);
      r.raise_amax();
    }
    if constexpr (amax_scaling_policy<decltype(recipe.scale), F>) {
      r.choose_scales(recipe.scale, of_first_row, where(b.row));
    } else {
      r.clear_errors(recipe.scale, of_first_row);
      for (i64 i = b.row; i < b.last_row; ++i) {
        load(i);
        r.weigh_row(recipe.scale, static_cast<int>(i - b.row), of_first_row);
      }
      r.choose_lighter();
    }
  }
  for (i64 i = b.row; i < b.last_row; ++i) {
    load(i);
    if constexpr (!Is2d) {
      r.clear_amax(b.count);
      r.raise_amax();
      const bool of_row = q.amax.kind == amax_kind::per_row;
      r.choose_scales(recipe.scale, of_row ? q.amax.scale_of_row(i) : of_first_row, where(i));
    }
    r.store(q, i, b.first, recipe.round, where(i));
  }
}

/// quantize() of what is valid; policies see row r as `above` + r.
template <bool Is2d, matrix_like M, class F, class Layout, class Quantizer>
void quantize_bands(M const& x, block_scaled_view<F, Layout, u8> const& q, Quantizer const& of_any_input,
                    i64 above) {
  const Quantizer recipe = for_input<typename M::value_type>(of_any_input);
  clear_scale_padding(q);
  using shape_of = band_shape<F, M, Is2d>;
  const i64 bands_along = ceil_div(q.blocks(), shape_of::blocks),
            bands = ceil_div(q.rows, shape_of::rows) * bands_along;
#ifdef _OPENMP
#pragma omp parallel for schedule(static) if (q.rows * q.cols > 65536)
#endif
  for (i64 i = 0; i < bands; ++i) {
    constexpr i64 n = F::block_size;
    const i64 row = i / bands_along * shape_of::rows, first = i % bands_along * shape_of::blocks,
              rows_left = q.rows - row, blocks_left = q.blocks() - first,
              rows = rows_left < shape_of::rows ? rows_left : shape_of::rows,
              count = blocks_left < shape_of::blocks ? blocks_left : shape_of::blocks;
    const band b{row, row + rows, first, static_cast<int>(count), above};
    if constexpr (M::is_transposed) {
      gathered_rows<typename M::value_type, shape_of::rows, shape_of::blocks * n> gathered;
      quantize_band<Is2d>(gathered.gather(x, row, rows, first * n, count * n), 0, 0, q, recipe, b);
    } else {
      quantize_band<Is2d>(x, row, first, q, recipe, b);
    }
  }
}

}  // namespace detail

/// Quantizes x into q, blocks along the rows of x; quantize(transposed(x), q) makes the columnwise copy. Formats
/// with a tensor scale take the amax of q, which must be brought to the range of the quantizer. Padding of the scale layout is zeroed.
/// `blocks_2d<16, 16>{}` (32 for MX) gives square tiles; the last tiles may have fewer rows.
/// Errors: see validate(); the output is then untouched.
template <class M, class F, class Layout, class Byte, class Quantizer = quantizer<>, class Blocks = blocks_1d>
errc quantize(M const& x, block_scaled_view<F, Layout, Byte> const& q, Quantizer const& recipe = {},
              Blocks shape = {}) {
  if constexpr (fourscale::detail::can_quantize<M, F, Byte, Quantizer, Blocks>()) {
    if (const errc e = validate(x, q, shape, recipe); e != errc::ok) return e;
    detail::quantize_bands<Blocks::is_2d>(x, q, recipe, 0);
  }
  return errc::ok;
}

}  // namespace fourscale::host
