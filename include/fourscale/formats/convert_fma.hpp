// SPDX-License-Identifier: Apache-2.0
// E2M1 by additions, for GPUs without FP4 conversions (sm_80 to sm_90) or without stochastic ones (sm_120). A
// value is rounded to the grid by adding a number so large that only the bits of the grid remain;
// stochastically, random bits are part of what is added, and the sum is truncated. The result becomes codes
// by a conversion to E5M2, which has one more bit than E2M1, or on sm_80 from the bits of the float. The same
// bits as portable::encode and portable::encode_stochastic in a third of the instructions; the tests hold
// them equal.
#pragma once

#include "../ptx/arith.hpp"
#include "../ptx/cvt.hpp"
#include "e4m3.hpp"

namespace FOURSCALE_NAMESPACE::detail {

/// The unit that values are rounded to nearest in. E2M1's subnormals are then E5M2's; on sm_80 codes are
/// taken from a float whose exponent field leaves their four bits 0.
inline constexpr float e2m1_unit = arch::has_cvt_fp8 ? 0x1p-14f : 0x1p-6f;
/// The unit for stochastic rounding, so that 8 units, which saturate like all beyond 6, are 1.
inline constexpr float stochastic_unit = 0x1p-3f;

#if FOURSCALE_DEVICE_PASS

/// y, at least a little more than a unit, with its sign. Half of its binade is the step of the grid at y.
FOURSCALE_D inline float grid_anchor(float y) {
  return ptx::max_xorsign_abs_f32(y, (1.0f + 0x1p-20f) * e2m1_unit);
}

/// y, |y| < 7 units, rounded to the grid; a result of 0 is positive. The last bit of 2^22 anchors is a step
/// of the grid, so y less that is rounded to steps, and a midpoint, having few bits itself, to the even one.
/// (Where y is just above a power of two the difference has half-steps as well, but y is too close to it to
/// round to one.) Adding the anchors back is exact.
FOURSCALE_D inline float nearest_on_grid(float y) {
  const float anchor = grid_anchor(y);
  return __fmaf_rn(anchor, 0x1p22f, __fmaf_rn(anchor, -0x1p22f, y));
}

/// The same of a magnitude.
FOURSCALE_D inline float nearest_magnitude_on_grid(float y) {
  const float anchor = fmaxf(y, (1.0f + 0x1p-20f) * e2m1_unit);
  return __fmaf_rn(anchor, 0x1p22f, __fmaf_rn(anchor, -0x1p22f, y));
}

/// y with its magnitude clamped to 6 units; a NaN, which must be positive, becomes 6.
FOURSCALE_D inline float clamped(float y) { return ptx::min_xorsign_abs_f32(y, 6 * e2m1_unit); }

/// A result of 0 with the sign of y: 2^-40 of it is lost in a code, but for its sign.
FOURSCALE_D inline float with_sign_of_zero(float result, float y) {
  return __fmaf_rn(grid_anchor(y), 0x1p-40f, result);
}

// ---- stochastically: in the bits of a float, where a carry steps into the next binade by itself

/// What stochastic_bits() adds for element i of four: the 16 bits that it sees of their random word, as
/// dither_bits() says, times 2^8, and in the byte above what brings a unit's exponent field to its code.
/// Elements 0 and 1 see bytes 2 and 0, the others 3 and 1; 1 and 3 in reversed order.
FOURSCALE_D inline u32 shifted_dither(int i, u32 word, u32 reversed) {
  constexpr u32 unit_field = bit_cast<u32>(stochastic_unit) >> 22, to_code = (2u - unit_field) & 0xfu;
  return __byte_perm(i % 2 == 0 ? word : reversed, to_code << 8, i == 0 || i == 3 ? 0x5204 : 0x5314);
}

/// Bits 24..27: the code of y, 0 to 8 units, rounded by `dither`; 8 where it is carried beyond 6. From 1
/// unit on the floats of y that are one code apart differ by 2^22. Below they are half a unit apart, as y
/// plus a unit, halved, is in its binade; which of the two it is, is the larger. The code's bit and the 16
/// below it are brought to bit 24, where the dither is added to them.
FOURSCALE_D inline u32 stochastic_bits(float y, u32 dither) {
  constexpr float half = 0.5f * stochastic_unit;
  return bit_cast<u32>(fmaxf(__fmaf_rz(y, 0.5f, half), y)) * 4 + dither;
}

/// Eight codes to eight nibbles, the first in the lowest, with the signs at bit 3 of each nibble.
FOURSCALE_D inline u32 stochastic_nibbles(u32 const (&bits)[8], u32 signs) {
  const u32 even = __byte_perm(__byte_perm(bits[0], bits[2], 0x0073), __byte_perm(bits[4], bits[6], 0x0073),
                               0x5410),
            odd = __byte_perm(__byte_perm(bits[1], bits[3], 0x0073), __byte_perm(bits[5], bits[7], 0x0073),
                              0x5410);
  const u32 codes = ptx::lop3_select_b32(0x0f0f'0f0fu, even, odd << 4);
  const u32 saturated = codes - (codes >> 3 & 0x1111'1111u);  // 8 becomes 7
  return ptx::lop3_select_b32(0x7777'7777u, saturated, signs);
}

// ---- results on the grid, in units, to eight nibbles, the first in the lowest

#if FOURSCALE_HAS_CVT_FP8
/// Eight results as two words of E5M2, bytes S000'CCC0: of elements 0, 2, 4, 6 and of 1, 3, 5, 7.
struct e5m2_words {
  u32 even, odd;

  explicit FOURSCALE_D e5m2_words(float const (&r)[8])
      : even(ptx::cvt_rn_satfinite_e5m2x2_f32(r[2], r[0]) | u32{ptx::cvt_rn_satfinite_e5m2x2_f32(r[6], r[4])}
                                                                << 16),
        odd(ptx::cvt_rn_satfinite_e5m2x2_f32(r[3], r[1]) | u32{ptx::cvt_rn_satfinite_e5m2x2_f32(r[7], r[5])}
                                                               << 16) {}

  FOURSCALE_D u32 nibbles() const {
    const u32 codes = (even >> 1 & 0x0f0f'0f0fu) | (odd << 3 & 0xf0f0'f0f0u),
              signs = (even >> 4 & 0x0f0f'0f0fu) | (odd & 0xf0f0'f0f0u);
    return (codes & 0x7777'7777u) | (signs & 0x8888'8888u);
  }
  FOURSCALE_D u32 nibbles(u32 signs) const {
    return ptx::lop3_select_b32(0x7777'7777u, (odd * 16 + even) >> 1, signs);
  }
};

/// Magnitudes, with the signs at bit 3 of each nibble.
FOURSCALE_D inline u32 grid_nibbles(float const (&r)[8], u32 signs) { return e5m2_words(r).nibbles(signs); }
/// Results with signs, those of zeros included.
FOURSCALE_D inline u32 grid_nibbles(float const (&r)[8]) { return e5m2_words(r).nibbles(); }
#else
FOURSCALE_D inline u32 grid_nibbles(float const (&r)[8], u32 signs) {
  u32 bits[8];
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i)
    bits[i] = bit_cast<u32>(fmaxf(__fmaf_rn(r[i], 0.5f, 0.5f * e2m1_unit), r[i])) * 4;
  return stochastic_nibbles(bits, signs);
}
FOURSCALE_D inline u32 grid_nibbles(float const (&r)[8]) {
  float magnitudes[8];
  u32 signs = 0;
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i) {
    magnitudes[i] = fabsf(r[i]) < 0.25f * e2m1_unit ? 0.0f : fabsf(r[i]);  // what is left of a zero's sign
    signs |= bit_cast<u32>(r[i]) >> 31 << (4 * i + 3);
  }
  return grid_nibbles(magnitudes, signs);
}
#endif

/// Eight values in units to the nearest. NaNs must be positive, as products are.
FOURSCALE_D inline u32 nearest_e2m1x8(float const (&y)[8]) {
  float r[8];
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i) r[i] = with_sign_of_zero(nearest_on_grid(clamped(y[i])), clamped(y[i]));
  return grid_nibbles(r);
}

/// Eight magnitudes below 7 units, none NaN, with the signs from elsewhere.
FOURSCALE_D inline u32 nearest_e2m1x8(float const (&y)[8], u32 signs) {
  float r[8];
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i) r[i] = nearest_magnitude_on_grid(y[i]);
  return grid_nibbles(r, signs);
}

/// Eight magnitudes in stochastic units, none more than 8 units or NaN: elements 0..3 by the first random
/// word, 4..7 by the second.
FOURSCALE_D inline u32 stochastic_e2m1x8(float const (&y)[8], u32 signs, u32 first, u32 second) {
  const u32 words[2] = {first, second}, reversed[2] = {__brev(first), __brev(second)};
  u32 bits[8];
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i)
    bits[i] = stochastic_bits(y[i], shifted_dither(i % 4, words[i / 4], reversed[i / 4]));
  return stochastic_nibbles(bits, signs);
}

