// SPDX-License-Identifier: Apache-2.0
// The epilogue of a GEMM, from an accumulator to an element of D: FP32 operations with one rounding each,
// then one rounding to the type of D.
#pragma once

#include "../formats/real.hpp"
#include "../scaling/tensor_scale.hpp"
#include "block_scaled_view.hpp"

namespace FOURSCALE_NAMESPACE {

/// alpha and both tensor scales as one factor: ((alpha * amax_a) * amax_b) * (1 / (2688 * 2688)), rounded
/// after each operation. The last operation multiplies by the rounded reciprocal. Transformer Engine does the
/// same where a tensor has one amax. Where rows have amaxes, it multiplies by them after the GEMM, and the
/// last bit may differ. If either format has no tensor scale, the factor is alpha.
template <class F, class G>
struct output_factors {
  static constexpr bool has_amaxes = F::has_tensor_scale && G::has_tensor_scale;
  float alpha, inverse = 1.0f;

  FOURSCALE_HD constexpr output_factors(float factor, [[maybe_unused]] tensor_range<F> const& a,
                                        [[maybe_unused]] tensor_range<G> const& b)
      : alpha(factor) {
    if constexpr (has_amaxes) inverse = ptx::rcp_rn_f32(ptx::mul_rn_f32(a.largest, b.largest));
  }
  /// The factor for a pair of tensors, or a row of A and one of B, with these amaxes.
  FOURSCALE_HD constexpr float operator()([[maybe_unused]] float amax_a,
                                          [[maybe_unused]] float amax_b) const {
    if constexpr (has_amaxes)
      return ptx::mul_rn_f32(ptx::mul_rn_f32(ptx::mul_rn_f32(alpha, amax_a), amax_b), inverse);
    else
      return alpha;
  }
};

/// The amax that holds for a row; 1 where the format has none.
template <class F, class Layout, class Byte>
FOURSCALE_HD constexpr float amax_of_row([[maybe_unused]] block_scaled_view<F, Layout, Byte> const& q,
                                         [[maybe_unused]] i64 row) {
  if constexpr (F::has_tensor_scale)
    return q.amax.scale_of_row(row).amax;
  else
    return 1.0f;
}

/// The factor for all of D, where each operand has one tensor scale.
template <class F, class G>
FOURSCALE_HD constexpr float output_factor(float alpha, tensor_scale<F> const& a, tensor_scale<G> const& b) {
  if constexpr (output_factors<F, G>::has_amaxes)
    return output_factors<F, G>(alpha, a.range(), b.range())(a.amax, b.amax);
  else
    return alpha;
}

/// alpha and the tensor scale of the only operand that has one: (alpha * amax) * (1 / 2688), rounded after
/// each operation. The last operation multiplies by the rounded reciprocal.
template <class F>
FOURSCALE_HD constexpr float weight_factor(float alpha, [[maybe_unused]] tensor_range<F> const& range,
                                           [[maybe_unused]] float amax) {
  if constexpr (F::has_tensor_scale)
    return ptx::mul_rn_f32(ptx::mul_rn_f32(alpha, amax), ptx::rcp_rn_f32(range.largest));
  else
    return alpha;
}

/// An element of D: factor * sum, or factor * sum + beta * c. Where beta is 0, call the first one. A NaN is
/// 0x7fff'ffff, or 0x7fff in 16 bits.
template <class T>
FOURSCALE_HD constexpr T gemm_output(float factor, float sum) {
  return from_float<T>(with_nan_of_gpu(ptx::mul_rn_f32(factor, sum)));
}
template <class T>
FOURSCALE_HD constexpr T gemm_output(float factor, float sum, float beta, T c) {
  return from_float<T>(
      with_nan_of_gpu(ptx::add_rn_f32(ptx::mul_rn_f32(factor, sum), ptx::mul_rn_f32(beta, to_float(c)))));
}

/// factor * hi and factor * lo, rounded to a 16-bit type, in the upper and lower half of a word.
template <class T>
FOURSCALE_HD constexpr u32 gemm_output_pair(float factor, float hi, float lo) {
  return pair_from_floats<T>(ptx::mul_rn_f32(factor, hi), ptx::mul_rn_f32(factor, lo));
}

/// Stores an element of D; `to` is read only if beta is not 0.
template <class T>
FOURSCALE_HD constexpr void store_output(T& to, float factor, float sum, float beta) {
  to = beta != 0.0f ? gemm_output<T>(factor, sum, beta, to) : gemm_output<T>(factor, sum);
}

}  // namespace FOURSCALE_NAMESPACE
