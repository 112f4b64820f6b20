// SPDX-License-Identifier: Apache-2.0
// The scale of a whole tensor, from its amax: the first of NVFP4's two levels.
// Arithmetic of Transformer Engine >= 2.14 (compute_global_encode_scaling_factor_FP4): one IEEE rounding a
// step.
#pragma once

#include "../formats/block_formats.hpp"
#include "../formats/convert.hpp"
#include "../ptx/arith.hpp"

namespace fourscale {

/// Largest magnitude of an element: 6 for E2M1.
template <element_format F>
inline constexpr float largest_element = decode(F{F::max_bits});

/// The largest magnitude that a block format can hold under tensor scale 1: 6 * 448 = 2688 for NVFP4. It
/// depends on the scaling rule: some give up part of the range of the scale.
template <block_format F>
constexpr float largest_value() {
  if constexpr (format<typename F::scale>)
    return largest_element<typename F::element> * decode(typename F::scale{F::scale::max_bits});
  else
    return largest_element<typename F::element>;
}
template <block_format F>
inline constexpr float largest_block_value = largest_value<F>();

/// The tensor scale of a format that has one. It is kept as the amax that it follows from, because
/// dequantization multiplies by amax / 2688 and quantization by 2688 / amax, and neither can be had exactly
/// from the other.
template <block_format F>
struct tensor_scale {
  float amax = largest_block_value<F>;     ///< largest magnitude of the tensor; the default gives scale 1
  float largest = largest_block_value<F>;  ///< what amax is brought to: 2688, or what the scaling rule says
  float encode =
      1.0f;  ///< largest / amax; FLT_MAX where that overflows or amax is NaN; 1 for amax = 0 and infinity
  float decode = 1.0f;  ///< 1 / encode

  constexpr tensor_scale() = default;
  FOURSCALE_HD constexpr explicit tensor_scale(float tensor_amax, float range = largest_block_value<F>)
      : amax(tensor_amax), largest(range) {
    const float quotient = ptx::div_rn_f32(largest, amax);
    encode = quotient <= float_max ? quotient : float_max;  // NaN and infinity become FLT_MAX
    if (amax_bits(amax) == 0 && amax == amax) encode = 1.0f;
    if (quotient == 0.0f) encode = 1.0f;
    decode = ptx::rcp_rn_f32(encode);
  }

  /// The same rule for another amax.
  FOURSCALE_HD constexpr tensor_scale with_amax(float other) const { return tensor_scale(other, largest); }

  /// What a code is multiplied by in dequantization: (scale * amax) * (1 / 2688), two roundings, as TE does.
  FOURSCALE_HD constexpr float dequantize_factor(float scale) const {
    return ptx::mul_rn_f32(ptx::mul_rn_f32(scale, amax), ptx::rcp_rn_f32(largest));
  }
};

/// The one scale of a format without block scales (FP8 per tensor). Transformer Engine,
/// compute_scale_from_amax: largest / amax; 1 where amax is 0, infinite or NaN; FLT_MAX where it overflows.
template <block_format F>
requires(F::has_tensor_scale&& block_scale_bytes<F> == 0) struct tensor_scale<F> {
  float amax = largest_block_value<F>;
  float largest = largest_block_value<F>;  ///< what amax is brought to: 448, less the margin
  float epsilon = 0.0f;                    ///< the least amax; below it, this is used
  bool power_of_two = false;               ///< rounds the scale down to a power of two
  float encode = 1.0f, decode = 1.0f;      ///< the scale, and 1 / scale

  constexpr tensor_scale() = default;
  FOURSCALE_HD constexpr explicit tensor_scale(float tensor_amax, float range = largest_block_value<F>,
                                               float least = 0.0f, bool pow2 = false)
      : amax(tensor_amax), largest(range), epsilon(least), power_of_two(pow2) {
    const float used = amax < epsilon ? epsilon : amax;
    if (less_magnitude(0.0f, used) && used <= float_max) {
      const float quotient = ptx::div_rn_f32(largest, used);
      encode = quotient <= float_max ? quotient : float_max;
    }
    if (power_of_two) encode = bit_cast<float>(bit_cast<u32>(encode) & float_inf_bits);
    decode = ptx::rcp_rn_f32(encode);
  }

  FOURSCALE_HD constexpr tensor_scale with_amax(float other) const {
    return tensor_scale(other, largest, epsilon, power_of_two);
  }

  /// 1 / scale, rounded once, as TE does.
  FOURSCALE_HD constexpr float dequantize_factor(float) const { return decode; }
};

/// The other formats have none: this is empty and multiplies by nothing.
template <block_format F>
requires(!F::has_tensor_scale) struct tensor_scale<F> {
  constexpr tensor_scale() = default;
  FOURSCALE_HD constexpr explicit tensor_scale(float) {}
  FOURSCALE_HD constexpr tensor_scale with_amax(float) const { return {}; }
  FOURSCALE_HD constexpr float dequantize_factor(float scale) const { return scale; }
};

}  // namespace fourscale
