// SPDX-License-Identifier: Apache-2.0
// The scale of a whole tensor, from its amax: the first of NVFP4's two levels, and the only scale of FP8 per
// tensor. The arithmetic is that of Transformer Engine >= 2.14 (compute_global_encode_scaling_factor_FP4):
// one IEEE rounding for each step.
#pragma once

#include "../formats/block_formats.hpp"
#include "../formats/convert.hpp"
#include "../ptx/arith.hpp"

namespace FOURSCALE_NAMESPACE {

/// Largest magnitude of an element: 6 for E2M1.
template <element_format F>
inline constexpr float largest_element = decode(F{F::max_bits});

/// The largest magnitude that a block format can hold under tensor scale 1: 6 * 448 = 2688 for NVFP4. A
/// scaling rule may use less: some leave part of the range of the scale free.
template <block_format F>
FOURSCALE_H constexpr float largest_value() {
  if constexpr (format<typename F::scale>)
    return largest_element<typename F::element> * decode(typename F::scale{F::scale::max_bits});
  else
    return largest_element<typename F::element>;
}
template <block_format F>
inline constexpr float largest_block_value = largest_value<F>();

template <block_format F>
struct tensor_scale;

/// The rule by which a tensor scale follows from an amax, without the amax. range_of() gives that of a
/// scaling policy.
template <block_format F>
struct tensor_range {
  float largest = largest_block_value<F>;  ///< what amax is brought to

  FOURSCALE_HD constexpr tensor_scale<F> scale(float amax) const { return tensor_scale<F>(amax, largest); }
  friend FOURSCALE_H constexpr bool operator==(tensor_range, tensor_range) = default;
};

/// The rule for FP8 per tensor.
template <block_format F>
requires(F::has_tensor_scale&& block_scale_bytes<F> == 0) struct tensor_range<F> {
  float largest = largest_block_value<F>;  ///< 448, less the margin
  float epsilon = 0.0f;                    ///< an amax below this counts as this
  bool power_of_two = false;               ///< rounds the scale down to a power of two

  FOURSCALE_HD constexpr tensor_scale<F> scale(float amax) const {
    return tensor_scale<F>(amax, largest, epsilon, power_of_two);
  }
  friend FOURSCALE_H constexpr bool operator==(tensor_range, tensor_range) = default;
};

/// The other formats have no tensor scale, so their rule is empty.
template <block_format F>
requires(!F::has_tensor_scale) struct tensor_range<F> {
  FOURSCALE_HD constexpr tensor_scale<F> scale(float amax) const { return tensor_scale<F>(amax); }
  friend FOURSCALE_H constexpr bool operator==(tensor_range, tensor_range) = default;
};

namespace detail {

/// True for a scale that can be inverted: positive and finite.
FOURSCALE_HD constexpr bool is_scale(float s) { return less_magnitude(0.0f, s) && s <= float_max; }
FOURSCALE_HD constexpr float kept_finite(float x) { return x <= float_max ? x : float_max; }

/// range / e and d * range, each rounded once. If e or d is a scale, the result is kept finite. Otherwise: e
/// = 0, infinity and NaN give infinity, 0 and NaN; d = 0, infinity and NaN give themselves.
FOURSCALE_HD constexpr float amax_of_encode(float e, float range) {
  if (is_scale(e)) return kept_finite(ptx::div_rn_f32(range, e));
  return amax_bits(e) == 0 && e == e ? bit_cast<float>(float_inf_bits) : ptx::div_rn_f32(range, e);
}
FOURSCALE_HD constexpr float amax_of_decode(float d, float range) {
  if (is_scale(d)) return kept_finite(ptx::mul_rn_f32(d, range));
  return amax_bits(d) == 0 && d == d ? 0.0f : d;
}

/// The tensor scale T whose amax follows from the given scale. The given scale and its inverse replace the
/// scales that T computes from that amax.
template <class T>
FOURSCALE_HD constexpr T from_encode(float e, float range) {
  T tensor(amax_of_encode(e, range), range);
  if (!is_scale(e)) return tensor;
  tensor.encode = e;
  tensor.decode = kept_finite(ptx::rcp_rn_f32(e));
  return tensor;
}
template <class T>
FOURSCALE_HD constexpr T from_decode(float d, float range) {
  T tensor(amax_of_decode(d, range), range);
  if (!is_scale(d)) return tensor;
  tensor.decode = d;
  tensor.encode = kept_finite(ptx::rcp_rn_f32(d));
  return tensor;
}

}  // namespace detail

/// The tensor scale of a format that has one. It keeps the amax as well as the scales, because dequantization
/// multiplies by amax / 2688 and quantization by 2688 / amax, and neither follows exactly from the other.
template <block_format F>
struct tensor_scale {
  float amax = largest_block_value<F>;     ///< largest magnitude of the tensor; the default gives scale 1
  float largest = largest_block_value<F>;  ///< what amax is brought to: 2688, or what the scaling rule says
  float encode =
      1.0f;  ///< largest / amax; FLT_MAX where that overflows or amax is NaN; 1 for amax = 0 and infinity
  float decode = 1.0f;  ///< 1 / encode

