// SPDX-License-Identifier: Apache-2.0
// Four over six: each block maps its amax either to 6 or to 4, whichever gives the smaller error. J. Cook et
// al., arXiv 2512.02010. The arithmetic and its order are those of Transformer Engine's
// quantize_4over6_nvfp4.
#pragma once

#include "two_level.hpp"

namespace FOURSCALE_NAMESPACE {

namespace detail {

/// a / (6 * ScaleMax), rounded once, without a division. The test tries every mantissa. Valid if |a| and the
/// quotient are from 2^-100 to 2^100. After P. Markstein, IBM Journal of Research and Development 34 (1990).
template <int ScaleMax>
FOURSCALE_HD float over_largest(float a) {
  constexpr float largest = 6.0f * static_cast<float>(ScaleMax), inverse = 1.0f / largest;
  const float q = ptx::mul_rn_f32(a, inverse);
  return ptx::fma_rn_f32(ptx::fma_rn_f32(-q, largest, a), inverse, q);
}

#if FOURSCALE_DEVICE_PASS
/// Dequantizes the codes of a block under one candidate of four_over_six. Two numbers determine all values:
/// V1 and V3, the values of the codes 1 and 1.5. The other values are these times a power of two. A code is
/// either its binade or 1.5 times it, so its value is code * 2 (V3 - V1) + binade * (3 V1 - 2 V3), where both
/// factors and the sum are exact.
template <int ScaleMax>
struct requantized {
  float slope, offset, to_units;

  template <class F>
  FOURSCALE_D requantized(fast_block_scale<F> const& candidate, tensor_scale<F> const& tensor) {
    const float scale = decode(candidate.scale);
    const float v1 = over_largest<ScaleMax>(ptx::mul_rn_f32(scale, tensor.amax)),
                v3 = over_largest<ScaleMax>(ptx::mul_rn_f32(1.5f * scale, tensor.amax));
    slope = 2.0f * (v3 - v1) / e2m1_unit;
    offset = ptx::fma_rn_f32(3.0f, v1, -2.0f * v3) / e2m1_unit;  // 3 * V1 alone would be rounded
    to_units = ptx::mul_rn_f32(candidate.multiplier, e2m1_unit);
  }
  /// The value of x after rounding to a code and back. Unless `Clamped`, |x| times the multiplier must be
  /// below 7.
  template <bool Clamped>
  FOURSCALE_D float value(float x) const {
    const float y = ptx::mul_rn_f32(x, to_units);
    const float code = nearest_on_grid(Clamped ? clamped(y) : y);
    const float binade = bit_cast<float>(bit_cast<u32>(code) & 0xff80'0000u);
    return __fmaf_rn(code, slope, ptx::mul_rn_f32(binade, offset));
  }
};
#endif

}  // namespace detail

/// How the error of a candidate is summed: as magnitudes (TE's default) or as squares.
enum class error_norm { mean_absolute, mean_square };

/// NVFP4 scaling with two candidates for each block. `ScaleMax` says how much of E4M3's range the tensor
/// scale uses: 256 leaves room for the candidate that maps to 4, whose scale is 1.5 times larger; 448 uses
/// all of it, so that this candidate may saturate. With 2-D blocks the rowwise and the columnwise copy add
/// their errors in different orders, so, as in TE, they may on rare occasions choose differently. Where the
/// copies must agree, quantize one of them and transpose() it.
template <error_norm Norm = error_norm::mean_absolute, int ScaleMax = 256>
struct four_over_six {
  static_assert(ScaleMax == 256 || ScaleMax == 448, "four_over_six uses 256 or 448 of the range of E4M3.");

  template <block_format F>
  FOURSCALE_HD constexpr tensor_scale<F> tensor(F, float amax) const {
    return tensor_scale<F>(amax, 6.0f * static_cast<float>(ScaleMax));
  }

  /// c[0] maps the amax to 6, c[1] maps it to 4.
  template <block_format F>
  FOURSCALE_HD constexpr void candidates(F, float amax, tensor_scale<F> const& tensor,
                                         block_scale<F> (&c)[2]) const {
    static_assert(same_type<F, nvfp4>, "four_over_six is a rule for nvfp4.");
    const float base = ptx::mul_rn_f32(ptx::div_rn_f32(amax, 6.0f), tensor.encode);
    c[0] = detail::store_scale<F>(base < 448.0f ? base : 448.0f, tensor);
    const float larger = ptx::mul_rn_f32(base, 1.5f);
    c[1] = detail::store_scale<F>(larger < 448.0f ? larger : 448.0f, tensor);
  }

