// SPDX-License-Identifier: Apache-2.0
// Whole matrices on a stream. The kernels are loops around quantize_block(), so their bits are those of the
// host.
#pragma once

#include "quantize_squares.cuh"

namespace fourscale::device {

/// Quantizes x into q, blocks along the rows of x; quantize(transposed(x), ...) makes the columnwise copy.
/// All pointers are device memory, that of the amax included. `blocks_1d{}`, or `blocks_2d<16, 16>{}` (32 for
/// MX) for square tiles. Every code and scale is written, padding with zero; equal to host::quantize in every
/// bit. One kernel on the stream; never synchronises, never allocates. Errors: see validate(); q is then
/// untouched.
template <matrix_like M, class F, class Layout, quantizer_for<F> Quantizer, class Blocks>
requires requires { Blocks::is_2d; }
errc quantize(M const& x, block_scaled_view<F, Layout> const& q, Quantizer const& recipe, Blocks shape,
              cudaStream_t stream = nullptr) {
  if (const errc e = validate(x, q, shape, recipe); e != errc::ok) return e;
  const auto input = detail::as_input(x);
  if constexpr (Blocks::is_2d) {
    static_assert(__is_same(decltype(recipe.transform), identity), "2-D blocks take no transform.");
    detail::launch_2d(input, q, recipe, stream);
  } else {
    detail::launch_1d(input, q, recipe, stream);
  }
  return detail::launched();
}

/// 1-D blocks.
template <matrix_like M, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
errc quantize(M const& x, block_scaled_view<F, Layout> const& q, Quantizer const& recipe = {},
              cudaStream_t stream = nullptr) {
  return quantize(x, q, recipe, blocks_1d{}, stream);
}

}  // namespace fourscale::device
