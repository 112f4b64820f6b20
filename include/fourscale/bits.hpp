// SPDX-License-Identifier: Apache-2.0
// Fixed-width integers, bit_cast and the few helpers that <cstdint>, <bit> and <algorithm> would bring. The
// library has its own, because NVRTC has no <cstdint> and std::bit_cast cannot be called in device code.
#pragma once

#include "config.hpp"

namespace FOURSCALE_NAMESPACE {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;
static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8);

/// Whether A and B are the same type. NVRTC has neither <type_traits> nor __is_same.
template <class A, class B>
inline constexpr bool same_type = false;
template <class A>
inline constexpr bool same_type<A, A> = true;

/// The bits of `from` as a `To` of the same size.
template <class To, class From>
FOURSCALE_HD constexpr To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast needs two types of the same size.");
  return __builtin_bit_cast(To, from);
}

/// ceil(a / b) for a >= 0, b > 0.
template <class T>
FOURSCALE_HD constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

/// The smallest multiple of b that is not below a.
template <class T>
FOURSCALE_HD constexpr T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}

/// True while a constant expression is evaluated, where inline asm is not allowed.
FOURSCALE_HD constexpr bool is_constant_evaluated() { return __builtin_is_constant_evaluated(); }

/// The magnitude bits of the largest finite binary32 and of infinity, and FLT_MAX itself.
inline constexpr u32 float_max_bits = 0x7f7f'ffff;
inline constexpr u32 float_inf_bits = 0x7f80'0000;
inline constexpr float float_max = 0x1.fffffep+127f;

/// The bits of |x| as an integer; 0 for NaN. These integers have the order of the magnitudes, and every amax
/// of the library compares them: this needs no rule for -0 or subnormals, and the maximum does not depend on
/// the order of the values.
FOURSCALE_HD constexpr i32 amax_bits(float x) {
  const i32 magnitude = static_cast<i32>(bit_cast<u32>(x) & 0x7fff'ffffu);
  return magnitude > static_cast<i32>(float_inf_bits) ? 0 : magnitude;
}

/// a < b, for a and b that are +0 or above, or NaN; false if either is NaN. Unlike `<`, it keeps subnormals
/// under --use_fast_math.
FOURSCALE_HD constexpr bool less_magnitude(float a, float b) {
  return bit_cast<u32>(a) < bit_cast<u32>(b) && bit_cast<u32>(b) <= float_inf_bits;
}

/// A result of FP32 operations, with the NaN that every one of a GPU gives. A CPU's keep the bits of a NaN
/// that they are given, and x86 sets the sign of one that it makes, such as 0 times infinity.
FOURSCALE_HD constexpr float with_nan_of_gpu(float x) {
#if FOURSCALE_DEVICE_PASS
  return x;
#else
  return x == x ? x : bit_cast<float>(0x7fff'ffffu);
#endif
}

/// The smallest unsigned type with at least `Bits` bits.
template <int Bits>
FOURSCALE_H constexpr auto unsigned_for() {
  static_assert(Bits <= 64, "No unsigned type is wider than 64 bits.");
  if constexpr (Bits <= 8)
    return u8{};
  else if constexpr (Bits <= 16)
    return u16{};
  else if constexpr (Bits <= 32)
    return u32{};
  else
    return u64{};
}
template <int Bits>
using uint_t = decltype(unsigned_for<Bits>());

}  // namespace FOURSCALE_NAMESPACE
