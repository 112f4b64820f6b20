// SPDX-License-Identifier: Apache-2.0
// Back to float, bf16 or fp16, on a stream.
#pragma once

#include "../block/quantize.hpp"
#include "launch.cuh"

namespace fourscale::device {

namespace detail {

/// N values to consecutive places.
template <class T, int N>
FOURSCALE_D void store_values(float const (&x)[N], bool vectors, T* to) {
  if (vectors) {
    constexpr int each = 16 / static_cast<int>(sizeof(T));
    struct alignas(16) group {
      T values[each];
    };
    FOURSCALE_UNROLL
    for (int i = 0; i < N / each; ++i) {
      group g;
      FOURSCALE_UNROLL
      for (int j = 0; j < each; ++j) g.values[j] = from_float<T>(x[i * each + j]);
      reinterpret_cast<vector16*>(to)[i] = __builtin_bit_cast(vector16, g);
    }
  } else {
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) to[i] = from_float<T>(x[i]);
  }
}

/// The tensor scale of a row: by its own amax if it has one.
template <class F, class Layout>
FOURSCALE_D tensor_scale<F> tensor_scale_of([[maybe_unused]] block_scaled_view<F, Layout, u8 const> const& q,
                                            [[maybe_unused]] i64 row, tensor_scale<F> const& of_tensor) {
  if constexpr (F::has_tensor_scale)
    if (q.row_amax != nullptr) return q.tensor_scale_of_row(row);
  return of_tensor;
}

/// A thread takes a block.
template <class F, class Layout, class M>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    dequantize_kernel(block_scaled_view<F, Layout, u8 const> q, M y, bool vectors, float const* amax) {
  constexpr int n = F::block_size;
  const tensor_scale<F> of_tensor =
      shared_tensor_scale<F>(amax, q.tensor_scale, [&](float a) { return q.tensor_scale.with_amax(a); });
  const i64 count = q.rows * q.blocks();
  for (i64 i = blockIdx.x * i64{cta_threads} + threadIdx.x; i < count; i += i64{gridDim.x} * cta_threads) {
    const i64 row = M::is_transposed ? i % q.rows : i / q.blocks(),
              block = M::is_transposed ? i / q.rows : i % q.blocks();
    float values[n];
    dequantize_block(q.load(row, block), values, tensor_scale_of(q, row, of_tensor));
    if constexpr (M::is_transposed) {
      FOURSCALE_UNROLL
      for (int j = 0; j < n; ++j) y.at(row, block * n + j) = from_float<typename M::value_type>(values[j]);
    } else {
      store_values(values, vectors, &y.at(row, block * n));
    }
  }
}

}  // namespace detail

/// Writes the values of q into y (or into transposed(y), for a columnwise copy), as host::dequantize does.
/// `amax` points to the tensor's amax on the device (q.tensor_scale still says by which rule), or is null for
/// q.tensor_scale; q.row_amax is device memory. One kernel on the stream; never synchronises, never
/// allocates. Errors: see validate(); y is then untouched.
template <class F, class Layout, class Byte, matrix_like M>
cudaError_t dequantize(block_scaled_view<F, Layout, Byte> const& q, M const& y, float const* amax,
                       cudaStream_t stream = nullptr) {
  if (const errc e = validate(y, q); e != errc::ok) return to_cuda_error(e);
  if (reinterpret_cast<u64>(amax) % alignof(float) != 0) return to_cuda_error(errc::misaligned);
  const block_scaled_view<F, Layout, u8 const> input = q;
  detail::dequantize_kernel<<<detail::grid_for(q.rows * q.blocks()), detail::cta_threads, 0, stream>>>(
      input, y, detail::rows_are_vectors(y), amax);
  return cudaPeekAtLastError();
}

/// As above under q.tensor_scale.
template <class F, class Layout, class Byte, matrix_like M>
cudaError_t dequantize(block_scaled_view<F, Layout, Byte> const& q, M const& y,
                       cudaStream_t stream = nullptr) {
  return dequantize(q, y, nullptr, stream);
}

}  // namespace fourscale::device
