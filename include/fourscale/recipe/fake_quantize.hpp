// SPDX-License-Identifier: Apache-2.0
// host::fake_quantize(): fake quantization by a recipe, on the CPU. The steps are in fake_quantize_steps.hpp;
// `machine` gives them the functions of host/.
#pragma once

#include "../host/amax.hpp"
#include "../host/dequantize.hpp"
#include "../host/ms_eden.hpp"
#include "../host/percentile.hpp"
#include "../host/quantize.hpp"
#include "../host/transform.hpp"
#include "fake_quantize_steps.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

namespace detail {

struct machine {
  template <int N, class M, class Transform>
  static errc transform(M const& x, matrix_view<float> const& y, Transform const& t) {
    return host::transform<N>(x, y, t);
  }
  template <int N, class Transform>
  static errc rotate(matrix_view<float> const& y, Transform const& t) {
    return host::transform_in_place<N>(y, t);
  }
  template <int N>
  static errc amax(matrix_view<float const> const& x, hadamard<N> const& t, float* to) {
    return host::amax<N>(x, t, to);
  }
  static errc amax(matrix_view<float const> const& x, identity, float* to) { return host::amax(x, to); }
  static errc row_amax(matrix_view<float const> const& x, float* to) { return host::row_amax(x, to); }
  static errc percentile_amax(matrix_view<float const> const& x, double share, percentile_workspace* w,
                              float* to) {
    return host::percentile_amax(x, share, w, to);
  }
  template <class F, class Quantizer, class Blocks>
  static errc quantize(matrix_view<float const> const& x, block_scaled_view<F> const& q,
                       Quantizer const& quantizer, Blocks shape) {
    if constexpr (requires { quantizer.round; })
      return host::quantize(x, q, quantizer, shape);
    else
      return host::quantize(x, q, quantizer);
  }
  template <class F>
  static errc dequantize(block_scaled_view<F> const& q, matrix_view<float> const& y) {
    return host::dequantize(q, y);
  }
};

}  // namespace detail

/// y = the values that operand `o` of a GEMM has once it is quantized from its tensor x. y is [x.rows,
/// x.cols], or [x.cols, x.rows] for a columnwise copy; its values are in the coordinates of the Hadamard
/// transform. A GEMM of two such operands is the GEMM that the hardware does, up to the order of its sums.
///
/// `stored` is the recipe of the rowwise copy. It counts only where o.source is `dequantized`; otherwise pass
/// `o`. Errors: bad_recipe, null_pointer for buffers that the recipe needs, shape_mismatch for y,
/// partial_block and the rest of validate(); y is then undefined.
template <matrix_like M>
errc fake_quantize(operand_recipe const& o, operand_recipe const& stored, operand_place const& at, M const& x,
                   matrix_view<float> const& y, fake_quantize_buffers const& b) {
  return ::fourscale::detail::fake_quantize_operand(detail::machine{}, o, stored, at, x, y, b);
}

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
