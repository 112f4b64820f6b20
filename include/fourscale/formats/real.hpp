// SPDX-License-Identifier: Apache-2.0
// The types that matrices are quantized from and dequantized to: float, bf16 and fp16. bf16 and fp16 are bare
// bits, so that the core needs no CUDA header; interop/cuda_fp.hpp adds the toolkit's __nv_bfloat16 and
// __half.
#pragma once

#include "../ptx/cvt.hpp"

namespace FOURSCALE_NAMESPACE {

/// bfloat16: the upper half of a binary32.
struct bf16 {
  u16 bits;
  friend FOURSCALE_H constexpr bool operator==(bf16, bf16) = default;
};

/// IEEE 754 binary16.
struct fp16 {
  u16 bits;
  friend FOURSCALE_H constexpr bool operator==(fp16, fp16) = default;
};

/// How a type converts to and from float. To use a type of your own in a matrix_view, specialise this with
/// `static float to_float(T)`, exact, and `static T from_float(float)`, rounding to nearest even. If the type
/// has the bits of bf16 or fp16, add `using same_bits = bf16` (or fp16), so that loops and kernels read it as
/// such.
template <class T>
struct real_traits;

template <>
struct real_traits<float> {
  FOURSCALE_HD static constexpr float to_float(float x) { return x; }
  FOURSCALE_HD static constexpr float from_float(float x) { return x; }
};

template <>
struct real_traits<bf16> {
  FOURSCALE_HD static constexpr float to_float(bf16 x) { return bit_cast<float>(u32{x.bits} << 16); }

  /// To nearest even; overflow gives infinity, every NaN gives 0x7FFF (as cvt.rn.bf16.f32 does).
  FOURSCALE_HD static constexpr bf16 from_float(float x) {
#if FOURSCALE_DEVICE_PASS >= 800
    if (!is_constant_evaluated()) return {static_cast<u16>(ptx::cvt_rn_bf16x2_f32(0.0f, x))};
#endif
    const u32 u = bit_cast<u32>(x);
    if ((u & 0x7fff'ffffu) > float_inf_bits) return {0x7fff};
    return {static_cast<u16>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
  }
};

template <>
struct real_traits<fp16> {
  FOURSCALE_HD static constexpr float to_float(fp16 x) {
#if FOURSCALE_DEVICE_PASS
    if (!is_constant_evaluated()) return ptx::cvt_f32_f16(x.bits);
#endif
    const u32 sign = (x.bits & 0x8000u) << 16, magnitude = x.bits & 0x7fffu;
    // Rebias by 127 - 15. A subnormal is read with a leading one, 2^-14, which it lacks and which is then
    // subtracted. This takes no branch, so that loops on a CPU vectorize.
    const u32 is_below = magnitude < 0x0400u, first_normal = 113u << 23;
    const float number = bit_cast<float>((magnitude << 13) + ((112u + is_below) << 23)) -
                         bit_cast<float>((0u - is_below) & first_normal);
    const u32 if_not_finite = 0u - static_cast<u32>(magnitude >= 0x7c00u);
    return bit_cast<float>(sign | bit_cast<u32>(number) | (if_not_finite & float_inf_bits));
  }

  /// To nearest even; overflow gives infinity, every NaN gives 0x7FFF (as cvt.rn.f16.f32 does).
  FOURSCALE_HD static constexpr fp16 from_float(float x) {
#if FOURSCALE_DEVICE_PASS >= 800
    if (!is_constant_evaluated()) return {static_cast<u16>(ptx::cvt_rn_f16x2_f32(0.0f, x))};
#endif
    const u32 u = bit_cast<u32>(x), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fff'ffffu;
    if (magnitude > float_inf_bits) return {0x7fff};
    if (magnitude >= 0x4780'0000u) return {static_cast<u16>(sign | 0x7c00u)};  // 65536 and above
    const u32 exponent = magnitude >> 23;
    const u32 significand = exponent ? (magnitude & 0x7f'ffffu) | 0x80'0000u : magnitude;
    // Normal results drop 13 bits. Below 2^-14 each binade drops one more, until nothing is left.
    const u32 drop = exponent >= 113 ? 13 : (exponent >= 102 ? 126 - exponent : 25);
    const u32 rounded = (significand + (1u << (drop - 1)) - 1 + ((significand >> drop) & 1u)) >> drop;
    return {static_cast<u16>(sign | (exponent >= 113 ? rounded + ((exponent - 113) << 10) : rounded))};
  }
};

/// A type that a matrix may hold.
template <class T>
concept real = requires(T x) {
  real_traits<T>::from_float(real_traits<T>::to_float(x));
};

/// The value of x, exactly.
template <real T>
FOURSCALE_HD constexpr float to_float(T x) {
  return real_traits<T>::to_float(x);
}

/// x rounded to T, to nearest even.
template <real T>
FOURSCALE_HD constexpr T from_float(float x) {
  return real_traits<T>::from_float(x);
}

/// Two values rounded to a 16-bit T, to nearest even, as one word: `hi` in its upper half, `lo` in its lower.
template <real T>
FOURSCALE_HD constexpr u32 pair_from_floats(float hi, float lo) {
  static_assert(sizeof(T) == 2);
#if FOURSCALE_DEVICE_PASS >= 800  // one instruction for both
  if constexpr (same_type<T, bf16>)
    if (!is_constant_evaluated()) return ptx::cvt_rn_bf16x2_f32(hi, lo);
#endif
  return u32{bit_cast<u16>(from_float<T>(hi))} << 16 | bit_cast<u16>(from_float<T>(lo));
}

/// The largest finite value of T, as a float: 65504 for fp16. For a type with a range beyond float's,
/// FLT_MAX.
template <real T>
FOURSCALE_HD constexpr float largest_real() {
  const T most = from_float<T>(float_max);
  if ((bit_cast<u32>(to_float(most)) & 0x7fff'ffffu) < float_inf_bits) return to_float(most);
  using bits = uint_t<8 * static_cast<int>(sizeof(T))>;  // infinity or NaN: take the code below it
  return to_float(bit_cast<T>(static_cast<bits>(bit_cast<bits>(most) - 1)));
}

}  // namespace FOURSCALE_NAMESPACE
