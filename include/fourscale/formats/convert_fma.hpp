// SPDX-License-Identifier: Apache-2.0
// E2M1 on GPUs that have FP8 conversions but no FP4 ones (sm_89, sm_90). A value is rounded to the grid by
// adding a power of two so large that it leaves the value no more bits; stochastically, random bits are part
// of what is added, and the sum is truncated. E5M2 then holds the result as one more bit than E2M1 has. The
// same bits as portable::encode and portable::encode_stochastic in a third of the instructions; the tests
// hold them equal.
#pragma once

#include "../ptx/arith.hpp"
#include "../ptx/cvt.hpp"

namespace fourscale::detail {

#if FOURSCALE_HAS_CVT_FMA

/// The unit that values are rounded in: E2M1's subnormals are then E5M2's.
inline constexpr float e2m1_unit = 0x1p-14f;

/// A value in units, clamped to 6, and its binade: the power of two below it, at least that of 1, with its
/// sign. The step of the grid is half a binade. A positive NaN becomes 6.
struct on_grid {
  float value, binade;

  explicit FOURSCALE_D on_grid(float in_units) {
    value = ptx::min_xorsign_abs_f32(in_units, 6 * e2m1_unit);
    binade = bit_cast<float>(bit_cast<u32>(ptx::max_xorsign_abs_f32(value, e2m1_unit)) & 0xff80'0000u);
  }
  /// To the nearest: 1.5 * 2^22 binades have half a binade as their last bit.
  FOURSCALE_D float nearest() const {
    constexpr float magic = 1.5f * 0x1p22f;
    return less(magic, __fmaf_rn(binade, magic, value));
  }
  /// By 16 random bits, the low half of the bits of `dither` = 64 + bits * 2^-17: truncated to 2^-16 of a
  /// step, with the random bits added at that place, and truncated again to a step.
  FOURSCALE_D float stochastic(float dither) const {
    return less(0x1p22f + 64.0f, __fmaf_rz(binade, 0x1p22f, __fmaf_rz(binade, dither, value)));
  }

 private:
  /// sum - binades * binade, exactly, and 2^-40 of a binade, which keeps the sign of what became 0 until
  /// E5M2.
  FOURSCALE_D float less(float binades, float sum) const {
    return __fmaf_rn(binade, 0x1p-40f, __fmaf_rn(binade, -binades, sum));
  }
};

/// Eight results to eight nibbles, the first in the lowest.
FOURSCALE_D inline u32 pack_e2m1x8(float const (&r)[8]) {
  // Bytes S000'CCC0: of elements 0, 2, 4, 6 and of 1, 3, 5, 7.
  const u32 even =
      ptx::cvt_rn_satfinite_e5m2x2_f32(r[2], r[0]) | u32{ptx::cvt_rn_satfinite_e5m2x2_f32(r[6], r[4])} << 16;
  const u32 odd =
      ptx::cvt_rn_satfinite_e5m2x2_f32(r[3], r[1]) | u32{ptx::cvt_rn_satfinite_e5m2x2_f32(r[7], r[5])} << 16;
  return (even >> 1 & 0x0707'0707u) | (even >> 4 & 0x0808'0808u) | (odd << 3 & 0x7070'7070u) |
         (odd & 0x8080'8080u);
}

/// Eight values in units to the nearest. NaNs must be positive, as products are.
FOURSCALE_D inline u32 nearest_e2m1x8(float const (&y)[8]) {
  float r[8];
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i) r[i] = on_grid(y[i]).nearest();
  return pack_e2m1x8(r);
}

/// The same, elements 0..3 by the first random word, 4..7 by the second, as dither_bits() says.
FOURSCALE_D inline u32 stochastic_e2m1x8(float const (&y)[8], u32 first, u32 second) {
  constexpr u32 base = 0x4280'0000u;  // 64.0f
  float r[8];
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i) {
    const u32 word = i < 4 ? first : second, reversed = __brev(word);  // bytes r(b0) r(b1) r(b2) r(b3)
    // Elements 0 and 1 see bytes 2 and 0, the others 3 and 1; 1 and 3 in reversed order.
    const u32 dither = i % 4 == 0   ? __byte_perm(word, base, 0x7620)
                       : i % 4 == 1 ? __byte_perm(reversed, base, 0x7631)
                       : i % 4 == 2 ? __byte_perm(word, base, 0x7631)
                                    : __byte_perm(reversed, base, 0x7620);
    r[i] = on_grid(y[i]).stochastic(bit_cast<float>(dither));
  }
  return pack_e2m1x8(r);
}

FOURSCALE_D inline void to_units(float const (&x)[8], float (&y)[8]) {
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i) y[i] = ptx::mul_rn_f32(x[i], e2m1_unit);
}

#endif

}  // namespace fourscale::detail