  FOURSCALE_HD constexpr tensor_scale() {}
  FOURSCALE_HD constexpr explicit tensor_scale(float tensor_amax, float range = largest_block_value<F>)
      : amax(tensor_amax), largest(range) {
    const float quotient = ptx::div_rn_f32(largest, amax);
    encode = quotient <= float_max ? quotient : float_max;  // NaN and infinity become FLT_MAX
    if (amax_bits(amax) == 0 && amax == amax) encode = 1.0f;
    if (quotient == 0.0f) encode = 1.0f;
    decode = ptx::rcp_rn_f32(encode);
  }

  /// From an encode scale, which other libraries keep in place of an amax (vLLM's global_scale, 2688 / amax),
  /// e >= 0. `encode` is e itself, `decode` is 1 / e and `amax` is range / e, each rounded once, FLT_MAX
  /// where they overflow. If e is not a scale, the result is that of the amax it stands for: e = infinity as
  /// amax 0, e = 0 as amax infinity, NaN as NaN.
  static FOURSCALE_HD constexpr tensor_scale from_encode_scale(float e,
                                                               float range = largest_block_value<F>) {
    return detail::from_encode<tensor_scale>(e, range);
  }

  /// From a decode scale (amax / 2688, a factor of a GEMM's alpha), d >= 0. `decode` is d itself, `encode` is
  /// 1 / d and `amax` is d * range, each rounded once, FLT_MAX where they overflow. d = 0, infinity and NaN
  /// give what these give as an amax. Dequantization uses amax; with range 1 it multiplies by scale * d,
  /// rounded once.
  static FOURSCALE_HD constexpr tensor_scale from_decode_scale(float d,
                                                               float range = largest_block_value<F>) {
    return detail::from_decode<tensor_scale>(d, range);
  }

  /// The tensor scale of another amax by the same rule, and the rule without an amax.
  FOURSCALE_HD constexpr tensor_scale with_amax(float other) const { return tensor_scale(other, largest); }
  FOURSCALE_HD constexpr tensor_range<F> range() const { return {largest}; }

  /// The factor for codes in dequantization: (scale * amax) * (1 / 2688), two roundings, as in TE.
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
  float epsilon = 0.0f;                    ///< an amax below this counts as this
  bool power_of_two = false;               ///< rounds the scale down to a power of two
  float encode = 1.0f, decode = 1.0f;      ///< the scale, and 1 / scale

  FOURSCALE_HD constexpr tensor_scale() {}
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

  /// As for the formats with two levels: from 448 / amax, or from amax / 448 (TE's scale_inv).
  static FOURSCALE_HD constexpr tensor_scale from_encode_scale(float e,
                                                               float range = largest_block_value<F>) {
    return detail::from_encode<tensor_scale>(e, range);
  }
  static FOURSCALE_HD constexpr tensor_scale from_decode_scale(float d,
                                                               float range = largest_block_value<F>) {
    return detail::from_decode<tensor_scale>(d, range);
  }

  FOURSCALE_HD constexpr tensor_scale with_amax(float other) const {
    return tensor_scale(other, largest, epsilon, power_of_two);
  }
  FOURSCALE_HD constexpr tensor_range<F> range() const { return {largest, epsilon, power_of_two}; }

  /// The factor for codes in dequantization: 1 / scale, rounded once, as in TE.
  FOURSCALE_HD constexpr float dequantize_factor(float) const { return decode; }
};

/// The other formats have no tensor scale: this is empty, and stands for a factor of 1.
template <block_format F>
requires(!F::has_tensor_scale) struct tensor_scale<F> {
  FOURSCALE_HD constexpr tensor_scale() {}
  FOURSCALE_HD constexpr explicit tensor_scale(float) {}
  FOURSCALE_HD constexpr tensor_scale with_amax(float) const { return {}; }
  FOURSCALE_HD constexpr tensor_range<F> range() const { return {}; }
  FOURSCALE_HD constexpr float dequantize_factor(float scale) const { return scale; }
};

/// From an amax: the scale that brings it to `range` (encode), and the inverse of that scale (decode). The
/// members of tensor_scale<F>(amax, range) say what zero, infinity, NaN and overflow give. The inverse is
/// TE's 1 / fl(range / amax), not always amax / range rounded once.
template <block_format F>
FOURSCALE_HD constexpr float encode_scale_of(float amax, float range = largest_block_value<F>) {
  static_assert(F::has_tensor_scale, "This format has no tensor scale.");
  return tensor_scale<F>(amax, range).encode;
}
template <block_format F>
FOURSCALE_HD constexpr float decode_scale_of(float amax, float range = largest_block_value<F>) {
  static_assert(F::has_tensor_scale, "This format has no tensor scale.");
  return tensor_scale<F>(amax, range).decode;
}

/// From a scale back to an amax: range / e and d * range, rounded once, FLT_MAX where they overflow. e =
/// infinity gives 0 and e = 0 infinity; d = 0 and infinity give themselves; NaN gives NaN.
template <block_format F>
FOURSCALE_HD constexpr float amax_of_encode_scale(float e, float range = largest_block_value<F>) {
  static_assert(F::has_tensor_scale, "This format has no tensor scale.");
  return detail::amax_of_encode(e, range);
}
template <block_format F>
FOURSCALE_HD constexpr float amax_of_decode_scale(float d, float range = largest_block_value<F>) {
  static_assert(F::has_tensor_scale, "This format has no tensor scale.");
  return detail::amax_of_decode(d, range);
}

}  // namespace FOURSCALE_NAMESPACE
