// SPDX-License-Identifier: Apache-2.0
// Source values as they lie in memory: loaded in vectors, and their amax found before they become floats.
#pragma once

#include "../block/quantize.hpp"
#include "launch.cuh"

namespace fourscale::device::detail {

/// N values of a row as 32-bit words, of types with two or four bytes.
template <class T, int N>
struct raw_block {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4);
  static constexpr int per_word = 4 / static_cast<int>(sizeof(T)), words = N / per_word;
  u32 w[words];

  FOURSCALE_D T get(int i) const {
    if constexpr (sizeof(T) == 4)
      return bit_cast<T>(w[i]);
    else
      return bit_cast<T>(static_cast<u16>(w[i / 2] >> (16 * (i % 2))));
  }
  FOURSCALE_D raw_block const& raw() const { return *this; }
  FOURSCALE_D void set(int i, T value) {
    if constexpr (sizeof(T) == 4)
      w[i] = bit_cast<u32>(value);
    else if (i % 2 == 0)
      w[i / 2] = (w[i / 2] & 0xffff'0000u) | bit_cast<u16>(value);
    else
      w[i / 2] = (w[i / 2] & 0xffffu) | u32{bit_cast<u16>(value)} << 16;
  }
};

/// Types that have a raw_block, and those of them with packed instructions.
template <class T>
inline constexpr bool is_raw = sizeof(T) == 2 || sizeof(T) == 4;
template <class T>
inline constexpr bool is_short = __is_same(T, bf16) || __is_same(T, fp16);

template <class T, int N>
FOURSCALE_D raw_block<T, N> load_raw(T const* from) {
  raw_block<T, N> block;
  FOURSCALE_UNROLL
  for (int i = 0; i < block.words; i += 4) {
    const vector16 v = reinterpret_cast<vector16 const*>(from)[i / 4];
    FOURSCALE_UNROLL
    for (int j = 0; j < 4; ++j) block.w[i + j] = v.words[j];
  }
  return block;
}

/// Of a raw_block, or of what else has get().
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
  u32 d;
  if constexpr (__is_same(T, bf16) && KeepNan)
    asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  else if constexpr (__is_same(T, bf16))
    asm("max.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  else if constexpr (KeepNan)
    asm("max.NaN.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  else
    asm("max.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
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
FOURSCALE_D u32 block_magnitudes(raw_block<T, N> const& block) {
  u32 w[N / 4];
  FOURSCALE_UNROLL
  for (int i = 0; i < N / 4; ++i) w[i] = larger_magnitudes<T, KeepNan>(block.w[i], block.w[i + N / 4]);
  FOURSCALE_UNROLL
  for (int i = 1; i < N / 4; ++i) w[0] = larger_magnitudes<T, KeepNan>(w[0], w[i]);
  return w[0];
}

/// Bytes of two words, whose highest bits are the signs of even and of odd elements, as nibbles side by side.
FOURSCALE_D inline u32 joined_signs(u32 even, u32 odd) {
  return (even >> 4 & 0x0f0f'0f0fu) | (odd & 0xf0f0'f0f0u);
}
/// The signs of elements i to i + 7 of 16 bits, each at the highest bit of its nibble.
template <class T, int N>
FOURSCALE_D u32 nibble_signs(raw_block<T, N> const& block, int i) {
  u32 const* const w = block.w + i / 2;
  const u32 a = __byte_perm(w[0], w[1], 0x7351), b = __byte_perm(w[2], w[3], 0x7351);
  return joined_signs(__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632));
}

/// The largest magnitude, or NaN if one is.
template <class T, int N>
FOURSCALE_D float amax_or_nan(raw_block<T, N> const& block) {
  return pair_amax<T, true>(block_magnitudes<T, true>(block));
}

/// As block_amax(), two 16-bit values at a time.
template <class T, int N>
FOURSCALE_D float raw_amax(raw_block<T, N> const& block) {
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
