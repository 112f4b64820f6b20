// SPDX-License-Identifier: Apache-2.0
// Transforms of whole matrices on a stream, for those longer than a block.
#pragma once

#include "../block/quantize.hpp"
#include "launch.cuh"

namespace fourscale::device {

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

}  // namespace detail

/// y = the transform of x, N consecutive values of each row at a time, as host::transform does. One kernel on
/// the stream; never synchronises, never allocates. Errors: rows and columns differ, x.cols no multiple of N,
/// overlap, and those of validate(); y is then untouched.
template <int N, matrix_like M, class T, transform_policy<N> Transform>
cudaError_t transform(M const& x, matrix_view<T> const& y, Transform const& t,
                      cudaStream_t stream = nullptr) {
  if (const errc e = validate_transform<N>(x, y); e != errc::ok) return to_cuda_error(e);
  const auto input = detail::as_input(x);
  detail::transform_kernel<N><<<detail::grid_for(x.rows * (x.cols / N)), detail::cta_threads, 0, stream>>>(
      input, detail::rows_are_vectors(input), y, t);
  return cudaPeekAtLastError();
}

/// The transform of y in place, as host::transform_in_place. Errors: y.cols no multiple of N, and those of
/// validate(); y is then untouched.
template <int N, class T, transform_policy<N> Transform>
cudaError_t transform_in_place(matrix_view<T> const& y, Transform const& t, cudaStream_t stream = nullptr) {
  if (const errc e = validate(y); e != errc::ok) return to_cuda_error(e);
  if (y.cols % N != 0) return to_cuda_error(errc::partial_block);
  const auto input = detail::as_input(y);
  detail::transform_kernel<N><<<detail::grid_for(y.rows * (y.cols / N)), detail::cta_threads, 0, stream>>>(
      input, detail::rows_are_vectors(input), y, t);
  return cudaPeekAtLastError();
}

}  // namespace fourscale::device
