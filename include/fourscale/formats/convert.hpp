// SPDX-License-Identifier: Apache-2.0
// encode and decode: a float to a code and back, one value or a few packed ones. `portable::` is the
// definition. It is constexpr integer arithmetic (and exact products), independent of the rounding mode, of
// flush-to-zero and of compiler flags. `encode` and `decode` outside of it are the same functions, but use
// the cvt instruction where the pass has it; the tests hold the two equal.
#pragma once

#include "../ptx/cvt.hpp"
#include "convert_fma.hpp"
#include "e8m0.hpp"
#include "packed.hpp"

namespace FOURSCALE_NAMESPACE {

namespace portable {

/// How a magnitude between two codes is rounded.
enum class direction { nearest_even, toward_zero, away_from_zero };

/// Bits of float(2^e), for e in [-126, 127].
FOURSCALE_HD constexpr u32 power_of_two_bits(int e) { return static_cast<u32>(e + 127) << 23; }

/// `significand` without its low `drop` bits, rounded in direction D.
template <direction D>
FOURSCALE_HD constexpr u32 drop_bits(u32 significand, u32 drop) {
  const u32 unit = 1u << drop;
  if constexpr (D == direction::nearest_even)
    return (significand + unit / 2 - 1 + ((significand >> drop) & 1u)) >> drop;
  else if constexpr (D == direction::away_from_zero)
    return (significand + unit - 1) >> drop;
  else
    return significand >> drop;
}

/// The value of a code. E5M2 and E4M3 NaNs become a quiet NaN; unused high bits of a 4- or 6-bit code are
/// ignored.
template <element_format F>
FOURSCALE_HD constexpr float decode(F code) {
  constexpr int spare = 23 - F::mantissa_bits;
  const u32 magnitude = code.bits & magnitude_mask<F>;
  const u32 sign = ((code.bits >> (F::width - 1)) & 1u) << 31;
  if constexpr (same_type<F, e2m1>) {  // one subnormal and zero: no branch that may be mispredicted
    const u32 as_normal = (magnitude << spare) + (126u << 23);
    const u32 kept = 0u - static_cast<u32>(magnitude != 0);
    return bit_cast<float>(sign | ((as_normal - (static_cast<u32>(magnitude == 1) << spare)) & kept));
  }
  u32 bits = (magnitude << spare) + (static_cast<u32>(127 - F::bias) << 23);
  // A subnormal is an integer times the smallest one. The product is exact and needs no subnormal float.
  constexpr float smallest = bit_cast<float>(power_of_two_bits(subnormal_exponent<F>));
  if (magnitude < (1u << F::mantissa_bits)) bits = bit_cast<u32>(static_cast<float>(magnitude) * smallest);
  if constexpr (F::has_nan)
    if (magnitude > F::max_bits)
      bits = F::has_infinity && magnitude == F::max_bits + 1u ? float_inf_bits : 0x7fff'ffffu;
  return bit_cast<float>(sign | bits);
}

/// 2^(bits - 127); NaN for 0xFF.
FOURSCALE_HD constexpr float decode(e8m0 code) {
  if (code.bits == 0) return bit_cast<float>(0x0040'0000u);  // 2^-127, a subnormal float
  return bit_cast<float>(code.bits == 0xff ? 0x7fff'ffffu : u32{code.bits} << 23);
}

/// The code of |x|, for `magnitude` = the bits of |x|, not a NaN; saturates at the largest finite code.
template <element_format F, direction D>
FOURSCALE_HD constexpr u32 encode_magnitude(u32 magnitude) {
  constexpr u32 spare = 23 - F::mantissa_bits;
  constexpr u32 first_normal =
      static_cast<u32>(128 - F::bias);  // exponent field of F's smallest normal value
  constexpr u32 largest = bit_cast<u32>(decode(F{F::max_bits}));
  if (magnitude >= largest) return F::max_bits;
  const u32 exponent = magnitude >> 23;
  if (exponent >= first_normal)  // a carry out of the mantissa steps into the next binade by itself
    return drop_bits<D>(magnitude, spare) - ((first_normal - 1) << F::mantissa_bits);
  // Subnormal in F: each binade further down drops one more bit. From 25 dropped bits on, all that is left is
  // whether |x| was zero.
  const u32 significand = exponent ? (magnitude & 0x7f'ffffu) | 0x80'0000u : magnitude;
  const u32 drop = spare + first_normal - (exponent ? exponent : 1u);
  return drop_bits<D>(significand, drop < 25 ? drop : 25u);
}

/// Rounds to nearest even by counting the midpoints below |x|. That is fastest for formats with so few codes:
/// it has no branch and no variable shift, so it vectorizes on any CPU. A midpoint itself rounds to the even
/// one of its two neighbours.
template <element_format F>
FOURSCALE_HD constexpr u32 count_midpoints(u32 magnitude) {
  u32 code = 0;
  FOURSCALE_UNROLL_ON_HOST
  for (u32 k = 0; k < F::max_bits; ++k) {
    const float below = decode(F{static_cast<u8>(k)}), above = decode(F{static_cast<u8>(k + 1)});
    const u32 midpoint = bit_cast<u32>((below + above) * 0.5f);  // exact: small multiples of a power of two
    code += static_cast<u32>(static_cast<i32>(magnitude) >= static_cast<i32>(midpoint + (k % 2 == 0)));
  }
  return code;
}

/// The code nearest to x, ties to even. The comment of the format says what NaN, infinity and -0 give.
template <element_format F>
FOURSCALE_HD constexpr F encode(float x) {
  const u32 u = bit_cast<u32>(x), magnitude = u & 0x7fff'ffffu;
  const u32 sign = (u >> 31) << (F::width - 1);
  if constexpr (F::width == 4)  // NaN passes every midpoint, so it arrives at nan_bits = max_bits by itself
    return F{static_cast<u8>(count_midpoints<F>(magnitude) | (magnitude > float_inf_bits ? 0u : sign))};
  else if (magnitude > float_inf_bits)
    return F{F::nan_bits};
  else
    return F{static_cast<u8>(encode_magnitude<F, direction::nearest_even>(magnitude) | sign)};
}

/// The power of two for |x|, rounded in direction D: floor(log2), ceil(log2), or the nearer one (ties to the
/// even code).
template <direction D>
FOURSCALE_HD constexpr e8m0 encode_power_of_two(float x) {
  const u32 magnitude = bit_cast<u32>(x) & 0x7fff'ffffu;
  if (magnitude > float_inf_bits) return {e8m0::nan_bits};
  // Below 2^-126 the float is subnormal and its codes, 0 and 1, are 2^-127 = 0x400000 and 2^-126 = 0x800000.
  u32 code = drop_bits<D>(magnitude, 23);
  if constexpr (D == direction::nearest_even)
    if (magnitude < 0x80'0000u) code = magnitude > 0x60'0000u;
  if constexpr (D == direction::away_from_zero)
    if (magnitude <= 0x40'0000u) code = 0;
  return {static_cast<u8>(code < e8m0::max_bits ? code : e8m0::max_bits)};
}

}  // namespace portable

/// The code of F nearest to x, ties to even, saturating. The comment of the format says what NaN, infinity
/// and -0 give. For e8m0: the power of two nearest to |x|, ties to the even code.
template <format F>
FOURSCALE_HD constexpr F encode(float x);

/// The smallest code that is not below x (toward +infinity), saturating at the largest. For e8m0: the
/// smallest that is not below |x|.
template <format F>
FOURSCALE_HD constexpr F encode_up(float x) {
  using portable::direction;
  if constexpr (!F::is_signed) {
    if constexpr (arch::has_cvt_narrow)
      if (!is_constant_evaluated()) return {static_cast<u8>(ptx::cvt_rp_satfinite_ue8m0x2_f32(0.0f, x))};
    return portable::encode_power_of_two<direction::away_from_zero>(x);
  } else {
    const u32 u = bit_cast<u32>(x), magnitude = u & 0x7fff'ffffu, sign = u >> 31;
    if (magnitude > float_inf_bits) return F{F::nan_bits};
    const u32 code = sign ? portable::encode_magnitude<F, direction::toward_zero>(magnitude)
                          : portable::encode_magnitude<F, direction::away_from_zero>(magnitude);
    return F{static_cast<u8>(code | (sign << (F::width - 1)))};
  }
}

/// The largest code that is not above x (toward -infinity), saturating. For e8m0: floor(log2|x|).
template <format F>
FOURSCALE_HD constexpr F encode_down(float x) {
  if constexpr (!F::is_signed) {
    if constexpr (arch::has_cvt_narrow)
      if (!is_constant_evaluated()) return {static_cast<u8>(ptx::cvt_rz_satfinite_ue8m0x2_f32(0.0f, x))};
    return portable::encode_power_of_two<portable::direction::toward_zero>(x);
  } else {
    const u32 flipped = bit_cast<u32>(x) ^ 0x8000'0000u;  // down(x) = -up(-x)
    const F up = encode_up<F>(bit_cast<float>(flipped));
    if ((flipped & 0x7fff'ffffu) > float_inf_bits) return up;
    return F{static_cast<u8>(up.bits ^ (1u << (F::width - 1)))};
  }
}

/// Encodes two values as x2, the first in the low bits. This is the form that the cvt instructions have, so
/// all other forms are built from it.
template <element_format F>
FOURSCALE_HD constexpr packed<F, 2> encode(float lo, float hi) {
  if (!is_constant_evaluated()) {
    if constexpr (same_type<F, e4m3> && arch::has_cvt_fp8) return {ptx::cvt_rn_satfinite_e4m3x2_f32(hi, lo)};
    if constexpr (same_type<F, e5m2> && arch::has_cvt_fp8) return {ptx::cvt_rn_satfinite_e5m2x2_f32(hi, lo)};
    if constexpr (same_type<F, e2m1> && arch::has_cvt_narrow)
      return {static_cast<u8>(ptx::cvt_rn_satfinite_e2m1x2_f32(hi, lo))};
    if constexpr (F::width == 6 && arch::has_cvt_narrow) {
      const u32 d = same_type<F, e2m3> ? ptx::cvt_rn_satfinite_e2m3x2_f32(hi, lo)
                                       : ptx::cvt_rn_satfinite_e3m2x2_f32(hi, lo);
      return {static_cast<u16>((d & 0x3fu) | (d >> 8 << 6))};  // from one code in a byte to adjacent codes
    }
  }
  using word = typename packed<F, 2>::word;
  return {static_cast<word>(portable::encode<F>(lo).bits | (u32{portable::encode<F>(hi).bits} << F::width))};
}

template <format F>
FOURSCALE_HD constexpr F encode(float x) {
  if constexpr (!F::is_signed)
    return portable::encode_power_of_two<portable::direction::nearest_even>(x);
  else if constexpr (F::width == 8 ? arch::has_cvt_fp8 : arch::has_cvt_narrow)
    return encode<F>(x, 0.0f).get(0);
  else
    return portable::encode<F>(x);
}

/// Encodes N values as packed<F, N>, x[0] in the low bits. N is even.
template <element_format F, int N>
FOURSCALE_HD constexpr packed<F, N> encode(float const (&x)[N]) {
  static_assert(N % 2 == 0, "Values are packed in pairs.");
  if constexpr (same_type<F, e2m1> && N == 8 && arch::has_cvt_narrow)
    if (!is_constant_evaluated()) return {ptx::cvt_rn_satfinite_e2m1x8_f32(x)};
#if FOURSCALE_HAS_CVT_FMA
  if constexpr (same_type<F, e2m1> && N == 8)
    if (!is_constant_evaluated()) {
      float y[8];
      detail::to_units(x, y);
      return {detail::nearest_e2m1x8(y)};
    }
  if constexpr (same_type<F, e2m1> && N == 4)
    if (!is_constant_evaluated())
      return {static_cast<u16>(encode<F>({x[0], x[1], x[2], x[3], 0.0f, 0.0f, 0.0f, 0.0f}).bits)};
#endif
  using word = typename packed<F, N>::word;
  word bits = 0;
  FOURSCALE_UNROLL
  for (int i = 0; i < N; i += 2)
    bits = static_cast<word>(
        bits | static_cast<word>(static_cast<word>(encode<F>(x[i], x[i + 1]).bits) << (i * F::width)));
  return {bits};
}

/// The value of a code, exactly. (f32.hpp and no_scale.hpp have their own decode.)
template <format F>
FOURSCALE_HD constexpr float decode(F code) {
#if FOURSCALE_HAS_CVT_FP8
  if constexpr (same_type<F, e4m3> || same_type<F, e5m2>)
    if (!is_constant_evaluated()) {
      const u32 pair =
          same_type<F, e4m3> ? ptx::cvt_rn_f16x2_e4m3x2(code.bits) : ptx::cvt_rn_f16x2_e5m2x2(code.bits);
      return ptx::cvt_f32_f16(static_cast<u16>(pair));
    }
#endif
  return portable::decode(code);
}

/// The N values of a packed word.
template <element_format F, int N>
FOURSCALE_HD constexpr void decode(packed<F, N> codes, float (&x)[N]) {
#if FOURSCALE_HAS_CVT_FP8
  if constexpr (N % 2 == 0 && (same_type<F, e4m3> || same_type<F, e5m2>))
    if (!is_constant_evaluated()) {
      FOURSCALE_UNROLL
      for (int i = 0; i < N; i += 2) {
        const auto two = static_cast<u16>(codes.bits >> (8 * i));
        const u32 pair = same_type<F, e4m3> ? ptx::cvt_rn_f16x2_e4m3x2(two) : ptx::cvt_rn_f16x2_e5m2x2(two);
        x[i] = ptx::cvt_f32_f16(static_cast<u16>(pair));
        x[i + 1] = ptx::cvt_f32_f16(static_cast<u16>(pair >> 16));
      }
      return;
    }
#endif
  FOURSCALE_UNROLL
  for (int i = 0; i < N; ++i) x[i] = decode(codes.get(i));
}

}  // namespace FOURSCALE_NAMESPACE
