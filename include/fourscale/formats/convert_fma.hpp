// SPDX-License-Identifier: Apache-2.0
// E2M1 on GPUs that have FP8 conversions but no FP4 ones (sm_89, sm_90). To the nearest: a value is rounded
// to the grid by adding a power of two that leaves it no more bits, and E5M2 then holds the result as one
// more bit than E2M1 has. Stochastically: random bits are part of that power of two, and the sum is
// truncated. The same bits as portable::encode and portable::encode_stochastic in a third of the
// instructions; the tests hold them equal.
#pragma once

#include "../ptx/arith.hpp"
#include "../ptx/cvt.hpp"

namespace fourscale::detail {

#if FOURSCALE_HAS_CVT_FMA

/// r * 2^-14 for the E2M1 value r nearest to x: NaN gives 6. In that scale E2M1's subnormals are E5M2's.
FOURSCALE_D inline float round_to_e2m1(float x) {
  const float y = ptx::mul_rn_f32(x, 0x1p-14f);  // a NaN becomes the positive one here
  const float a = fminf(fabsf(y), 6 * 0x1p-14f);
  // The binade of a, at least that of 1: the step of the grid is half of it.
  const float binade = bit_cast<float>(bit_cast<u32>(fmaxf(a, 0x1p-14f)) & float_inf_bits);
  constexpr float magic = 1.5f * 0x1p22f;  // the last bit of magic * binade + a is half a binade
  const float rounded = __fmaf_rn(binade, -magic, __fmaf_rn(binade, magic, a));
  return bit_cast<float>(bit_cast<u32>(rounded) | (bit_cast<u32>(y) & 0x8000'0000u));
}

/// Eight values to eight nibbles, the first in the lowest.
FOURSCALE_D inline u32 encode_e2m1x8(float const (&x)[8]) {
  float r[8];
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i) r[i] = round_to_e2m1(x[i]);
  // Bytes S000'CCC0: of elements 0, 2, 4, 6 and of 1, 3, 5, 7.
  const u32 even =
      ptx::cvt_rn_satfinite_e5m2x2_f32(r[2], r[0]) | u32{ptx::cvt_rn_satfinite_e5m2x2_f32(r[6], r[4])} << 16;
  const u32 odd =
      ptx::cvt_rn_satfinite_e5m2x2_f32(r[3], r[1]) | u32{ptx::cvt_rn_satfinite_e5m2x2_f32(r[7], r[5])} << 16;
  return (even >> 1 & 0x0707'0707u) | (even >> 4 & 0x0808'0808u) | (odd << 3 & 0x7070'7070u) |
         (odd & 0x8080'8080u);
}

/// The code of |x| in the low nibble, for 16 random bits in the low half of `dither`'s bits: 67 + dither *
/// 2^-17 as a float. That many binades plus a, truncated, hold floor(65536 * a / step) + dither above three
/// steps; the sum of its integer part and twice the exponent is the code, up to a multiple of 16.
FOURSCALE_D inline u32 stochastic_code(float x, float dither) {
  const float a = fminf(fabsf(x), 6.0f);
  const float binade = bit_cast<float>(bit_cast<u32>(fmaxf(a, 1.0f)) & float_inf_bits);
  const u32 t = bit_cast<u32>(__fmaf_rz(binade, dither, a));
  return (t >> 16) + (t >> 22);
}

/// Four values to four nibbles by one random word, as portable::encode_stochastic under dither_bits.
FOURSCALE_D inline u32 encode_stochastic_e2m1x4(float const (&x)[4], u32 word) {
  constexpr u32 base = 0x4286'0000u;  // 67.0f
  const u32 reversed = __brev(word);  // bytes r(b0) r(b1) r(b2) r(b3), the highest first
  u32 code[4], sign[4];
  FOURSCALE_UNROLL
  for (int i = 0; i < 4; ++i) {
    // Elements 0 and 1 see bytes 2 and 0, the others 3 and 1; 1 and 3 in reversed order.
    const u32 dither = i == 0   ? __byte_perm(word, base, 0x7620)
                       : i == 1 ? __byte_perm(reversed, base, 0x7631)
                       : i == 2 ? __byte_perm(word, base, 0x7631)
                                : __byte_perm(reversed, base, 0x7620);
    const float y = ptx::mul_rn_f32(x[i], 1.0f);  // a NaN becomes the positive one here
    code[i] = stochastic_code(y, bit_cast<float>(dither));
    sign[i] = bit_cast<u32>(y);
  }
  // Bytes with a code each, and junk in their upper halves.
  const u32 codes =
      __byte_perm(__byte_perm(code[0], code[1], 0x0040), __byte_perm(code[2], code[3], 0x0040), 0x5410);
  const u32 signs =
      __byte_perm(__byte_perm(sign[0], sign[1], 0x0073), __byte_perm(sign[2], sign[3], 0x0073), 0x5410);
  const u32 magnitude = codes & 0x0f0f'0f0fu;
  const u32 saturated = magnitude - (magnitude >> 3 & 0x0101'0101u);  // 8, beyond 6, becomes 7
  const u32 nibbles = saturated | (signs >> 4 & 0x0808'0808u);
  return __byte_perm(nibbles | nibbles >> 4, 0, 0x4420);
}

#endif

}  // namespace fourscale::detail
