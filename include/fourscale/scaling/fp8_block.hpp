// SPDX-License-Identifier: Apache-2.0
// The FP32 scale of an FP8 block of 128 or 128 x 128 values. Transformer Engine, compute_scale_from_amax.
#pragma once

#include "../formats/real.hpp"
#include "block_scale.hpp"

namespace FOURSCALE_NAMESPACE {

/// TE's compute_scale_from_amax, an amax to an FP8 scale: 448 / max(amax, epsilon), rounded once; 1 where
/// that maximum is 0, infinite or NaN. Where the quotient overflows, `largest_input` (TE's value_for_inf):
/// the largest value of the type that the values came in, such as largest_real<bf16>().
template <element_format F>
FOURSCALE_HD constexpr float fp8_scale(float amax, float epsilon = 0.0f, float largest_input = float_max) {
  if (less_magnitude(amax, epsilon)) amax = epsilon;
  if (!less_magnitude(0.0f, amax) || amax > float_max) return 1.0f;
  const float quotient = ptx::div_rn_f32(largest_element<F>, amax);
  return quotient <= float_max ? quotient : largest_input;
}

/// The default of TE's Float8BlockScaling. The scale is rounded down to a power of two, also after an
/// overflow; its inverse, rounded once, is stored. Without an epsilon the powers of two are the same for
/// float, bf16 and fp16: the largest bf16 and FLT_MAX are both rounded down to 2^127, and for fp16 nothing
/// overflows.
struct fp8_block_scale {
  bool power_of_two = true;    ///< false: NVTE_FP8_BLOCK_SCALING_FP32_SCALES=1
  float epsilon = 0.0f;        ///< an amax below this counts as this
  float largest_input = 0.0f;  ///< the scale where 448 / amax overflows; 0: no input type is set

  FOURSCALE_HD constexpr fp8_block_scale(bool pow2 = true, float least = 0.0f, float value_for_inf = 0.0f)
      : power_of_two(pow2), epsilon(least), largest_input(value_for_inf) {}

  /// The rule for values that came as T. If an input type is already set, it stays. Functions for whole
  /// matrices set the type of their matrix. A block of floats by itself counts as float.
  template <real T>
  FOURSCALE_HD constexpr fp8_block_scale for_input() const {
    return {power_of_two, epsilon, largest_input > 0.0f ? largest_input : largest_real<T>()};
  }

  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> operator()(F, float amax, tensor_scale<F> const&) const {
    static_assert(same_type<typename F::scale, f32>, "fp8_block_scale needs a format with FP32 scales.");
    float scale =
        fp8_scale<typename F::element>(amax, epsilon, largest_input > 0.0f ? largest_input : float_max);
    if (power_of_two) scale = bit_cast<float>(bit_cast<u32>(scale) & float_inf_bits);
    return {f32{bit_cast<u32>(ptx::rcp_rn_f32(scale))}, scale};
  }
};

}  // namespace FOURSCALE_NAMESPACE
