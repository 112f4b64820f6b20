// SPDX-License-Identifier: Apache-2.0
// Whole matrices on a stream. The kernels are loops around quantize_block(), so their bits are those of the
// host.
#pragma once

#include "quantize_squares.cuh"

namespace fourscale::device {

/// Quantizes x into q, blocks along the rows of x; quantize(transposed(x), ...) makes the columnwise copy.
/// All pointers are device memory, q.row_amax included. `blocks_1d{}`, or `blocks_2d<16, 16>{}` (32 for MX)
/// for square tiles. For formats with a tensor scale, `amax` points to the amax on the device (from amax(),
/// reduced over ranks or delayed as the caller likes), or is null for q.tensor_scale. Every code and scale is
/// written, padding with zero; equal to host::quantize in every bit. One kernel on the stream; never
/// synchronises, never allocates. Errors: see validate(); q is then untouched.
template <matrix_like M, class F, class Layout, class Blocks, quantizer_for<F> Quantizer>
requires requires { Blocks::is_2d; }
cudaError_t quantize(M const& x, block_scaled_view<F, Layout> const& q, Blocks shape, float const* amax,
                     Quantizer const& recipe, cudaStream_t stream = nullptr) {
  if (const errc e = validate(x, q, shape); e != errc::ok) return to_cuda_error(e);
  if (reinterpret_cast<u64>(amax) % alignof(float) != 0) return to_cuda_error(errc::misaligned);
  const auto input = detail::as_input(x);
  if constexpr (Blocks::is_2d) {
    static_assert(__is_same(decltype(recipe.transform), identity), "2-D blocks take no transform.");
    detail::launch_2d(input, q, amax, recipe, stream);
  } else {
    detail::launch_1d(input, q, amax, recipe, stream);
  }
  return cudaPeekAtLastError();
}

/// 1-D blocks, amax on the device.
template <matrix_like M, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
cudaError_t quantize(M const& x, block_scaled_view<F, Layout> const& q, float const* amax,
                     Quantizer const& recipe = {}, cudaStream_t stream = nullptr) {
  return quantize(x, q, blocks_1d{}, amax, recipe, stream);
}

/// 1-D blocks under q.tensor_scale: MX formats, or a tensor scale that the host knows.
template <matrix_like M, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
cudaError_t quantize(M const& x, block_scaled_view<F, Layout> const& q, Quantizer const& recipe = {},
                     cudaStream_t stream = nullptr) {
  return quantize(x, q, blocks_1d{}, nullptr, recipe, stream);
}

}  // namespace fourscale::device
