// SPDX-License-Identifier: Apache-2.0
// The MX block scale: a power of two, stored as E8M0. Two rules: rounded up (NVIDIA) and rounded down (OCP).
#pragma once

#include "block_scale.hpp"

namespace FOURSCALE_NAMESPACE {

namespace detail {

/// 1 / 2^(bits - 127), exactly; NaN for NaN.
FOURSCALE_HD constexpr float inverse_power_of_two(e8m0 scale) {
  if (scale.bits == 0xff) return bit_cast<float>(0x7fff'ffffu);
  if (scale.bits == 0xfe) return bit_cast<float>(0x0040'0000u);  // 2^-127, a subnormal float
  return bit_cast<float>((254u - scale.bits) << 23);
}

}  // namespace detail

/// The smallest power of two under which amax fits: 2^ceil(log2(amax / max)), max the largest element, so
/// that nothing saturates. NVIDIA's rule: Transformer Engine's MXFP8 (E8M0 round-up of amax * (1/448)), and
/// arXiv 2509.25149 for MXFP4. amax = 0 stores 2^-127, infinity 2^127.
struct power_of_two_up {
  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> operator()(F, float amax, tensor_scale<F> const&) const {
    static_assert(same_type<typename F::scale, e8m0>, "power_of_two_up needs a format with E8M0 scales.");
    constexpr float inverse = 1.0f / largest_element<typename F::element>;
    const e8m0 scale = encode_up<e8m0>(ptx::mul_rn_f32(amax, inverse));
    return {scale, detail::inverse_power_of_two(scale)};
  }
};

/// 2^(floor(log2 amax) - emax), clamped to the range of E8M0: OCP MX v1.0 section 6.3. The largest values of
/// a block may saturate. amax = 0 stores 2^-127, infinity 2^127.
struct power_of_two_floor {
  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> operator()(F, float amax, tensor_scale<F> const&) const {
    static_assert(same_type<typename F::scale, e8m0>, "power_of_two_floor needs a format with E8M0 scales.");
    constexpr int emax = max_exponent<typename F::element>;
    const int exponent = encode_down<e8m0>(amax).bits;  // floor(log2 amax) + 127
    const int stored = amax > float_max || exponent == e8m0::nan_bits ? exponent : exponent - emax;
    const e8m0 scale{static_cast<u8>(stored > 0 ? stored : 0)};
    return {scale, detail::inverse_power_of_two(scale)};
  }
};

}  // namespace FOURSCALE_NAMESPACE
