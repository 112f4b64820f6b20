// SPDX-License-Identifier: Apache-2.0
// Transforms of whole matrices on the CPU, for those longer than a block, and the amax after a transform.
#pragma once

#include "../block/quantize.hpp"
#include "../view/validate.hpp"

namespace fourscale::host {

namespace detail {

/// Reads N values of a row before it writes them, so x and y may be the same.
template <int N, class M, class T, class Transform>
void transform_rows(M const& x, matrix_view<T> const& y, Transform const& t) {
#ifdef _OPENMP
#pragma omp parallel for if (x.rows * x.cols > 65536)
#endif
  for (i64 row = 0; row < x.rows; ++row)
    for (i64 col = 0; col < x.cols; col += N) {
      float values[N];
      for (int i = 0; i < N; ++i) values[i] = to_float(x.at(row, col + i));
      t(values);
      for (int i = 0; i < N; ++i)
        y.at(row, col + i) = from_float<typename matrix_view<T>::value_type>(values[i]);
    }
}

}  // namespace detail

/// The largest magnitude of x after `transform` of N consecutive values of each row at a time; x.cols must be
/// a multiple of N.
template <int N, matrix_like M, transform_policy<N> Transform>
float amax(M const& x, Transform const& transform) {
  i32 largest = 0;
#ifdef _OPENMP
#pragma omp parallel for reduction(max : largest) if (x.rows * x.cols > 65536)
#endif
  for (i64 row = 0; row < x.rows; ++row)
    for (i64 col = 0; col + N <= x.cols; col += N) {
      float values[N];
      for (int i = 0; i < N; ++i) values[i] = to_float(x.at(row, col + i));
      transform(values);
      const i32 magnitude = bit_cast<i32>(block_amax(values));
      largest = magnitude > largest ? magnitude : largest;
    }
  return bit_cast<float>(largest);
}

/// What quantize() of format F needs as amax when its recipe transforms: amax<nvfp4>(transposed(x),
/// hadamard<16>{signs}) is that of the columnwise copy.
template <block_format F, matrix_like M, transform_policy<F::block_size> Transform>
float amax(M const& x, Transform const& transform) {
  return amax<F::block_size>(x, transform);
}

/// The transform of y in place, N consecutive values of each row at a time. Errors: y.cols no multiple of N
/// (partial_block), and those of validate(); y is then untouched.
template <int N, class T, transform_policy<N> Transform>
errc transform_in_place(matrix_view<T> const& y, Transform const& t) {
  if (const errc e = validate(y); e != errc::ok) return e;
  if (y.cols % N != 0) return errc::partial_block;
  detail::transform_rows<N>(y, y, t);
  return errc::ok;
}

/// y = the transform of x, N consecutive values of each row at a time, rounded to y's type; x may be
/// transposed. For transforms longer than a block, before amax() and quantize(). Errors: rows and columns
/// differ (shape_mismatch), x.cols no multiple of N (partial_block), overlap, and those of validate(); y is
/// then untouched.
template <int N, matrix_like M, class T, transform_policy<N> Transform>
errc transform(M const& x, matrix_view<T> const& y, Transform const& t) {
  if (const errc e = validate_transform<N>(x, y); e != errc::ok) return e;
  detail::transform_rows<N>(x, y, t);
  return errc::ok;
}

}  // namespace fourscale::host
