// SPDX-License-Identifier: Apache-2.0
// The quick way to E2M1, on sm_89 and later: 16-bit values are quantized as if no care were needed: no NaN,
// nothing beyond the largest code, no scale near the end of its range. Whether that was right is part of the
// result; blocks where it was not are done again by quantize_raw().
#pragma once

#include "../scaling/amax_scale.hpp"
#include "../scaling/four_over_six.hpp"
#include "raw.cuh"
#include "scheduled.cuh"

namespace fourscale::device::detail {

template <class Scale>
inline constexpr bool is_four_over_six = false;
template <error_norm Norm, int ScaleMax>
inline constexpr bool is_four_over_six<four_over_six<Norm, ScaleMax>> = true;
template <class Round>
inline constexpr bool is_stochastic = false;
template <class Bits>
inline constexpr bool is_stochastic<stochastic<Bits>> = true;

/// Is there a quick way for blocks of F of type T? Differs between passes: to be read as arch:: is.
template <class F, class T, class Quantizer>
FOURSCALE_HD constexpr bool has_quick_way() {
  using round = decltype(Quantizer::round);
  using transform = decltype(Quantizer::transform);
  using scale = decltype(Quantizer::scale);
  constexpr bool format = arch::has_cvt_fp8 && __is_same(typename F::element, e2m1) && is_short<T>;
  constexpr bool scales = amax_scaling_policy<scale, F> || is_four_over_six<scale>;
  constexpr bool rounds = __is_same(round, nearest_even) || is_stochastic<round>;
  constexpr bool transforms = __is_same(transform, identity) || is_scheduled<transform>;
  return format && scales && rounds && transforms;
}

#if FOURSCALE_HAS_CVT_FP8

/// In what unit transformed() gives the values of a recipe: the transform's first factor, if the scale asks
/// for no more than their amax.
template <class F, class Quantizer>
FOURSCALE_HD constexpr float transformed_unit() {
  using transform = decltype(Quantizer::transform);
  if constexpr (is_scheduled<transform> && amax_scaling_policy<decltype(Quantizer::scale), F>)
    return transform::factor;
  else
    return 1.0f;
}

/// The values that are quantized, as their scale sees them, over their unit. Where sums_over_factor() rounds
/// otherwise than it should, the quick way does not hold, or the codes are 0.
template <class F, class Quantizer, class Block>
FOURSCALE_D auto transformed(Block const& block, Quantizer const& recipe) {
  if constexpr (__is_same(decltype(Quantizer::transform), identity)) {
    return block;
  } else {
    float x[F::block_size];
    if constexpr (transformed_unit<F, Quantizer>() == 1.0f)
      recipe.transform.sums(block, x);
    else
      recipe.transform.sums_over_factor(block, x);
    return cta::values<bf16, F::block_size>::rounded(x);
  }
}

/// The random words of N elements from `where` on, a multiple of N, four elements each.
template <int N, class Bits>
FOURSCALE_D void block_words(Bits const& bits, position where, u32 (&words)[N / 4]) {
  if constexpr (requires { bits.of_sixteen(where); }) {
    FOURSCALE_UNROLL
    for (int i = 0; i < N / 4; i += 4) {
      const philox_words four = bits.of_sixteen(where.right(4 * i));
      FOURSCALE_UNROLL
      for (int j = 0; j < 4; ++j) words[i + j] = four.words[j];
    }
  } else {
    FOURSCALE_UNROLL
    for (int i = 0; i < N / 4; ++i) words[i] = bits(where.right(4 * i));
  }
}

/// The codes of a block, given over its unit, under a known multiplier, if is_quick(amax, multiplier).
template <class F, class Block, class Round>
FOURSCALE_D void round_block_quickly(Block const& block, float block_unit, float multiplier,
                                     [[maybe_unused]] Round const& round, [[maybe_unused]] position where,
                                     u8 (&codes)[block_code_bytes<F>]) {
  namespace fma = fourscale::detail;
  constexpr bool nearest = __is_same(Round, nearest_even);
  constexpr bool native = nearest ? arch::has_cvt_narrow : arch::has_cvt_rs;
  constexpr float unit = native ? 1.0f : nearest ? fma::e2m1_unit : fma::stochastic_unit;
  const float to_units = ptx::mul_rn_f32(multiplier, unit * block_unit);  // exact
  u32 words[F::block_size / 4];
  if constexpr (!nearest) block_words<F::block_size>(round.bits, where, words);
  FOURSCALE_UNROLL
  for (int i = 0; i < F::block_size; i += 8) {
    float y[8];
    FOURSCALE_UNROLL
    for (int j = 0; j < 8; ++j) {
      const float x = to_float(block.get(i + j));
      y[j] = ptx::mul_rn_f32(native ? x : fabsf(x), to_units);
    }
    u32 word;
    if constexpr (native && nearest)
      word = encode<e2m1>(y).bits;
    else if constexpr (native)
      word = encode_stochastic<e2m1>(y, words[i / 4], words[i / 4 + 1]).bits;
    else if constexpr (nearest)
      word = fma::nearest_e2m1x8(y, nibble_signs(block, i));
    else
      word = fma::stochastic_e2m1x8(y, nibble_signs(block, i), words[i / 4], words[i / 4 + 1]);
    FOURSCALE_UNROLL
    for (int j = 0; j < 4; ++j) codes[i / 2 + j] = static_cast<u8>(word >> (8 * j));
  }
}

/// `amax` NaN if any value is. From 7 on a value would round to 8; below 2^-100 the product with the units
/// might not be exact.
FOURSCALE_D inline bool is_quick(float amax, float multiplier) {
  return ptx::mul_rn_f32(amax, multiplier) < 7.0f && multiplier >= 0x1p-100f;
}

/// Values that are not normal have the code 0: so small beside 1 / multiplier are they, or all are 0.
FOURSCALE_D inline bool subnormals_vanish(float amax, float multiplier) {
  return (multiplier < 0x1p99f) | (amax == 0.0f);
}

/// The scale of a block and what to multiply by, which hold only if `valid`.
template <class F>
struct quick_scale {
  typename F::scale code;
  float multiplier;
  bool valid;
};

template <class F, class Block, class Scale>
FOURSCALE_D quick_scale<F> scale_quickly(Scale const& scale, Block const&, float amax,
                                         tensor_scale<F> const& tensor, position where) {
  const block_scale<F> scaled = scale_for<F>(scale, amax, tensor, where);
  return {scaled.scale, scaled.multiplier,
          is_quick(amax, scaled.multiplier) && subnormals_vanish(amax, scaled.multiplier)};
}

/// two_level without its cases: the reciprocal is a division's own steps, for a divisor of at least 2^-100.
/// Blocks of zeros have none: whatever they are multiplied by, they stay zeros.
template <class F, class Block>
FOURSCALE_D quick_scale<F> scale_quickly(two_level, Block const&, float amax, tensor_scale<F> const& tensor,
                                         position) {
  const float s = ptx::mul_rn_f32(amax, ptx::mul_rn_f32(tensor.encode, 1.0f / 6.0f));
  const u32 code = ptx::cvt_rn_satfinite_e4m3x2_f32(0.0f, s);
  const float scale = ptx::cvt_f32_f16(static_cast<u16>(ptx::cvt_rn_f16x2_e4m3x2(static_cast<u16>(code))));
  const float divisor = fmaxf(ptx::mul_rn_f32(scale, tensor.decode), 0x1p-100f);
  const float guess = ptx::rcp_approx_ftz_f32(divisor);
  const float multiplier = __fmaf_rn(guess, __fmaf_rn(-divisor, guess, 1.0f), guess);
  // is_quick(), where the multiplier is at least 2^-100 because the scale is at most 448.
  const bool valid = (tensor.decode <= 0x1p90f) & (ptx::mul_rn_f32(amax, multiplier) < 7.0f) &
                     subnormals_vanish(amax, multiplier);
  return {{static_cast<u8>(code)}, multiplier, valid};
}
template <class F, class Block>
FOURSCALE_D quick_scale<F> scale_quickly(amax_scale const& scale, Block const& block, float amax,
                                         tensor_scale<F> const& tensor, position where) {
  if constexpr (__is_same(F, nvfp4))
    return scale_quickly<F>(two_level{}, block, amax, tensor, where);
  else
    return scale_quickly<F, Block, amax_scale>(scale, block, amax, tensor, where);
}

/// What the codes of a block become again under one candidate of four_over_six. Two numbers tell them all,
/// those of the codes 1 and 1.5: V1 and V3; the others are powers of two times these. A code is its binade,
/// or 1.5 of it, so its value is code * 2 (V3 - V1) + binade * (3 V1 - 2 V3), where both factors and the sum
/// are exact.
template <int ScaleMax>
struct requantized {
  float slope, offset, to_units;

