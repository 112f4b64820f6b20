// SPDX-License-Identifier: Apache-2.0
// The largest magnitude of a matrix, on a stream.
#pragma once

#include "launch.cuh"

namespace fourscale::device {

namespace detail {

/// Every thread strides over vectors of N values; one integer atomicMax a CTA. The order of magnitudes is the
/// order of their bits, so the result does not depend on the order of threads.
template <int N, class T>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    amax_kernel(matrix_view<T const> x, bool vectors, i32* largest) {
  const i64 along = ceil_div<i64>(x.cols, N), count = x.rows * along;
  i32 mine = 0;
  for (i64 i = blockIdx.x * i64{cta_threads} + threadIdx.x; i < count; i += i64{gridDim.x} * cta_threads) {
    const i64 row = x.rows == 1 ? 0 : i / along, col = (i - row * along) * N;
    float values[N] = {};
    if (col + N <= x.cols)
      load_values<N>(&x.at(row, col), vectors, values);
    else
      for (int j = 0; col + j < x.cols; ++j) values[j] = to_float(x.at(row, col + j));
    FOURSCALE_UNROLL
    for (int j = 0; j < N; ++j) {
      const i32 magnitude = amax_bits(values[j]);
      mine = magnitude > mine ? magnitude : mine;
    }
  }
  __shared__ i32 of_warp[cta_threads / 32];
  mine = __reduce_max_sync(0xffff'ffffu, mine);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x < cta_threads / 32) {
    mine = __reduce_max_sync((1u << (cta_threads / 32)) - 1, of_warp[threadIdx.x]);
    if (threadIdx.x == 0) atomicMax(largest, mine);
  }
}

}  // namespace detail

/// Writes the largest magnitude of x to *amax (device memory): NaN is dropped, infinity stays. A separate
/// step from quantize(), so that ranks can reduce it in between. Two operations on the stream (a 4-byte
/// memset and a kernel), graph-capturable; never synchronises, never allocates. Errors: see validate(); *amax
/// is then untouched.
template <class T>
cudaError_t amax(matrix_view<T> const& x, float* amax, cudaStream_t stream = nullptr) {
  matrix_view<T const> m = x;
  if (const errc e = validate(m); e != errc::ok) return to_cuda_error(e);
  if (amax == nullptr) return to_cuda_error(errc::null_pointer);
  if (reinterpret_cast<u64>(amax) % alignof(float) != 0) return to_cuda_error(errc::misaligned);
  constexpr int n = 32 / static_cast<int>(sizeof(T));
  if (m.ld == m.cols) m = {m.data, 1, m.rows * m.cols};  // one long row needs no division
  if (const cudaError_t e = cudaMemsetAsync(amax, 0, sizeof(float), stream); e != cudaSuccess) return e;
  const i64 vectors = m.rows * ceil_div<i64>(m.cols, n);
  constexpr i64 most_ctas = 4096;  // a few waves on the largest GPU; each thread then takes many vectors
  const i64 ctas = ceil_div<i64>(vectors, detail::cta_threads);
  detail::amax_kernel<n>
      <<<static_cast<unsigned>(ctas < most_ctas ? ctas : most_ctas), detail::cta_threads, 0, stream>>>(
          m, detail::rows_are_vectors(m), reinterpret_cast<i32*>(amax));
  return cudaPeekAtLastError();
}

}  // namespace fourscale::device
