// SPDX-License-Identifier: Apache-2.0
// NVFP4's block scale: amax / 6 in units of the tensor scale, stored as E4M3. Several orders of evaluation
// and roundings; the default, two_level, is bit for bit that of Transformer Engine's cast kernels.
#pragma once

#include "../formats/convert_lanes.hpp"
#include "block_scale.hpp"

namespace FOURSCALE_NAMESPACE {

namespace detail {

/// Inverts a stored scale. A stored 0 inverts to FLT_MAX: the codes of such a block saturate but dequantize
/// to zero, as in TE.
template <block_format F>
FOURSCALE_HD constexpr block_scale<F> scale_of_code(typename F::scale code, tensor_scale<F> const& tensor) {
  const float inverse = ptx::rcp_rn_f32(ptx::mul_rn_f32(decode(code), tensor.decode));
  return {code, inverse <= float_max ? inverse : float_max};
}

/// Stores `s`, and inverts the stored value. NaN and overflow become FLT_MAX, which stores 448.
template <block_format F>
FOURSCALE_HD constexpr block_scale<F> store_scale(float s, tensor_scale<F> const& tensor) {
  return scale_of_code<F>(encode<typename F::scale>(s <= float_max ? s : float_max), tensor);
}

#if FOURSCALE_DEVICE_PASS
/// store_scale() for an s that is not NaN. The reciprocal is computed by the steps of an IEEE division (an
/// approximation and one correction), which hold for a divisor from 2^-100 to 2^100.
template <block_format F>
FOURSCALE_D fast_block_scale<F> fast_scale_of(float s, tensor_scale<F> const& tensor) {
  const nearest_scale nearest = nearest_e4m3(s);
  const float divisor = fmaxf(ptx::mul_rn_f32(nearest.value, tensor.decode), 0x1p-100f);
  const float guess = ptx::rcp_approx_ftz_f32(divisor);
  const float inverse = __fmaf_rn(guess, __fmaf_rn(-divisor, guess, 1.0f), guess);
  return {nearest.code, nearest.value == 0.0f ? float_max : inverse,
          tensor.decode <= 0x1p90f && tensor.decode >= 0x1p-91f};
}
#endif
/// store_scale() as one lane of a vector. It divides as the definition does, because the time goes elsewhere.
template <block_format F>
FOURSCALE_HD constexpr block_scale<F> store_scale_lane(float s, tensor_scale<F> const& tensor) {
  using code = typename F::scale;
  const lanes::nearest_code nearest = lanes::encode_by_anchor<code>(lanes::finite(s));
  const u32 sign = nearest.top & 0x8000'0000u;
  const float value = bit_cast<float>(bit_cast<u32>(nearest.value) | sign);
  return {code{static_cast<u8>(nearest.top >> (32 - code::width))},
          lanes::finite(1.0f / (value * tensor.decode))};
}

}  // namespace detail

/// Transformer Engine >= 2.14: s = amax * (encode * (1/6)), stored to nearest even. The multiplier is 1 /
/// (stored * decode). On bf16 data the older order, two_level_division, stores another byte in about one
/// block of a thousand.
struct two_level {
  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> operator()(F, float amax, tensor_scale<F> const& tensor) const {
    static_assert(F::has_tensor_scale, "two_level needs a format with a tensor scale, such as nvfp4.");
    constexpr float sixth = 1.0f / largest_element<typename F::element>;
    return detail::store_scale<F>(ptx::mul_rn_f32(amax, ptx::mul_rn_f32(tensor.encode, sixth)), tensor);
  }

  /// Valid for amaxes of the tensor from 2^-79 to 2^100.
  template <block_format F>
  requires(F::has_tensor_scale&& same_type<typename F::scale, e4m3>) FOURSCALE_D FOURSCALE_H
      fast_block_scale<F> fast(F, [[maybe_unused]] float amax, [[maybe_unused]] tensor_scale<F> const& tensor)
  const {
#if FOURSCALE_DEVICE_PASS
    constexpr float sixth = 1.0f / largest_element<typename F::element>;
    const float s = ptx::mul_rn_f32(amax, ptx::mul_rn_f32(tensor.encode, sixth));
    return detail::fast_scale_of<F>(s, tensor);
#else
    return {};
#endif
  }

  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> scale_lane(F, float amax, tensor_scale<F> const& tensor) const {
    constexpr float sixth = 1.0f / largest_element<typename F::element>;
    return detail::store_scale_lane<F>(amax * (tensor.encode * sixth), tensor);
  }
};

/// Transformer Engine 2.8 to 2.13, and the formula of the paper (arXiv 2509.25149, appendix B): s = (amax /
/// 6) * encode.
struct two_level_division {
  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> operator()(F, float amax, tensor_scale<F> const& tensor) const {
    static_assert(F::has_tensor_scale,
                  "two_level_division needs a format with a tensor scale, such as nvfp4.");
    const float s =
        ptx::mul_rn_f32(ptx::div_rn_f32(amax, largest_element<typename F::element>), tensor.encode);
    return detail::store_scale<F>(s, tensor);
  }
  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> scale_lane(F, float amax, tensor_scale<F> const& tensor) const {
    return detail::store_scale_lane<F>(amax / largest_element<typename F::element> * tensor.encode, tensor);
  }
};

/// two_level with 1/17 of the range kept free, so that stochastic rounding never saturates and its mean is
/// right to 2^-16 of a step, the last of the 16 bits that a value draws: rounding to E4M3 lowers a scale to
/// no less than 16/17 of it (arXiv 2601.22813; fouroversix calls this rule stochastic_unbiased). It costs
/// about a quarter more mean square error. Scales below E4M3's normal range may still be lowered by more.
struct two_level_headroom {
  template <block_format F>
  FOURSCALE_HD constexpr tensor_scale<F> tensor(F, float amax) const {
    return tensor_scale<F>(amax, largest_block_value<F> * (16.0f / 17.0f));
  }

  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> operator()(F, float amax, tensor_scale<F> const& tensor) const {
    static_assert(F::has_tensor_scale,
                  "two_level_headroom needs a format with a tensor scale, such as nvfp4.");
    constexpr float share = 17.0f / 16.0f / largest_element<typename F::element>;
    return detail::store_scale<F>(ptx::mul_rn_f32(amax, ptx::mul_rn_f32(tensor.encode, share)), tensor);
  }
  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> scale_lane(F, float amax, tensor_scale<F> const& tensor) const {
    constexpr float share = 17.0f / 16.0f / largest_element<typename F::element>;
    return detail::store_scale_lane<F>(amax * (tensor.encode * share), tensor);
  }
};

/// two_level with the block scale rounded to E4M3 stochastically, so that the mean of the scale is right as
/// well. `bits` needs a stream of its own, because the word of a block's first four elements also rounds the
/// scale.
template <random_bits Bits>
struct two_level_stochastic {
  Bits bits;

  FOURSCALE_HD constexpr two_level_stochastic(Bits b) : bits(b) {}

  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> operator()(F, float amax, tensor_scale<F> const& tensor,
                                                   position where) const {
    static_assert(F::has_tensor_scale,
                  "two_level_stochastic needs a format with a tensor scale, such as nvfp4.");
    const float s =
        ptx::mul_rn_f32(amax, ptx::mul_rn_f32(tensor.encode, 1.0f / largest_element<typename F::element>));
    return detail::scale_of_code<F>(encode_stochastic_scale<typename F::scale>(s, bits(where)), tensor);
  }
};

}  // namespace FOURSCALE_NAMESPACE