  template <class F>
  FOURSCALE_D requantized(block_scale<F> const& candidate, tensor_scale<F> const& tensor) {
    constexpr float unit = fourscale::detail::e2m1_unit;
    const float scale = decode(candidate.scale);
    const float v1 = fourscale::detail::over_largest<ScaleMax>(ptx::mul_rn_f32(scale, tensor.amax)),
                v3 = fourscale::detail::over_largest<ScaleMax>(ptx::mul_rn_f32(1.5f * scale, tensor.amax));
    slope = 2.0f * (v3 - v1) / unit;
    offset = (3.0f * v1 - 2.0f * v3) / unit;
    to_units = ptx::mul_rn_f32(candidate.multiplier, unit);
  }
  /// Of x, rounded to a code and back.
  template <bool Clamped>
  FOURSCALE_D float value(float x) const {
    const float y = ptx::mul_rn_f32(x, to_units);
    const float code = fourscale::detail::nearest_on_grid(Clamped ? fourscale::detail::clamped(y) : y);
    const float binade = bit_cast<float>(bit_cast<u32>(code) & 0xff80'0000u);
    return __fmaf_rn(code, slope, ptx::mul_rn_f32(binade, offset));
  }
};

/// Sums of errors in the order of four_over_six::error(). Amaxes whose products could leave the range of
/// float are not for the quick way. Unless `Clamped`, nor are blocks that leave the grid: those whose scale,
/// among the least of E4M3, is rounded down by much.
template <class F, bool Clamped, class Block, error_norm Norm, int ScaleMax>
FOURSCALE_D quick_scale<F> weigh_quickly(four_over_six<Norm, ScaleMax> const& scale, Block const& block,
                                         float amax, tensor_scale<F> const& tensor) {
  block_scale<F> c[2]{{{}, 0.0f}, {{}, 0.0f}};
  scale.candidates(F{}, amax, tensor, c);
  const requantized<ScaleMax> of[2] = {{c[0], tensor}, {c[1], tensor}};
  float errors[2] = {};
  FOURSCALE_UNROLL
  for (int i = 0; i < F::block_size; ++i) {
    const float x = to_float(block.get(i));
    FOURSCALE_UNROLL
    for (int k = 0; k < 2; ++k) {
      const float difference = ptx::add_rn_f32(of[k].template value<Clamped>(x), -x);
      errors[k] =
          ptx::add_rn_f32(errors[k], Norm == error_norm::mean_square ? ptx::mul_rn_f32(difference, difference)
                                                                     : fabsf(difference));
    }
  }
  const auto fits = [&](float multiplier) {
    return Clamped ? amax < 0x1p60f && multiplier >= 0x1p-112f : is_quick(amax, multiplier);
  };
  const bool valid = fits(c[0].multiplier) && fits(c[1].multiplier) && tensor.largest == 6.0f * ScaleMax &&
                     tensor.amax > 0x1p-60f && tensor.amax < 0x1p60f;
  const block_scale<F> chosen = less_magnitude(errors[1], errors[0]) ? c[1] : c[0];
  return {chosen.scale, chosen.multiplier, valid};
}
template <class F, class Block, error_norm Norm, int ScaleMax>
FOURSCALE_D quick_scale<F> scale_quickly(four_over_six<Norm, ScaleMax> const& scale, Block const& block,
                                         float amax, tensor_scale<F> const& tensor, position) {
  return weigh_quickly<F, false>(scale, block, amax, tensor);
}

#endif

}  // namespace fourscale::device::detail
