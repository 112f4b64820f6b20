// SPDX-License-Identifier: Apache-2.0
// device::fake_quantize(): fake quantization by a recipe, on a stream. The steps are in
// fake_quantize_steps.hpp; `machine` gives them the functions of device/.
#pragma once

#include "../device/amax.cuh"
#include "../device/dequantize.cuh"
#include "../device/ms_eden.cuh"
#include "../device/percentile.cuh"
#include "../device/quantize.cuh"
#include "../device/transform.cuh"
#include "fake_quantize_steps.hpp"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

struct machine {
  cudaStream_t stream;

  template <int N, class M, class Transform>
  errc transform(M const& x, matrix_view<float> const& y, Transform const& t) const {
    return device::transform<N>(x, y, t, stream);
  }
  template <int N, class Transform>
  errc rotate(matrix_view<float> const& y, Transform const& t) const {
    return device::transform_in_place<N>(y, t, stream);
  }
  template <int N>
  errc amax(matrix_view<float const> const& x, hadamard<N> const& t, float* to) const {
    return device::amax<N>(x, t, to, stream);
  }
  errc amax(matrix_view<float const> const& x, identity, float* to) const {
    return device::amax(x, to, stream);
  }
  errc row_amax(matrix_view<float const> const& x, float* to) const {
    return device::row_amax(x, to, stream);
  }
  errc percentile_amax(matrix_view<float const> const& x, double share, percentile_workspace* w,
                       float* to) const {
    return device::percentile_amax(x, share, w, to, stream);
  }
  template <class F, class Quantizer, class Blocks>
  errc quantize(matrix_view<float const> const& x, block_scaled_view<F> const& q, Quantizer const& quantizer,
                Blocks shape) const {
    if constexpr (requires { quantizer.round; })
      return device::quantize(x, q, quantizer, shape, stream);
    else
      return device::quantize(x, q, quantizer, stream);
  }
  template <class F>
  errc dequantize(block_scaled_view<F> const& q, matrix_view<float> const& y) const {
    return device::dequantize(q, y, stream);
  }
};

}  // namespace detail

/// As host::fake_quantize, with the same bits; x, y and the buffers lie in device memory. A few kernels on
/// the stream; never synchronises, never allocates.
template <matrix_like M>
errc fake_quantize(operand_recipe const& o, operand_recipe const& stored, operand_place const& at, M const& x,
                   matrix_view<float> const& y, fake_quantize_buffers const& b,
                   cudaStream_t stream = nullptr) {
  return ::fourscale::detail::fake_quantize_operand(detail::machine{stream}, o, stored, at, x, y, b);
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
