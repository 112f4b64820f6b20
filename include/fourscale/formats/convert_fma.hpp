// SPDX-License-Identifier: Apache-2.0
// Encodes E2M1 by additions, for GPUs without FP4 conversions (sm_80 to sm_90) or without stochastic ones
// (sm_120). To nearest: a number is added that is so large that only the bits of the grid remain. The results
// become codes by a conversion to E5M2, which has one mantissa bit more than E2M1, or on sm_80 from the bits
// of the float. Stochastically: the random bits are added to the bits of the float, and the sum is truncated.
// The codes are those of portable::encode and portable::encode_stochastic, in a third of the instructions;
// the tests hold them equal.
#pragma once

#include "../ptx/arith.hpp"
#include "../ptx/cvt.hpp"
#include "e4m3.hpp"

namespace FOURSCALE_NAMESPACE::detail {

/// The unit in which values are rounded to nearest: this float is the value 1 of E2M1. E2M1's subnormals are
/// then E5M2's. On sm_80 the code is read from four bits of a float; half a unit, which stands for 0, has
/// zeros there.
inline constexpr float e2m1_unit = arch::has_cvt_fp8 ? 0x1p-14f : 0x1p-6f;
/// The unit for stochastic rounding. With it, 8 units are the float 1, where mul.sat saturates; all values
/// beyond 6 saturate anyway.
inline constexpr float stochastic_unit = 0x1p-3f;

#if FOURSCALE_DEVICE_PASS

/// y with its magnitude raised to at least a little more than a unit. Half of the power of two of its binade
/// is the step of the grid at y.
FOURSCALE_D inline float grid_anchor(float y) {
  return ptx::max_xorsign_abs_f32(y, (1.0f + 0x1p-20f) * e2m1_unit);
}

/// Rounds y to the grid, for |y| < 7 units; a result of 0 is positive. The last bit of 2^22 * anchor is a
/// step of the grid, so y - 2^22 * anchor is rounded to whole steps. A midpoint has so few bits that 2^22 *
/// anchor is an even number of steps, so it goes to the even neighbour. (Where y is just above a power of
/// two, the difference may also have half-steps, but y is too close to that power of two to round to one.)
/// Adding 2^22 * anchor back is exact.
FOURSCALE_D inline float nearest_on_grid(float y) {
  const float anchor = grid_anchor(y);
  return __fmaf_rn(anchor, 0x1p22f, __fmaf_rn(anchor, -0x1p22f, y));
}

/// The same for y >= 0.
FOURSCALE_D inline float nearest_magnitude_on_grid(float y) {
  const float anchor = fmaxf(y, (1.0f + 0x1p-20f) * e2m1_unit);
  return __fmaf_rn(anchor, 0x1p22f, __fmaf_rn(anchor, -0x1p22f, y));
}

/// y with its magnitude clamped to 6 units; a NaN, which must be positive, becomes 6.
FOURSCALE_D inline float clamped(float y) { return ptx::min_xorsign_abs_f32(y, 6 * e2m1_unit); }

/// `result`; where it is 0, with the sign of y. The code loses the 2^-40 anchors that are added, except for
/// their sign.
FOURSCALE_D inline float with_sign_of_zero(float result, float y) {
  return __fmaf_rn(grid_anchor(y), 0x1p-40f, result);
}

// ---- stochastic rounding, on the bits of a float, where a carry steps into the next binade by itself

/// The word that stochastic_bits() adds for element i of four. Bits 8..23 are the 16 bits that the element
/// sees of the random word, as dither_bits() says: elements 0 and 1 see bytes 2 and 0 of the word, elements 2
/// and 3 see bytes 3 and 1; elements 1 and 3 see them in reversed order. The top byte is what brings the
/// exponent field of a unit to the code of 1.
FOURSCALE_D inline u32 shifted_dither(int i, u32 word, u32 reversed) {
  constexpr u32 unit_field = bit_cast<u32>(stochastic_unit) >> 22, to_code = (2u - unit_field) & 0xfu;
  return __byte_perm(i % 2 == 0 ? word : reversed, to_code << 8, i == 0 || i == 3 ? 0x5204 : 0x5314);
}

/// Returns in bits 24..27 the code of y, 0 to 8 units, rounded by `dither`; 8 where it is carried beyond 6.
/// From 1 unit on, the floats of values one code apart differ by 2^22. Below 1 unit values one code apart
/// differ by half a unit; there (y + unit) / 2 is taken in place of y, because its floats one code apart
/// differ by 2^22 as well. The larger of y and (y + unit) / 2 is always the one to take. The shift by 2
/// brings the lowest bit of the code to bit 24 and the 16 bits below it to where the dither is.
FOURSCALE_D inline u32 stochastic_bits(float y, u32 dither) {
  constexpr float half = 0.5f * stochastic_unit;
  return bit_cast<u32>(fmaxf(__fmaf_rz(y, 0.5f, half), y)) * 4 + dither;
}

/// Packs eight codes from bits 24..27 of `bits` into eight nibbles, the first in the lowest. `signs` has the
/// signs at bit 3 of each nibble.
FOURSCALE_D inline u32 stochastic_nibbles(u32 const (&bits)[8], u32 signs) {
  const u32 even = __byte_perm(__byte_perm(bits[0], bits[2], 0x0073), __byte_perm(bits[4], bits[6], 0x0073),
                               0x5410),
            odd = __byte_perm(__byte_perm(bits[1], bits[3], 0x0073), __byte_perm(bits[5], bits[7], 0x0073),
                              0x5410);
  const u32 codes = ptx::lop3_select_b32(0x0f0f'0f0fu, even, odd << 4);
  const u32 saturated = codes - (codes >> 3 & 0x1111'1111u);  // 8 becomes 7
  return ptx::lop3_select_b32(0x7777'7777u, saturated, signs);
}

// ---- results on the grid, in units, to codes in eight nibbles, the first in the lowest

#if FOURSCALE_HAS_CVT_FP8
/// Eight results as two words of E5M2: `even` has elements 0, 2, 4, 6 and `odd` 1, 3, 5, 7. On the grid such
/// a byte is S000'CCC0, S the sign and CCC the magnitude of the E2M1 code.
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

/// The codes of eight magnitudes. `signs` has their signs at bit 3 of each nibble.
FOURSCALE_D inline u32 grid_nibbles(float const (&r)[8], u32 signs) { return e5m2_words(r).nibbles(signs); }
/// The codes of eight results that have their signs, zeros included.
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
    magnitudes[i] = fabsf(r[i]) < 0.25f * e2m1_unit ? 0.0f : fabsf(r[i]);  // a zero that kept its sign
    signs |= bit_cast<u32>(r[i]) >> 31 << (4 * i + 3);
  }
  return grid_nibbles(magnitudes, signs);
}
#endif

/// Rounds eight values in units to nearest. A NaN must be positive, as the NaN of a product is.
FOURSCALE_D inline u32 nearest_e2m1x8(float const (&y)[8]) {
  float r[8];
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i) r[i] = with_sign_of_zero(nearest_on_grid(clamped(y[i])), clamped(y[i]));
  return grid_nibbles(r);
}

/// Rounds eight magnitudes to nearest, all below 7 units and none NaN. `signs` has their signs.
FOURSCALE_D inline u32 nearest_e2m1x8(float const (&y)[8], u32 signs) {
  float r[8];
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i) r[i] = nearest_magnitude_on_grid(y[i]);
  return grid_nibbles(r, signs);
}

/// Rounds eight magnitudes in stochastic units, none above 8 units and none NaN. Elements 0..3 take the first
/// random word, 4..7 the second.
FOURSCALE_D inline u32 stochastic_e2m1x8(float const (&y)[8], u32 signs, u32 first, u32 second) {
  const u32 words[2] = {first, second}, reversed[2] = {__brev(first), __brev(second)};
  u32 bits[8];
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i)
    bits[i] = stochastic_bits(y[i], shifted_dither(i % 4, words[i / 4], reversed[i / 4]));
  return stochastic_nibbles(bits, signs);
}

/// Rounds any eight values stochastically. A NaN, which must be positive, becomes 6.
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

/// Rounds s >= 0 to E4M3, to nearest; s may be infinity but not NaN. On sm_80 an anchor is added, 2^20 times
/// the power of two below s (2^-6 at least), so that the sum keeps as many bits of s as the code has. The
/// code is the low bits of the sum plus its exponent field; the low bits of the anchor hold the offset
/// between the two.
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
