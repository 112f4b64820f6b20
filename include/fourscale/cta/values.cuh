// SPDX-License-Identifier: Apache-2.0
// Values of a row in the registers of one thread, in the words in which they lie in memory. Amax, signs and
// limits are found before values become floats, two 16-bit values at a time.
#pragma once

#include "../formats/real.hpp"
#include "../ptx/arith.hpp"

namespace FOURSCALE_NAMESPACE::cta {

/// Sixteen bytes, moved by one instruction.
struct alignas(16) vector16 {
  u32 words[4];
};

/// True for 16-bit types, two values of which share a word.
template <class T>
inline constexpr bool is_packed = same_type<T, bf16> || same_type<T, fp16>;

namespace detail {

/// The larger magnitude in each half of two pairs. NaN loses to a number, or, with KeepNan, wins. The signs
/// of the result mean nothing.
template <class T, bool KeepNan>
FOURSCALE_D u32 larger_magnitudes(u32 a, u32 b) {
  if constexpr (same_type<T, bf16>)
    return ptx::max_abs_bf16x2<KeepNan>(a, b);
  else
    return ptx::max_abs_f16x2<KeepNan>(a, b);
}

/// The larger magnitude of a pair as a float. If one is NaN, the result is NaN with KeepNan; otherwise NaN is
/// dropped, as amax_bits() drops it.
template <class T, bool KeepNan>
FOURSCALE_D float pair_amax(u32 pair) {
  const u32 largest = larger_magnitudes<T, KeepNan>(pair, pair >> 16) & 0x7fffu;
  const float amax = to_float(T{static_cast<u16>(largest)});
  return KeepNan ? amax : bit_cast<float>(amax_bits(amax));
}

/// Joins the signs of eight elements, a nibble of ones or zeros for each. Every byte of `even` and `odd` is
/// all ones or all zeros, for the signs of elements 0, 2, 4, 6 and of 1, 3, 5, 7.
FOURSCALE_D inline u32 joined_signs(u32 even, u32 odd) {
  return ptx::lop3_select_b32(0x0f0f'0f0fu, even, odd);
}

}  // namespace detail

/// N consecutive values of a row, of a type with two or four bytes. Indices must be constants after
/// unrolling, so that all stays in registers.
template <class T, int N>
struct values {
  static_assert((sizeof(T) == 2 || sizeof(T) == 4) && N * sizeof(T) % 16 == 0,
                "Values come in whole vectors of 16 bytes, of types with two or four bytes.");
  static constexpr int count = N * static_cast<int>(sizeof(T)) / 4;
  u32 words[count];

  /// Loads from, or stores to, an address that is a multiple of 16 bytes.
  static FOURSCALE_D values load(T const* from) {
    values v;
    FOURSCALE_UNROLL
    for (int i = 0; i < count; i += 4) {
      const vector16 w = reinterpret_cast<vector16 const*>(from)[i / 4];
      FOURSCALE_UNROLL
      for (int j = 0; j < 4; ++j) v.words[i + j] = w.words[j];
    }
    return v;
  }
  FOURSCALE_D void store(T* to) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < count; i += 4)
      reinterpret_cast<vector16*>(to)[i / 4] = {{words[i], words[i + 1], words[i + 2], words[i + 3]}};
  }
  FOURSCALE_D T get(int i) const {
    if constexpr (sizeof(T) == 4)
      return bit_cast<T>(words[i]);
    else
      return bit_cast<T>(static_cast<u16>(words[i / 2] >> (16 * (i % 2))));
  }
  FOURSCALE_D void set(int i, T value) {
    if constexpr (sizeof(T) == 4)
      words[i] = bit_cast<u32>(value);
    else if (i % 2 == 0)
      words[i / 2] = (words[i / 2] & 0xffff'0000u) | bit_cast<u16>(value);
    else
      words[i / 2] = (words[i / 2] & 0xffffu) | u32{bit_cast<u16>(value)} << 16;
  }
  FOURSCALE_D float value(int i) const { return to_float(get(i)); }
  FOURSCALE_D void to_floats(float (&x)[N]) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) x[i] = value(i);
  }

  /// Floats rounded to T, to nearest even.
  static FOURSCALE_D values rounded(float const (&x)[N]) {
    values v;
    FOURSCALE_UNROLL
    for (int i = 0; i < count; ++i) {
      if constexpr (sizeof(T) == 4)
        v.words[i] = bit_cast<u32>(from_float<T>(x[i]));
      else
        v.words[i] = pair_from_floats<T>(x[2 * i + 1], x[2 * i]);
    }
    return v;
  }

  /// The largest magnitude. amax() drops NaN, as fourscale::block_amax() does; amax_or_nan() is NaN if a
  /// value is.
  FOURSCALE_D float amax() const { return largest<false>(); }
  FOURSCALE_D float amax_or_nan() const { return largest<true>(); }

  /// The signs of values i to i + 7, a nibble each. For 16-bit types a sign fills its nibble; for wider types
  /// it is only in the highest bit.
  FOURSCALE_D u32 signs(int i) const {
    if constexpr (is_packed<T>) {
      u32 const* const w = words + i / 2;
      const u32 a = __byte_perm(w[0], w[1], 0x7351), b = __byte_perm(w[2], w[3], 0x7351);
      return detail::joined_signs(ptx::prmt_b32(a, b, 0xdc98), ptx::prmt_b32(a, b, 0xfeba));
    } else {
      u32 nibbles = 0;
      FOURSCALE_UNROLL
      for (int j = 0; j < 8; ++j) nibbles |= bit_cast<u32>(value(i + j)) >> 31 << (4 * j + 3);
      return nibbles;
    }
  }
  /// Lowers the magnitudes to at most `limit`, rounded down to T. Signs stay.
  FOURSCALE_D void lower_to(float limit) {
    static_assert(same_type<T, bf16>, "Other types are lowered as floats.");
    const u32 pair = __byte_perm(bit_cast<u32>(limit), 0, 0x3232);
    FOURSCALE_UNROLL
    for (int i = 0; i < count; ++i) words[i] = ptx::min_xorsign_abs_bf16x2(words[i], pair);
  }

 private:
  template <bool KeepNan>
  FOURSCALE_D float largest() const {
    if constexpr (is_packed<T>) {
      u32 w[N / 4];
      FOURSCALE_UNROLL
      for (int i = 0; i < N / 4; ++i)
        w[i] = detail::larger_magnitudes<T, KeepNan>(words[i], words[i + N / 4]);
      FOURSCALE_UNROLL
      for (int i = 1; i < N / 4; ++i) w[0] = detail::larger_magnitudes<T, KeepNan>(w[0], w[i]);
      return detail::pair_amax<T, KeepNan>(w[0]);
    } else {
      i32 most = 0;
      FOURSCALE_UNROLL
      for (int i = 0; i < N; ++i) {
        const i32 magnitude =
            KeepNan ? static_cast<i32>(bit_cast<u32>(value(i)) & 0x7fff'ffffu) : amax_bits(value(i));
        most = magnitude > most ? magnitude : most;
      }
      return bit_cast<float>(most);
    }
  }
};

