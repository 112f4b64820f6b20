// SPDX-License-Identifier: Apache-2.0
// Transforms of whole matrices on the CPU, for transforms longer than a block, and the amax of a matrix after
// a transform.
#pragma once

#include "../block/quantize.hpp"
#include "amax.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

namespace detail {

/// Writes the transform of x to y. It reads N values of a row before it writes them, so x and y may be the
/// same.
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

/// The largest magnitude of x after a transform of N consecutive values of each row at a time.
template <int N, class M, class Transform>
float transformed_amax(M const& x, Transform const& transform) {
  i32 largest = 0;
#ifdef _OPENMP
#pragma omp parallel for reduction(max : largest) if (x.rows * x.cols > 65536)
#endif
  for (i64 row = 0; row < x.rows; ++row)
    for (i64 col = 0; col < x.cols; col += N) {
      float values[N];
      for (int i = 0; i < N; ++i) values[i] = to_float(x.at(row, col + i));
      transform(values);
      const i32 magnitude = bit_cast<i32>(block_amax(values));
      largest = magnitude > largest ? magnitude : largest;
    }
  return bit_cast<float>(largest);
}

}  // namespace detail

/// Writes to *amax the largest magnitude of x after `transform`, which takes N consecutive values of a row at
/// a time. Errors: x.cols no multiple of N (partial_block), null pointer, and those of validate(); *amax is
/// then untouched.
template <int N, matrix_like M, transform_policy<N> Transform>
errc amax(M const& x, Transform const& transform, float* amax) {
  if (const errc e = validate(x); e != errc::ok) return e;
  if (x.cols % N != 0) return errc::partial_block;
  if (const errc e = fourscale::detail::check_amax_output(amax); e != errc::ok) return e;
  *amax = detail::transformed_amax<N>(x, transform);
  return errc::ok;
}

/// The amax that quantize() to format F needs if its quantizer transforms. For example,
/// amax<nvfp4>(transposed(x), hadamard<16>{signs}, &a) gives that of the columnwise copy.
template <block_format F, matrix_like M, transform_policy<F::block_size> Transform>
errc amax(M const& x, Transform const& transform, float* amax) {
  return host::amax<F::block_size>(x, transform, amax);
}

/// Both amaxes of a tensor: *amax of x, for the rowwise copy, and *amax_t of transposed(x) after `transform`,
/// for the columnwise copy. Errors: x.rows no multiple of the block size (partial_block), null pointer, and
/// those of validate(); both outputs are then untouched.
template <block_format F, matrix_like M, transform_policy<F::block_size> Transform>
errc amax_both(M const& x, Transform const& transform, float* amax, float* amax_t) {
  if (const errc e = fourscale::detail::check_amax_output(amax); e != errc::ok) return e;
  if (const errc e = host::amax<F>(transposed(x), transform, amax_t); e != errc::ok) return e;
  return host::amax(x, amax);
}

/// Transforms y in place, N consecutive values of a row at a time. Errors: y.cols no multiple of N
/// (partial_block), and those of validate(); y is then untouched.
template <int N, class T, transform_policy<N> Transform>
errc transform_in_place(matrix_view<T> const& y, Transform const& t) {
  if (const errc e = validate(y); e != errc::ok) return e;
  if (y.cols % N != 0) return errc::partial_block;
  detail::transform_rows<N>(y, y, t);
  return errc::ok;
}

/// Writes the transform of x to y, N consecutive values of a row at a time, rounded to y's type. x may be
/// transposed. For a transform longer than a block, call this before amax() and quantize(). Errors: x and y
/// differ in rows or columns (shape_mismatch), x.cols no multiple of N (partial_block), overlap, and those of
/// validate(); y is then untouched.
template <int N, matrix_like M, class T, transform_policy<N> Transform>
errc transform(M const& x, matrix_view<T> const& y, Transform const& t) {
  if (const errc e = validate_transform<N>(x, y); e != errc::ok) return e;
  detail::transform_rows<N>(x, y, t);
  return errc::ok;
}

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
