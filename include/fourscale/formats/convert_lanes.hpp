// SPDX-License-Identifier: Apache-2.0
// encode and decode as one lane of a vector. This is straight-line arithmetic on one value, without a branch,
// a table or a shift by a variable, so that compilers vectorize a plain loop over many values for the CPU
// that they build for. `portable::` is the definition; the tests hold the two equal.
#pragma once

#include "convert_stochastic.hpp"

namespace FOURSCALE_NAMESPACE::lanes {

/// These are functions, because g++ then recognizes minima and maxima. Written inside larger expressions they
/// become branches first, and then masks of vectors.
FOURSCALE_HD constexpr i32 smaller(i32 a, i32 b) { return a < b ? a : b; }
FOURSCALE_HD constexpr i32 larger(i32 a, i32 b) { return a > b ? a : b; }

/// All ones where a < b, for a and b of the same sign.
FOURSCALE_HD constexpr u32 if_less(u32 a, u32 b) { return static_cast<u32>(static_cast<i32>(a - b) >> 31); }

/// Added to the bits of a magnitude, this sets the sign bit of a NaN, and of nothing else.
inline constexpr u32 above_infinity = 0x7fff'ffffu - float_inf_bits;

/// The sign bit of a float with the bits u, cleared for NaN. The sum has that bit clear for a negative NaN,
/// by a carry out of it; a positive NaN has it clear in u.
FOURSCALE_HD constexpr u32 sign_of_number(u32 u) { return u & (u + above_infinity) & 0x8000'0000u; }

/// All ones where `magnitude` is that of a NaN.
FOURSCALE_HD constexpr u32 if_nan(u32 magnitude) {
  return static_cast<u32>(static_cast<i32>(magnitude + above_infinity) >> 31);
}

/// x where x <= FLT_MAX; FLT_MAX for +infinity and NaN.
FOURSCALE_HD constexpr float finite(float x) {
  const u32 u = bit_cast<u32>(x), without_sign_of_nan = (u & 0x7fff'ffffu) | sign_of_number(u);
  return bit_cast<float>(smaller(static_cast<i32>(without_sign_of_nan), float_max_bits));
}

/// A code rounded to nearest even, in the top bits of a word, and its value.
struct nearest_code {
  u32 top;
  float value;  ///< of |x|, rounded; for a NaN that of the largest code
};

/// The bits to be set in the code of a NaN, which encoding has brought to the largest code; 0 for a number.
template <element_format E>
FOURSCALE_HD constexpr u32 nan_code(u32 magnitude) {
  return E::has_nan ? (u32{E::nan_bits} << (32 - E::width)) & if_nan(magnitude) : 0u;
}

/// encode<E>(x). The anchor is 2^(23 - M) times the power of two below |x| (at least E's smallest normal),
/// where E has M mantissa bits. The sum of |x| and the anchor keeps as many bits of |x| as a code has, so it
/// is rounded as the code is. Its low bits hold the mantissa, its exponent field the exponent; added, they
/// are the code. The low bits of the anchor hold the offset between the two.
template <element_format E>
FOURSCALE_HD constexpr nearest_code encode_by_anchor(float x) {
  constexpr u32 spare = 23 - E::mantissa_bits, least_exponent = 128 - E::bias, unused = 32 - E::width;
  constexpr u32 up =
      (spare << 23) | ((0u - ((least_exponent + spare) << E::mantissa_bits)) & magnitude_mask<E>);
  constexpr i32 largest = bit_cast<i32>(decode(E{E::max_bits})), least = least_exponent << 23;
  const u32 u = bit_cast<u32>(x), magnitude = u & 0x7fff'ffffu;
  const i32 clamped = smaller(static_cast<i32>(magnitude), largest);
  const i32 above_least = larger(clamped, least);
  const float anchor = bit_cast<float>((static_cast<u32>(above_least) & float_inf_bits) + up);
  const float sum = bit_cast<float>(clamped) + anchor;
  const u32 code = bit_cast<u32>(sum) + (bit_cast<u32>(sum) >> spare);
  u32 top = ((code << unused) & 0x7fff'ffffu) | sign_of_number(u);
  if constexpr (E::has_nan) top |= nan_code<E>(magnitude);
  return {top, sum - anchor};
}

/// The same code, for a format with few binades and no NaN. The magnitude as a function of the code is convex
/// and consists of lines, one for each binade. So the code is the least that the lines give: line e gives |x|
/// in steps of binade e, plus the number of codes below these steps. Adding 2^23 (`whole`) rounds the result
/// to an integer and holds it in the low bits of the sum.
template <element_format E>
requires(E::exponent_bits <= 2 && !E::has_nan) FOURSCALE_HD constexpr u32 encode_by_lines(float x) {
  constexpr float whole = 0x1p23f, units = 1.0f / decode(E{1});
  const u32 u = bit_cast<u32>(x);
  const float magnitude = bit_cast<float>(u & 0x7fff'ffffu);
  i32 code = bit_cast<i32>(whole + E::max_bits);  // below the bits of infinity and of a NaN
  FOURSCALE_UNROLL_ON_HOST
  for (u32 e = 0; e < (1u << E::exponent_bits) - 1; ++e) {
    const float below = whole + static_cast<float>(e << E::mantissa_bits);
    const float line = magnitude * (units / static_cast<float>(1 << e)) + below;  // an exact product
    code = smaller(code, bit_cast<i32>(line));
  }
  return (static_cast<u32>(code) << (32 - E::width)) | sign_of_number(u);
}

/// portable::encode<E>(x), in the top bits of a word and nothing below.
template <element_format E>
FOURSCALE_HD constexpr u32 encode_nearest(float x) {
  if constexpr (E::exponent_bits <= 2 && !E::has_nan)
    return encode_by_lines<E>(x);
  else
    return encode_by_anchor<E>(x).top;
}

/// portable::encode_stochastic<E>(x, dither), in the top bits of a word and nothing below. In E's normal
/// range the bits of a float are the code with a longer fraction. Below that range |x| is counted in units of
/// 2^-16 of a code, by an exact product that is then truncated.
template <element_format E>
FOURSCALE_HD constexpr u32 encode_stochastic(float x, u32 dither) {
  constexpr u32 spare = 23 - E::mantissa_bits, first_normal = static_cast<u32>(128 - E::bias) << 23;
  constexpr u32 largest = bit_cast<u32>(decode(E{E::max_bits}));
  constexpr float units = 65536.0f / decode(E{1});
  const u32 u = bit_cast<u32>(x), magnitude = u & 0x7fff'ffffu;
  const i32 clamped = smaller(static_cast<i32>(magnitude), largest), below = smaller(clamped, first_normal);
  const u32 normal =
      (static_cast<u32>(clamped) >> (spare - 16)) - ((first_normal - (1u << 23)) >> (spare - 16));
  const u32 subnormal = static_cast<u32>(static_cast<i32>(bit_cast<float>(below) * units));
  const u32 is_below = if_less(static_cast<u32>(clamped), first_normal);
  const u32 code = ((subnormal & is_below) | (normal & ~is_below)) + dither;
  u32 top = ((code >> 16 << (32 - E::width)) & 0x7fff'ffffu) | sign_of_number(u);
  if constexpr (E::has_nan) top |= nan_code<E>(magnitude);
  return top;
}

/// portable::decode() of the E in the low bits of a word; the bits above it are ignored. A subnormal is read
/// with a leading one, which it lacks and which is then subtracted.
template <element_format E>
FOURSCALE_HD constexpr float decode_bits(u32 code) {
  constexpr u32 spare = 23 - E::mantissa_bits, first_normal = static_cast<u32>(128 - E::bias) << 23;
  const u32 magnitude = code & magnitude_mask<E>, sign = (code << (32 - E::width)) & 0x8000'0000u;
  const u32 is_below = if_less(magnitude, 1u << E::mantissa_bits);
  const u32 as_normal = (magnitude << spare) + (first_normal - (1u << 23)) + (is_below & (1u << 23));
  u32 bits = bit_cast<u32>(bit_cast<float>(as_normal) - bit_cast<float>(is_below & first_normal));
  if constexpr (E::has_infinity) bits |= if_less(u32{E::max_bits}, magnitude) & float_inf_bits;
  if constexpr (E::has_nan) bits |= if_less(u32{E::max_bits} + E::has_infinity, magnitude) & 0x7fff'ffffu;
  return bit_cast<float>(bits | sign);
}

/// fourscale::decode() of a block's scale.
template <scale_format E>
FOURSCALE_HD constexpr float decode_scale(E scale) {
  if constexpr (element_format<E>)
    return decode_bits<E>(scale.bits);
  else if constexpr (format<E>)  // 2^-127 is a subnormal float, code 255 a NaN
    return bit_cast<float>(u32{scale.bits} << 23 | (if_less(scale.bits, 1u) & 0x0040'0000u) |
                           (if_less(254u, scale.bits) & 0x7fff'ffffu));
  else
    return decode(scale);
}

}  // namespace FOURSCALE_NAMESPACE::lanes
