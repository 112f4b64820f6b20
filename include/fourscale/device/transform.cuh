// SPDX-License-Identifier: Apache-2.0
// Transforms of whole matrices on a stream: for transforms longer than a block.
#pragma once

#include "../block/quantize.hpp"
#include "../warp/hadamard.cuh"
#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// A thread takes N values of a row.
template <int N, class M, class T, class Transform>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    transform_kernel(M x, bool vectors, matrix_view<T> y, Transform transform) {
  const i64 blocks = x.cols / N;
  for (i64 i = blockIdx.x * i64{cta_threads} + threadIdx.x; i < x.rows * blocks;
       i += i64{gridDim.x} * cta_threads) {
    const i64 row = M::is_transposed ? i % x.rows : i / blocks,
              block = M::is_transposed ? i / x.rows : i % blocks;
    float values[N];
    load_block(x, row, block, vectors, values);
    transform(values);
    FOURSCALE_UNROLL
    for (int j = 0; j < N; ++j) y.at(row, block * N + j) = from_float<T>(values[j]);
  }
}

/// For rows that are aligned to 16 bytes. A piece is 16 values, or N if that is less; there are fewer than
/// 2^31. A thread takes a piece, and neighbouring threads transform N values together, the far additions by
/// shuffles. x and y may be the same. `pieces`: pieces of a row; `count`: pieces of the matrix.
template <int N, class T, class U, real Rounded>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    hadamard_rows_kernel(matrix_view<T const> x, matrix_view<U> y, hadamard<N, Rounded> transform,
                         cta::divisor pieces, u32 count) {
  constexpr int each = N < 16 ? N : 16;
  const u32 i = blockIdx.x * cta_threads + threadIdx.x, row = pieces.quotient(i);
  const i64 col = i64{i - row * pieces.d} * each;
  float values[each] = {};
  if (i < count) load_values<each>(&x.at(row, col), true, values);
  warp::hadamard<N, each, Rounded>(values, transform.signs, static_cast<int>(threadIdx.x) % 32);
  if (i < count) cta::values<U, each>::rounded(values).store(&y.at(row, col));
}

/// Launches hadamard_rows_kernel where it applies; returns false where it does not.
template <int N, class M, class U, class Transform>
bool launch_hadamard_rows(M const&, matrix_view<U> const&, Transform const&, cudaStream_t) {
  return false;
}
template <int N, class T, class U, real Rounded>
bool launch_hadamard_rows(matrix_view<T> const& x, matrix_view<U> const& y,
                          hadamard<N, Rounded> const& transform, cudaStream_t stream) {
  constexpr int each = N < 16 ? N : 16;
  if constexpr (each * sizeof(T) % 16 != 0 || each * sizeof(U) % 16 != 0) {
    return false;
  } else {
    const i64 count = x.rows * (x.cols / each);
    if (!rows_are_vectors(x) || !rows_are_vectors(y) || count >= i64{1} << 31) return false;
    hadamard_rows_kernel<N><<<grid_for(count), cta_threads, 0, stream>>>(
        x, y, transform, cta::divisor(static_cast<u32>(x.cols / each)), static_cast<u32>(count));
    return true;
  }
}

}  // namespace detail

/// y = the transform of x, N consecutive values of each row at a time, as host::transform does. One kernel on
/// the stream; never synchronises, never allocates. Errors: the shapes of x and y differ, x.cols is no
/// multiple of N, overlap, and those of validate(); y is then untouched.
template <int N, matrix_like M, class T, transform_policy<N> Transform>
errc transform(M const& x, matrix_view<T> const& y, Transform const& t, cudaStream_t stream = nullptr) {
  if (const errc e = validate_transform<N>(x, y); e != errc::ok) return e;
  const auto input = detail::as_input(x);
  if (detail::launch_hadamard_rows<N>(input, y, t, stream)) return detail::launched();
  detail::transform_kernel<N><<<detail::grid_for(x.rows * (x.cols / N)), detail::cta_threads, 0, stream>>>(
      input, detail::rows_are_vectors(input), y, t);
  return detail::launched();
}

/// The transform of y in place, as host::transform_in_place. Errors: y.cols no multiple of N, and those of
/// validate(); y is then untouched.
template <int N, class T, transform_policy<N> Transform>
errc transform_in_place(matrix_view<T> const& y, Transform const& t, cudaStream_t stream = nullptr) {
  if (const errc e = validate(y); e != errc::ok) return e;
  if (y.cols % N != 0) return errc::partial_block;
  const auto input = detail::as_input(y);
  if (detail::launch_hadamard_rows<N>(input, y, t, stream)) return detail::launched();
  detail::transform_kernel<N><<<detail::grid_for(y.rows * (y.cols / N)), detail::cta_threads, 0, stream>>>(
      input, detail::rows_are_vectors(input), y, t);
  return detail::launched();
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
