// SPDX-License-Identifier: Apache-2.0
// From an accumulator to an element of D: FP32, one rounding an operation, and one more to the type of D.
#pragma once

#include "../formats/real.hpp"
#include "../scaling/tensor_scale.hpp"
#include "block_scaled_view.hpp"

namespace FOURSCALE_NAMESPACE {

/// alpha and the tensor scales as one factor: ((alpha * amax_a) * amax_b) * (1 / (2688 * 2688)), rounded
/// after each operation; the last one is a multiplication by the rounded reciprocal. So does Transformer
/// Engine for tensors; where rows have amaxes it multiplies by them after the GEMM, and the last bit may
/// differ. Formats without a tensor scale: alpha.
template <class F, class G>
struct output_factors {
  static constexpr bool has_amaxes = F::has_tensor_scale && G::has_tensor_scale;
  float alpha, inverse = 1.0f;

  FOURSCALE_HD constexpr output_factors(float factor, [[maybe_unused]] tensor_range<F> const& a,
                                        [[maybe_unused]] tensor_range<G> const& b)
      : alpha(factor) {
    if constexpr (has_amaxes) inverse = ptx::rcp_rn_f32(ptx::mul_rn_f32(a.largest, b.largest));
  }
  /// For tensors, or a row and a column, of these amaxes.
  FOURSCALE_HD constexpr float operator()([[maybe_unused]] float amax_a,
                                          [[maybe_unused]] float amax_b) const {
    if constexpr (has_amaxes)
      return ptx::mul_rn_f32(ptx::mul_rn_f32(ptx::mul_rn_f32(alpha, amax_a), amax_b), inverse);
    else
      return alpha;
  }
};

/// The amax of a row; any number where the format has none.
template <class F, class Layout, class Byte>
FOURSCALE_HD constexpr float amax_of_row([[maybe_unused]] block_scaled_view<F, Layout, Byte> const& q,
                                         [[maybe_unused]] i64 row) {
  if constexpr (F::has_tensor_scale)
    return q.amax.scale_of_row(row).amax;
  else
    return 1.0f;
}

/// The one factor of a GEMM whose operands have tensor scales.
template <class F, class G>
FOURSCALE_HD constexpr float output_factor(float alpha, tensor_scale<F> const& a, tensor_scale<G> const& b) {
  if constexpr (output_factors<F, G>::has_amaxes)
    return output_factors<F, G>(alpha, a.range(), b.range())(a.amax, b.amax);
  else
    return alpha;
}

/// alpha and the tensor scale of the one operand that has one: (alpha * amax) * (1 / 2688), rounded after
/// each operation; the last one is a multiplication by the rounded reciprocal.
template <class F>
FOURSCALE_HD constexpr float weight_factor(float alpha, [[maybe_unused]] tensor_range<F> const& range,
                                           [[maybe_unused]] float amax) {
  if constexpr (F::has_tensor_scale)
    return ptx::mul_rn_f32(ptx::mul_rn_f32(alpha, amax), ptx::rcp_rn_f32(range.largest));
  else
    return alpha;
}

/// factor * sum, and beta * c added to it, where beta is not 0.
template <class T>
FOURSCALE_HD constexpr T gemm_output(float factor, float sum) {
  return from_float<T>(ptx::mul_rn_f32(factor, sum));
}
template <class T>
FOURSCALE_HD constexpr T gemm_output(float factor, float sum, float beta, T c) {
  return from_float<T>(ptx::add_rn_f32(ptx::mul_rn_f32(factor, sum), ptx::mul_rn_f32(beta, to_float(c))));
}

/// The same for two sums, to a 16-bit type, in the halves of a word; nothing is added.
template <class T>
FOURSCALE_HD constexpr u32 gemm_output_pair(float factor, float hi, float lo) {
  return pair_from_floats<T>(ptx::mul_rn_f32(factor, hi), ptx::mul_rn_f32(factor, lo));
}

/// The same to an element of D, which is not read where beta is 0.
template <class T>
FOURSCALE_HD constexpr void store_output(T& to, float factor, float sum, float beta) {
  to = beta != 0.0f ? gemm_output<T>(factor, sum, beta, to) : gemm_output<T>(factor, sum);
}

}  // namespace FOURSCALE_NAMESPACE