/// Any eight values. A NaN, which must be positive, becomes 6.
FOURSCALE_D inline u32 stochastic_e2m1x8(float const (&x)[8], u32 first, u32 second) {
  float y[8];
  u32 signs = 0;
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i) {
    const float scaled = ptx::mul_rn_f32(x[i], stochastic_unit);
    y[i] = fminf(bit_cast<float>(bit_cast<u32>(scaled) & 0x7fff'ffffu), 6 * stochastic_unit);
    signs |= bit_cast<u32>(scaled) >> 31 << (4 * i + 3);
  }
  return stochastic_e2m1x8(y, signs, first, second);
}

FOURSCALE_D inline void to_units(float const (&x)[8], float (&y)[8]) {
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i) y[i] = ptx::mul_rn_f32(x[i], e2m1_unit);
}

// ---- E4M3, for a scale

/// A scale as stored, and its value.
struct nearest_scale {
  e4m3 code;
  float value;
};

/// s >= 0, infinity included, no NaN, to E4M3. On sm_80 by a sum with a power of two that leaves s as many
/// bits as the code has, and puts the code's exponent into its low bits.
FOURSCALE_D inline nearest_scale nearest_e4m3(float s) {
#if FOURSCALE_HAS_CVT_FP8
  const u16 pair = ptx::cvt_rn_satfinite_e4m3x2_f32(0.0f, s);
  return {{static_cast<u8>(pair)}, ptx::cvt_f32_f16(static_cast<u16>(ptx::cvt_rn_f16x2_e4m3x2(pair)))};
#else
  constexpr u32 spare = 20, least_exponent = 121;
  constexpr u32 up = (spare << 23) | ((0u - ((least_exponent + spare) << 3)) & 0x7fu);
  const float clamped_s = fminf(s, 448.0f), above_least = fmaxf(clamped_s, 0x1p-6f);
  const float anchor = bit_cast<float>((bit_cast<u32>(above_least) & float_inf_bits) + up);
  const float sum = __fadd_rn(clamped_s, anchor);
  const u32 code = (bit_cast<u32>(sum) + (bit_cast<u32>(sum) >> spare)) & 0x7fu;
  return {{static_cast<u8>(code)}, __fadd_rn(sum, -anchor)};
#endif
}

#endif

}  // namespace FOURSCALE_NAMESPACE::detail
