// SPDX-License-Identifier: Apache-2.0
// Dequantizes a whole matrix to float, bf16 or fp16, on the CPU.
#pragma once

#include "../view/requirements.hpp"
#include "../view/validate.hpp"
#include "values.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

namespace detail {

/// Dequantizes the blocks `at` of q to floats. The values must be those of dequantize_block().
template <class F, class Layout, class Byte>
void dequantize_blocks(block_scaled_view<F, Layout, Byte> const& q, block_range const& at, float* values) {
  using element = typename F::element;
  constexpr int n = F::block_size;
  typename F::scale scales[segment_size / n];
  float factors[segment_size / n];
  for_each_row(at, q.blocks(), [&](row_part const& part) {
    for (int b = 0; b < part.count; ++b) scales[part.first + b] = q.load_scale(part.row, part.block + b);
  });
  const i64 blocks_in_row = q.amax.by_row() ? q.blocks() : at.block + at.count;
  for_each_row(at, blocks_in_row, [&](row_part const& part) {
    const tensor_scale<F> tensor = q.amax.scale_of_row(part.row);
    for (int b = part.first; b < part.first + part.count; ++b)
      factors[b] = tensor.dequantize_factor(lanes::decode_scale(scales[b]));
  });
  alignas(64) u32 codes[segment_size];
  unpack_pairs<element::width>(q.codes + q.code_offset(at.row, at.block), at.count * n / 2, codes);
  for (int b = 0; b < at.count; ++b)
    for (int i = b * n; i < (b + 1) * n; ++i) values[i] = lanes::decode_bits<element>(codes[i]) * factors[b];
}

/// A value of the matrix. Rounding to 16 bits gives a NaN its bits by itself.
template <class T>
T rounded(float value) {
  if constexpr (same_type<T, float>)
    return with_nan_of_gpu(value);
  else
    return from_float<T>(value);
}

template <class F, class Layout, class Byte, matrix_like M>
void dequantize_valid(block_scaled_view<F, Layout, Byte> const& q, M const& y) {
  constexpr int n = F::block_size, at_once = segment_size / n;
  const i64 blocks = q.rows * q.blocks(), ranges = ceil_div<i64>(blocks, at_once);
#ifdef _OPENMP
#pragma omp parallel for if (q.rows * q.cols > 65536)
#endif
  for (i64 i = 0; i < ranges; ++i) {
    const block_range at = range_of(i * at_once, blocks, q.blocks(), at_once);
    alignas(64) float values[segment_size];
    dequantize_blocks(q, at, values);
    for_each_stretch<n>(y, 0, 0, at, q.blocks(), [&](i64 row, i64 col, int first, int count) {
      for (int k = 0; k < count; ++k) y.at(row, col + k) = rounded<typename M::value_type>(values[first + k]);
    });
  }
}

}  // namespace detail

/// Writes the values of q to y (pass transposed(y) for a columnwise copy). Each value is rounded once to
/// float, as in dequantize_block(), and once more to y's type. A NaN is 0x7fff'ffff, or 0x7fff in 16 bits.
/// Errors: see validate(); y is then untouched.
template <class F, class Layout, class Byte, class M>
errc dequantize(block_scaled_view<F, Layout, Byte> const& q, M const& y) {
  if constexpr (fourscale::detail::can_write<M>()) {
    if (const errc e = validate(y, q); e != errc::ok) return e;
    detail::dequantize_valid(q, y);
  }
  return errc::ok;
}

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