/// Loads the part of an aligned vector that lies before `end`, in units of two bytes; the rest is 0.
FOURSCALE_D inline vector16 load_before(u8 const* aligned, u8 const* end) {
  if (const i64 there = end - aligned; there >= 16) {
    return *reinterpret_cast<vector16 const*>(aligned);
  } else {
    vector16 v{};
    u16 const* const halves = reinterpret_cast<u16 const*>(aligned);
    FOURSCALE_UNROLL
    for (int i = 0; i < 8; ++i)
      if (there >= 2 * i + 2) v.words[i / 2] |= u32{halves[i]} << (16 * (i % 2));
    return v;
  }
}

/// Takes Count words from w that begin `offset` bytes after the first one; `offset` is even and below 16.
/// Changes w.
template <int Count>
FOURSCALE_D void shift_words(u32 (&w)[Count + 4], u32 offset, u32 (&result)[Count]) {
  FOURSCALE_UNROLL
  for (int i = 0; i < Count + 2; ++i) w[i] = offset & 8 ? w[i + 2] : w[i];
  FOURSCALE_UNROLL
  for (int i = 0; i < Count + 1; ++i) w[i] = offset & 4 ? w[i + 1] : w[i];
  FOURSCALE_UNROLL
  for (int i = 0; i < Count; ++i) result[i] = __funnelshift_r(w[i], w[i + 1], 8 * (offset & 2));
}

/// N consecutive values in flight, from an address that is a multiple of sizeof(T): holds the aligned vectors
/// that they lie in. Device memory is allocated at multiples of 16 bytes, so the first vector may begin
/// before the matrix; the last one is not read beyond `end`, the end of the matrix.
template <class T, int N>
struct shifted_values {
  static constexpr int count = values<T, N>::count, vectors = count / 4 + 1;
  u32 offset;  ///< of the first value, in bytes
  u32 words[count + 4];

  FOURSCALE_D shifted_values() {}
  FOURSCALE_D shifted_values(T const* from, T const* end)
      : offset(static_cast<u32>(reinterpret_cast<u64>(from)) % 16) {
    u8 const* const aligned = reinterpret_cast<u8 const*>(from) - offset;
    FOURSCALE_UNROLL
    for (int i = 0; i < vectors; ++i) {
      const vector16 v = i + 1 < vectors ? reinterpret_cast<vector16 const*>(aligned)[i]
                                         : load_before(aligned + 16 * i, reinterpret_cast<u8 const*>(end));
      FOURSCALE_UNROLL
      for (int j = 0; j < 4; ++j) words[4 * i + j] = v.words[j];
    }
  }
  /// The values, shifted into place.
  FOURSCALE_D values<T, N> arrived() const {
    u32 w[count + 4];
    FOURSCALE_UNROLL
    for (int i = 0; i < count + 4; ++i) w[i] = words[i];
    values<T, N> result;
    shift_words(w, offset, result.words);
    return result;
  }
};

}  // namespace FOURSCALE_NAMESPACE::cta
