// SPDX-License-Identifier: Apache-2.0
// packed<F, N>: N codes side by side in one word, element 0 in the lowest bits. This is the order of memory,
// of PTX and of the tensor cores, and no other file defines it.
#pragma once

#include "e1m2.hpp"
#include "e2m1.hpp"
#include "e2m3.hpp"
#include "e3m2.hpp"
#include "e4m3.hpp"
#include "e5m2.hpp"

namespace FOURSCALE_NAMESPACE {

/// N consecutive elements of format F; element i takes bits [i * width, (i + 1) * width). In memory the word
/// is little-endian, so E2M1 element 0 is the low nibble of byte 0, and four 6-bit elements take three bytes.
template <element_format F, int N>
struct packed {
  using word = uint_t<N * F::width>;
  static constexpr int size = N;
  static constexpr int bytes = ceil_div(N * F::width, 8);  ///< bytes in memory

  word bits = 0;

  FOURSCALE_HD constexpr F get(int i) const {
    return F{static_cast<u8>((bits >> (i * F::width)) & ((word{1} << F::width) - 1))};
  }
  FOURSCALE_HD constexpr void set(int i, F value) {
    const word mask = static_cast<word>(((word{1} << F::width) - 1) << (i * F::width));
    bits = static_cast<word>((bits & ~mask) | (static_cast<word>(value.bits) << (i * F::width)));
  }
  /// Byte i of the word as it lies in memory.
  FOURSCALE_HD constexpr u8 byte(int i) const { return static_cast<u8>(bits >> (8 * i)); }

  friend FOURSCALE_H constexpr bool operator==(packed, packed) = default;
};

using e2m1x2 = packed<e2m1, 2>;
using e2m1x4 = packed<e2m1, 4>;
using e2m1x8 = packed<e2m1, 8>;
using e2m3x4 = packed<e2m3, 4>;
using e2m3x8 = packed<e2m3, 8>;
using e3m2x4 = packed<e3m2, 4>;
using e3m2x8 = packed<e3m2, 8>;
using e4m3x2 = packed<e4m3, 2>;
using e4m3x4 = packed<e4m3, 4>;
using e4m3x8 = packed<e4m3, 8>;
using e5m2x2 = packed<e5m2, 2>;
using e5m2x4 = packed<e5m2, 4>;
using e5m2x8 = packed<e5m2, 8>;

/// Four elements, packed in the low bits of x, to a byte each: left-aligned, the sign in the highest bit,
/// zeros below the element.
template <element_format E>
FOURSCALE_HD constexpr u32 bytes_of_four(u32 x) {
  static_assert(E::width == 8 || E::width == 6 || E::width == 4);
  if constexpr (E::width == 8) return x;
  if constexpr (E::width == 6)
    return (x << 2 & 0xfcu) | (x << 4 & 0xfc00u) | (x << 6 & 0xfc'0000u) | (x << 8 & 0xfc00'0000u);
  const u32 two = (x & 0xffu) | (x << 8 & 0xff'0000u);  // in each half
  return (two << 4 & 0x00f0'00f0u) | (two << 8 & 0xf000'f000u);
}

}  // namespace FOURSCALE_NAMESPACE
