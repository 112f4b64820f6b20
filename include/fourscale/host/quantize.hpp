// SPDX-License-Identifier: Apache-2.0
// Whole matrices on the CPU, on all cores where the user compiles with OpenMP. Same policies, same bits as a
// kernel.
#pragma once

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

/// The tensor scale that a row is quantized under.
template <class F, class Layout, class Scale>
tensor_scale<F> tensor_scale_of_row(block_scaled_view<F, Layout, u8> const& q, Scale const& scale, i64 row) {
  if constexpr (F::has_tensor_scale)
    if (q.row_amax != nullptr) return tensor_scale_for<F>(scale, q.row_amax[row]);
  return q.tensor_scale;
}

/// What holds the values of a run: bf16 of a row stay in place, unless a policy asks for whole blocks.
template <class F, class M, class Quantizer>
constexpr auto values_for() {
  constexpr bool by_pairs = __is_same(decltype(Quantizer::transform), identity) &&
                            __is_same(decltype(Quantizer::round), nearest_even) &&
                            amax_scaling_policy<decltype(Quantizer::scale), F>;
  if constexpr (by_pairs && bf16_values::fits && __is_same(typename M::value_type, bf16) && !M::is_transposed)
    return bf16_values{};
  else
    return float_values{};
}

/// Rows [row, last_row) of the blocks [first, first + count): each row by itself, or all under common scales.
template <bool Is2d, class F, class Layout, matrix_like M, class Quantizer>
void quantize_band(M const& x, block_scaled_view<F, Layout, u8> const& q, Quantizer const& recipe, i64 row,
                   i64 last_row, i64 first, int count) {
  run<F, decltype(values_for<F, M, Quantizer>())> r;
  if constexpr (Is2d) {
    r.clear_amax(count);
    for (i64 i = row; i < last_row; ++i) {
      r.load(x, i, first, count, recipe.transform);
      r.raise_amax();
    }
    if constexpr (amax_scaling_policy<decltype(recipe.scale), F>) {
      r.choose_scales(recipe.scale, q.tensor_scale, position{row, first * F::block_size});
    } else {
      r.clear_errors(recipe.scale, q.tensor_scale);
      for (i64 i = row; i < last_row; ++i) {
        r.load(x, i, first, count, recipe.transform);
        r.weigh_row(recipe.scale, static_cast<int>(i - row), q.tensor_scale);
      }
      r.choose_lighter();
    }
  }
  for (i64 i = row; i < last_row; ++i) {
    r.load(x, i, first, count, recipe.transform);
    if constexpr (!Is2d) {
      r.clear_amax(count);
      r.raise_amax();
      r.choose_scales(recipe.scale, tensor_scale_of_row(q, recipe.scale, i),
                      position{i, first * F::block_size});
    }
    r.store(q, i, first, recipe.round);
  }
}

}  // namespace detail

/// Quantizes x into q, blocks along the rows of x; quantize(transposed(x), q) makes the columnwise copy. Set
/// q.tensor_scale before, from amax(x), for formats that have one. Padding of the scale layout is zeroed.
/// `blocks_2d<16, 16>{}` (32 for MX) gives square tiles; the last tiles may have fewer rows.
/// Errors: see validate(); the output is then untouched.
template <matrix_like M, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>,
          class Blocks = blocks_1d>
errc quantize(M const& x, block_scaled_view<F, Layout, u8> const& q, Quantizer const& recipe = {},
              Blocks shape = {}) {
  static_assert(!Blocks::is_2d || __is_same(decltype(recipe.transform), identity),
                "2-D blocks take no transform.");
  if (const errc e = validate(x, q, shape); e != errc::ok) return e;
  detail::clear_scale_padding(q);
  // A transposed matrix is walked along its stored rows, eight blocks at a time: they fill whole lines of
  // codes.
  constexpr i64 band_rows = Blocks::is_2d ? F::block_size : M::is_transposed ? 64 : 1;
  constexpr i64 capacity = detail::run<F>::capacity;
  constexpr i64 band_blocks = M::is_transposed && capacity > 8 ? 8 : capacity;
  const i64 bands_along = ceil_div(q.blocks(), band_blocks),
            bands = ceil_div(q.rows, band_rows) * bands_along;
#ifdef _OPENMP
#pragma omp parallel for schedule(static) if (q.rows * q.cols > 65536)
#endif
  for (i64 band = 0; band < bands; ++band) {
    const i64 row = band / bands_along * band_rows, first = band % bands_along * band_blocks;
    const i64 last_row = row + band_rows < q.rows ? row + band_rows : q.rows;
    const i64 left = q.blocks() - first;
    detail::quantize_band<Blocks::is_2d>(x, q, recipe, row, last_row, first,
                                         static_cast<int>(left < band_blocks ? left : band_blocks));
  }
  return errc::ok;
}

}  // namespace fourscale::host
