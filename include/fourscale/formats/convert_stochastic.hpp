// SPDX-License-Identifier: Apache-2.0
// Stochastic encoding: four values and one random word give four codes, as cvt.rs gives them for that word.
// Which bits of the word an element sees is from PTX ISA 9.7.9.21. The order of these bits was measured on a
// B200 (vkuzo/quant_cast_bench) for e2m1, e4m3, e5m2 and bf16, and is inferred from e4m3 for e2m3 and e3m2.
// fourscale itself has not run on such a GPU.
#pragma once

#include "convert.hpp"
#include "real.hpp"

namespace FOURSCALE_NAMESPACE {

/// The low 16 bits of v in reverse order.
FOURSCALE_HD constexpr u32 reverse16(u32 v) {
#if FOURSCALE_DEVICE_PASS
  if (!is_constant_evaluated()) return __brev(v) >> 16;
#endif
  v = ((v >> 1) & 0x5555u) | ((v & 0x5555u) << 1);
  v = ((v >> 2) & 0x3333u) | ((v & 0x3333u) << 2);
  v = ((v >> 4) & 0x0f0fu) | ((v & 0x0f0fu) << 4);
  return ((v >> 8) & 0x00ffu) | ((v & 0x00ffu) << 8);
}

/// The 16 random bits that element `element` of a group of four sees of `word`. With the bytes b3 b2 b1 b0,
/// elements 0 and 1 of E2M1 share b2:b0, elements 2 and 3 share b3:b1; of wider formats, the first pair
/// shares the low half and the second pair the high half. The second element of a pair sees them in reverse
/// bit order.
template <element_format F>
FOURSCALE_HD constexpr u32 dither_bits(u32 word, int element) {
  u32 slice = element < 2 ? word & 0xffffu : word >> 16;
  if constexpr (F::width == 4)
    slice =
        element < 2 ? (word & 0xffu) | (word >> 8 & 0xff00u) : (word >> 8 & 0xffu) | (word >> 16 & 0xff00u);
  return element % 2 == 0 ? slice : reverse16(slice);
}

namespace portable {

/// Rounds |x| away from zero iff floor(65536 * fraction) + dither >= 65536, where fraction is how far |x|
/// lies from one code to the next: P(away) = floor(65536 * fraction) / 65536. dither = 0 truncates.
/// Saturation, NaN and -0 are those of encode().
template <element_format F>
FOURSCALE_HD constexpr F encode_stochastic(float x, u32 dither) {
  constexpr u32 spare = 23 - F::mantissa_bits, first_normal = static_cast<u32>(128 - F::bias);
  constexpr u32 largest = bit_cast<u32>(decode(F{F::max_bits}));
  const u32 u = bit_cast<u32>(x), magnitude = u & 0x7fff'ffffu;
  if (magnitude > float_inf_bits) return F{F::nan_bits};
  const u32 sign = (u >> 31) << (F::width - 1), clamped = magnitude < largest ? magnitude : largest;
  const u32 exponent = clamped >> 23;
  u32 code = ((clamped >> (spare - 16)) + dither) >> 16;
  code -= (first_normal - 1) << F::mantissa_bits;
  if (exponent < first_normal) {  // subnormal in F: each binade further down drops one more bit
    const u32 significand = exponent ? (clamped & 0x7f'ffffu) | 0x80'0000u : clamped;
    const u32 drop = spare - 16 + first_normal - (exponent ? exponent : 1u);
    code = ((drop < 24 ? significand >> drop : 0u) + dither) >> 16;
  }
  return F{static_cast<u8>(code | sign)};
}

}  // namespace portable

/// Rounds a scale, x >= 0, by the low 16 bits of `word`. NaN and values beyond the largest code give the
/// largest code.
template <element_format F>
FOURSCALE_HD constexpr F encode_stochastic_scale(float x, u32 word) {
  return portable::encode_stochastic<F>(x <= float_max ? x : float_max, word & 0xffffu);
}

/// Encodes four values by one random word, as cvt.rs.satfinite.<F>x4.f32 does.
template <element_format F>
FOURSCALE_HD constexpr packed<F, 4> encode_stochastic(float const (&x)[4], u32 word) {
  if constexpr (arch::has_cvt_rs) {
    if (!is_constant_evaluated()) {
      if constexpr (same_type<F, e2m1>)
        return {ptx::cvt_rs_satfinite_e2m1x4_f32(x[3], x[2], x[1], x[0], word)};
      if constexpr (same_type<F, e4m3>)
        return {ptx::cvt_rs_satfinite_e4m3x4_f32(x[3], x[2], x[1], x[0], word)};
      if constexpr (same_type<F, e5m2>)
        return {ptx::cvt_rs_satfinite_e5m2x4_f32(x[3], x[2], x[1], x[0], word)};
      if constexpr (F::width == 6) {
        const u32 d = same_type<F, e2m3> ? ptx::cvt_rs_satfinite_e2m3x4_f32(x[3], x[2], x[1], x[0], word)
                                         : ptx::cvt_rs_satfinite_e3m2x4_f32(x[3], x[2], x[1], x[0], word);
        return {(d & 0x3fu) | (d >> 2 & 0xfc0u) | (d >> 4 & 0x3'f000u) | (d >> 6 & 0xfc'0000u)};
      }
    }
  }
  packed<F, 4> codes{};
  FOURSCALE_UNROLL
  for (int i = 0; i < 4; ++i) codes.set(i, portable::encode_stochastic<F>(x[i], dither_bits<F>(word, i)));
  return codes;
}

/// Encodes eight values by two random words: the first word for x[0..3], the second for x[4..7].
template <element_format F>
FOURSCALE_HD constexpr packed<F, 8> encode_stochastic(float const (&x)[8], u32 first, u32 second) {
#if FOURSCALE_HAS_CVT_FMA
  if constexpr (same_type<F, e2m1>)
    if (!is_constant_evaluated()) return {detail::stochastic_e2m1x8(x, first, second)};
#endif
  using word = typename packed<F, 8>::word;
  const float low[4] = {x[0], x[1], x[2], x[3]}, high[4] = {x[4], x[5], x[6], x[7]};
  return {static_cast<word>(static_cast<word>(encode_stochastic<F>(low, first).bits) |
                            static_cast<word>(encode_stochastic<F>(high, second).bits) << (4 * F::width))};
}

/// Rounds two values to bf16 by one random word, as cvt.rs.bf16x2.f32 does: `lo`, which gives y[0], sees the
/// low half of the word, `hi` the high half. A carry out of the largest finite value gives infinity; every
/// NaN gives 0x7FFF.
FOURSCALE_HD constexpr void encode_stochastic(float lo, float hi, u32 word, bf16 (&y)[2]) {
  if constexpr (arch::has_cvt_rs) {
    if (!is_constant_evaluated()) {
      const u32 d = ptx::cvt_rs_bf16x2_f32(hi, lo, word);
      y[0] = {static_cast<u16>(d)};
      y[1] = {static_cast<u16>(d >> 16)};
      return;
    }
  }
  const u32 bits[2] = {bit_cast<u32>(lo), bit_cast<u32>(hi)}, dither[2] = {word & 0xffffu, word >> 16};
  FOURSCALE_UNROLL
  for (int i = 0; i < 2; ++i) {
    const u32 magnitude = bits[i] & 0x7fff'ffffu;
    const bool finite = magnitude < float_inf_bits;
    const u32 rounded = (bits[i] + (finite ? dither[i] : 0u)) >> 16;
    y[i] = {static_cast<u16>(magnitude > float_inf_bits ? 0x7fffu : rounded)};
  }
}

}  // namespace FOURSCALE_NAMESPACE