  /// The sum, in the order of the elements of x, of the errors after quantization and dequantization.
  template <block_format F>
  FOURSCALE_HD constexpr float error(F, float const (&x)[F::block_size], block_scale<F> const& c,
                                     tensor_scale<F> const& tensor) const {
    const float scale = decode(c.scale);
    float sum = 0.0f;
    FOURSCALE_UNROLL
    for (int i = 0; i < F::block_size; ++i) {
      const float code = decode(encode<typename F::element>(ptx::mul_rn_f32(x[i], c.multiplier)));
      const float value =
          ptx::div_rn_f32(ptx::mul_rn_f32(ptx::mul_rn_f32(code, scale), tensor.amax), tensor.largest);
      const float difference = ptx::add_rn_f32(value, -x[i]);
      const float magnitude = bit_cast<float>(bit_cast<u32>(difference) & 0x7fff'ffffu);
      sum = ptx::add_rn_f32(
          sum, Norm == error_norm::mean_square ? ptx::mul_rn_f32(difference, difference) : magnitude);
    }
    return sum;
  }

  /// candidates() for an amax that is not NaN.
  template <block_format F>
  FOURSCALE_D FOURSCALE_H fast_candidates<F> fast_candidates_of(
      F, [[maybe_unused]] float amax, [[maybe_unused]] tensor_scale<F> const& tensor) const {
#if FOURSCALE_DEVICE_PASS
    const float base = ptx::mul_rn_f32(detail::over_largest<1>(amax), tensor.encode);
    fast_candidates<F> both{{detail::fast_scale_of<F>(base, tensor),
                             detail::fast_scale_of<F>(ptx::mul_rn_f32(base, 1.5f), tensor)}};
    both.c[0].valid = both.c[0].valid && amax < 0x1p60f && (amax == 0.0f || amax >= 0x1p-100f);
    return both;
#else
    return {};
#endif
  }

  /// Fast forms: see lane_weighing_policy.
  template <block_format F>
  FOURSCALE_HD constexpr void candidates_lane(F, float amax, tensor_scale<F> const& tensor,
                                              block_scale<F> (&c)[2]) const {
    const float base = amax / 6.0f * tensor.encode, larger = base * 1.5f;
    c[0] = detail::store_scale_lane<F>(base < 448.0f ? base : 448.0f, tensor);
    c[1] = detail::store_scale_lane<F>(larger < 448.0f ? larger : 448.0f, tensor);
  }
  template <block_format F>
  FOURSCALE_HD constexpr float error_lane(F, float x, float scale, float multiplier,
                                          tensor_scale<F> const& tensor) const {
    const u32 code = lanes::encode_nearest<typename F::element>(x * multiplier) >> (32 - F::element::width);
    const float value = lanes::decode_bits<typename F::element>(code) * scale * tensor.amax / tensor.largest;
    const float difference = value - x;
    return Norm == error_norm::mean_square ? ptx::mul_rn_f32(difference, difference)
                                           : bit_cast<float>(bit_cast<u32>(difference) & 0x7fff'ffffu);
  }

  /// Fast form: see fast_weighing_scaling_policy. Both sums of errors are in the order of error(). The result
  /// is valid for an amax of the block of 0 or from 2^-100 to 2^60 and an amax of the tensor from 2^-60 to
  /// 2^60.
  template <bool Clamped, block_format F, class Block>
  FOURSCALE_D FOURSCALE_H fast_block_scale<F> fast(F, [[maybe_unused]] Block const& block,
                                                   [[maybe_unused]] fast_candidates<F> const& candidates,
                                                   [[maybe_unused]] tensor_scale<F> const& tensor) const {
#if FOURSCALE_DEVICE_PASS
    fast_block_scale<F> const(&c)[2] = candidates.c;
    const detail::requantized<ScaleMax> of[2] = {{c[0], tensor}, {c[1], tensor}};
    float errors[2] = {};
    FOURSCALE_UNROLL
    for (int i = 0; i < F::block_size; ++i) {
      const float x = block.value(i);
      FOURSCALE_UNROLL
      for (int k = 0; k < 2; ++k) {
        const float difference = ptx::add_rn_f32(of[k].template value<Clamped>(x), -x);
        errors[k] = ptx::add_rn_f32(errors[k], Norm == error_norm::mean_square
                                                   ? ptx::mul_rn_f32(difference, difference)
                                                   : fabsf(difference));
      }
    }
    const bool valid = c[0].valid && c[1].valid && tensor.amax > 0x1p-60f && tensor.amax < 0x1p60f &&
                       tensor.largest == 6.0f * static_cast<float>(ScaleMax);
    const fast_block_scale<F> chosen = less_magnitude(errors[1], errors[0]) ? c[1] : c[0];
    return {chosen.scale, chosen.multiplier, valid};
#else
    return {};
#endif
  }
};

}  // namespace FOURSCALE_NAMESPACE
