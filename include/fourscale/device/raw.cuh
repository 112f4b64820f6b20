// SPDX-License-Identifier: Apache-2.0
// Source values as they lie in memory: their amax and their signs, found before they become floats.
#pragma once

#include "../block/quantize.hpp"
#include "launch.cuh"

namespace fourscale::device::detail {

/// Types that come as cta::values, and those of them with packed instructions.
template <class T>
inline constexpr bool is_raw = sizeof(T) == 2 || sizeof(T) == 4;
template <class T>
inline constexpr bool is_short = __is_same(T, bf16) || __is_same(T, fp16);

/// The values of a block. Where they come in another form they have another as_values().
template <class T, int N>
FOURSCALE_D cta::values<T, N> const& as_values(cta::values<T, N> const& block) {
  return block;
}

/// Of values, or of what else has get().
template <class Block, int N>
FOURSCALE_D void to_floats(Block const& block, float (&x)[N]) {
  FOURSCALE_UNROLL
  for (int i = 0; i < N; ++i) x[i] = to_float(block.get(i));
}

/// max.NaN.xorsign.abs, or without .NaN: the larger magnitude in both halves; with it NaN wins, without it
/// NaN loses to a number. The signs are of no use.
template <class T, bool KeepNan = false>
FOURSCALE_D u32 larger_magnitudes(u32 a, u32 b) {
#if FOURSCALE_DEVICE_PASS >= 860
  if constexpr (__is_same(T, bf16))
    return ptx::max_xorsign_abs_bf16x2<KeepNan>(a, b);
  else
    return ptx::max_xorsign_abs_f16x2<KeepNan>(a, b);
#else
  const auto magnitude = [](u32 x) {
    const u32 m = x & 0x7fffu;
    return KeepNan || m <= (__is_same(T, bf16) ? 0x7f80u : 0x7c00u) ? m : 0u;
  };
  const auto larger = [](u32 x, u32 y) { return x > y ? x : y; };
  return larger(magnitude(a), magnitude(b)) | larger(magnitude(a >> 16), magnitude(b >> 16)) << 16;
#endif
}

/// The largest magnitude of a pair of 16-bit values: as block_amax() gives it, or NaN if one is NaN.
template <class T, bool KeepNan = false>
FOURSCALE_D float pair_amax(u32 pair) {
  const u32 largest = larger_magnitudes<T, KeepNan>(pair, pair >> 16) & 0x7fffu;
  const float amax = to_float(T{static_cast<u16>(largest)});
  return KeepNan ? amax : bit_cast<float>(amax_bits(amax));
}

/// The larger magnitudes of all pairs of a block.
template <class T, bool KeepNan, int N>
FOURSCALE_D u32 block_magnitudes(cta::values<T, N> const& block) {
  u32 w[N / 4];
  FOURSCALE_UNROLL
  for (int i = 0; i < N / 4; ++i)
    w[i] = larger_magnitudes<T, KeepNan>(block.words[i], block.words[i + N / 4]);
  FOURSCALE_UNROLL
  for (int i = 1; i < N / 4; ++i) w[0] = larger_magnitudes<T, KeepNan>(w[0], w[i]);
  return w[0];
}

/// Half of a word, a value of type T, as a float whose sign bit is changed by `sign`, 0 or 2^31: of bf16 in
/// one instruction, if `upper`, 0xffff0000, is in a register.
template <class T>
FOURSCALE_D float half_as_float(u32 word, bool is_upper, u32 sign, u32 upper) {
  if constexpr (__is_same(T, bf16))
    return bit_cast<float>(is_upper ? (word & upper) ^ sign : (word << 16) + sign);
  else
    return bit_cast<float>(bit_cast<u32>(to_float(T{static_cast<u16>(is_upper ? word >> 16 : word)})) ^ sign);
}
template <class T, int N>
FOURSCALE_D float signed_value(cta::values<T, N> const& block, int i, u32 sign, u32 upper) {
  return half_as_float<T>(block.words[i / 2], i % 2 == 1, sign, upper);
}

/// Bytes of two words, all ones or zeros as the signs of even and of odd elements are, as nibbles side by
/// side.
FOURSCALE_D inline u32 joined_signs(u32 even, u32 odd) {
  return ptx::lop3_select_b32(0x0f0f'0f0fu, even, odd);
}
/// The signs of elements i to i + 7 of 16 bits, in every bit of their nibbles.
template <class T, int N>
FOURSCALE_D u32 nibble_signs(cta::values<T, N> const& block, int i) {
  u32 const* const w = block.words + i / 2;
  const u32 a = __byte_perm(w[0], w[1], 0x7351), b = __byte_perm(w[2], w[3], 0x7351);
  return joined_signs(ptx::prmt_b32(a, b, 0xdc98), ptx::prmt_b32(a, b, 0xfeba));
}

/// The largest magnitude, or NaN if one is.
template <class T, int N>
FOURSCALE_D float amax_or_nan(cta::values<T, N> const& block) {
  return pair_amax<T, true>(block_magnitudes<T, true>(block));
}

/// As block_amax(), two 16-bit values at a time.
template <class T, int N>
FOURSCALE_D float raw_amax(cta::values<T, N> const& block) {
  if constexpr (is_short<T>) {
    return pair_amax<T>(block_magnitudes<T, false>(block));
  } else {
    i32 largest = 0;
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) {
      const i32 magnitude = amax_bits(to_float(block.get(i)));
      largest = magnitude > largest ? magnitude : largest;
    }
    return bit_cast<float>(largest);
  }
}

}  // namespace fourscale::device::detail
