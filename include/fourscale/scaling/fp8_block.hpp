// SPDX-License-Identifier: Apache-2.0
// The FP32 scale of an FP8 block of 128 or 128 x 128 values. Transformer Engine, compute_scale_from_amax.
#pragma once

#include "block_scale.hpp"

namespace fourscale {

/// 448 / amax; 1 where amax is 0, infinite or NaN; FLT_MAX where it overflows. The bridge from an amax to an
/// FP8 scale.
template <element_format F>
FOURSCALE_HD constexpr float fp8_scale(float amax, float epsilon = 0.0f) {
  if (amax < epsilon) amax = epsilon;
  if (!less_magnitude(0.0f, amax) || amax > float_max) return 1.0f;
  const float quotient = ptx::div_rn_f32(largest_element<F>, amax);
  return quotient <= float_max ? quotient : float_max;
}

/// What TE's Float8BlockScaling does by default: the scale rounded down to a power of two; stores its
/// inverse.
struct fp8_block_scale {
  bool power_of_two = true;  ///< false: NVTE_FP8_BLOCK_SCALING_FP32_SCALES=1

  FOURSCALE_HD constexpr fp8_block_scale(bool pow2 = true) : power_of_two(pow2) {}

  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> operator()(F, float amax, tensor_scale<F> const&) const {
    static_assert(__is_same(typename F::scale, f32), "fp8_block_scale needs a format with FP32 scales.");
    float scale = fp8_scale<typename F::element>(amax);
    if (power_of_two) scale = bit_cast<float>(bit_cast<u32>(scale) & float_inf_bits);
    return {f32{bit_cast<u32>(ptx::rcp_rn_f32(scale))}, scale};
  }
};

}  // namespace fourscale
