// SPDX-License-Identifier: Apache-2.0
// Values of a row as a kernel holds them between memory and a block: in the registers of one thread, moved 16
// bytes at a time.
#pragma once

#include "../view/block_scaled_view.hpp"

namespace fourscale::cta {

/// Sixteen bytes, moved by one instruction.
struct alignas(16) vector16 {
  u32 words[4];
};

/// N consecutive values of a row, of a type with two or four bytes, as they lie in memory. Indices must be
/// constants after unrolling, so that all stays in registers.
template <class T, int N>
struct values {
  static_assert((sizeof(T) == 2 || sizeof(T) == 4) && N * sizeof(T) % 16 == 0,
                "Values come in whole vectors of 16 bytes, of types with two or four bytes.");
  static constexpr int count = N * static_cast<int>(sizeof(T)) / 4;
  u32 words[count];

  /// From or to an address that is a multiple of 16 bytes.
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

  /// Floats rounded to T, to nearest even.
  static FOURSCALE_D values rounded(float const (&x)[N]) {
    values v;
    FOURSCALE_UNROLL
    for (int i = 0; i < count; ++i) {
#if FOURSCALE_DEVICE_PASS >= 800  // two at a time
      if constexpr (__is_same(T, bf16)) {
        v.words[i] = ptx::cvt_rn_bf16x2_f32(x[2 * i + 1], x[2 * i]);
        continue;
      }
#endif
      if constexpr (sizeof(T) == 4)
        v.words[i] = bit_cast<u32>(from_float<T>(x[i]));
      else
        v.words[i] =
            u32{bit_cast<u16>(from_float<T>(x[2 * i + 1]))} << 16 | bit_cast<u16>(from_float<T>(x[2 * i]));
    }
    return v;
  }
};

/// Codes to memory in words of `Word` bytes, 1, 8 or 16, which both their number and the address are
/// multiples of.
template <int Word, int Bytes>
FOURSCALE_D void store_codes(u8 const (&codes)[Bytes], u8* to) {
  FOURSCALE_UNROLL
  for (int i = 0; i < Bytes; i += Word) {
    u32 words[4] = {};
    FOURSCALE_UNROLL
    for (int j = 0; j < Word; ++j) words[j / 4] |= u32{codes[i + j]} << (8 * (j % 4));
    if constexpr (Word == 16)
      *reinterpret_cast<vector16*>(to + i) = {{words[0], words[1], words[2], words[3]}};
    else if constexpr (Word == 8)
      *reinterpret_cast<u64*>(to + i) = u64{words[1]} << 32 | words[0];
    else
      to[i] = codes[i];
  }
}

/// Where the blocks of a row go, whose addresses are computed once. Codes in words of 8 bytes, which q.codes
/// must be a multiple of.
template <class F, class Layout>
struct output_row {
  block_scaled_view<F, Layout> q;
  i64 row;
  u8 *codes, *scales;

  FOURSCALE_D output_row(block_scaled_view<F, Layout> const& view, i64 r)
      : q(view), row(r), codes(q.codes + q.code_offset(r, 0)), scales(q.scales + q.scale_offset(r, 0)) {}

  /// `block` is signed, so that the offsets of several, a constant apart, may be part of the instructions.
  FOURSCALE_D void store(int block, packed_block<F> const& b) const {
    if constexpr (__is_same(Layout, linear) && block_scale_bytes<F> == 1)
      scales[block] = b.scale.bits;
    else
      q.store_scale(row, block, b.scale);
    store_codes<8>(b.codes, codes + i64{block} * block_code_bytes<F>);
  }
};

}  // namespace fourscale::cta
