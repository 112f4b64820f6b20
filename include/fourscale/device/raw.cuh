// SPDX-License-Identifier: Apache-2.0
// Source values as they lie in memory: loaded in vectors, and their amax found before they become floats.
#pragma once

#include "../block/quantize.hpp"
#include "launch.cuh"

namespace fourscale::device::detail {

/// N values of a row.
template <class T, int N>
struct alignas(N * sizeof(T) % 16 == 0 ? 16 : alignof(T)) raw_block {
  T values[N];
};

template <class T, int N>
FOURSCALE_D raw_block<T, N> load_raw(T const* from, bool vectors) {
  raw_block<T, N> block;
  if (N * sizeof(T) % 16 == 0 && vectors) {
    constexpr int count = static_cast<int>(sizeof block) / 16;
    struct all {
      vector16 v[count];
    } words;
    FOURSCALE_UNROLL
    for (int i = 0; i < count; ++i) words.v[i] = reinterpret_cast<vector16 const*>(from)[i];
    block = __builtin_bit_cast(raw_block<T, N>, words);
  } else {
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) block.values[i] = from[i];
  }
  return block;
}

template <class T, int N>
FOURSCALE_D void to_floats(raw_block<T, N> const& block, float (&x)[N]) {
  FOURSCALE_UNROLL
  for (int i = 0; i < N; ++i) x[i] = to_float(block.values[i]);
}

/// max.xorsign.abs: the larger magnitude in both halves; a NaN loses to a number.
template <class T>
FOURSCALE_D u32 larger_magnitudes(u32 a, u32 b) {
  u32 d;
  if constexpr (__is_same(T, bf16))
    asm("max.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  else
    asm("max.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

/// The amax of a pair of 16-bit values, as block_amax() gives it.
template <class T>
FOURSCALE_D float pair_amax(u32 pair) {
  const u32 largest = larger_magnitudes<T>(pair, pair >> 16) & 0x7fffu;
  return bit_cast<float>(amax_bits(to_float(T{static_cast<u16>(largest)})));
}

/// As block_amax(), two 16-bit values at a time.
template <class T, int N>
FOURSCALE_D float raw_amax(raw_block<T, N> const& block) {
  if constexpr (__is_same(T, bf16) || __is_same(T, fp16)) {
    struct words {
      u32 w[N / 2];
    };
    words x = __builtin_bit_cast(words, block);
    FOURSCALE_UNROLL
    for (int half = N / 4; half >= 1; half /= 2) {
      FOURSCALE_UNROLL
      for (int i = 0; i < half; ++i) x.w[i] = larger_magnitudes<T>(x.w[i], x.w[i + half]);
    }
    return pair_amax<T>(x.w[0]);
  } else {
    i32 largest = 0;
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) {
      const i32 magnitude = amax_bits(to_float(block.values[i]));
      largest = magnitude > largest ? magnitude : largest;
    }
    return bit_cast<float>(largest);
  }
}

}  // namespace fourscale::device::detail
