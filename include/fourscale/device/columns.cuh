// SPDX-License-Identifier: Apache-2.0
// Two columns of a matrix of 16-bit values, read together, a row to a word.
#pragma once

#include "raw.cuh"

namespace fourscale::device::detail {

/// A block of two neighbouring columns of 16-bit values: N words that hold a value of each.
template <class T, int N>
struct column_pair {
  u32 words[N];

  /// From `first` on, in steps of `stride` words.
  template <class Stride>
  FOURSCALE_D column_pair(u32 const* first, Stride stride) {
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) words[i] = first[i * stride];
  }
};

/// One of them.
template <class T, int N>
struct column_block {
  column_pair<T, N> const& pair;
  int which;

  FOURSCALE_D T get(int i) const { return bit_cast<T>(static_cast<u16>(pair.words[i] >> (16 * which))); }
  /// Costs an instruction for two values.
  FOURSCALE_D cta::values<T, N> values() const {
    cta::values<T, N> c;
    FOURSCALE_UNROLL
    for (int i = 0; i < N; i += 2)
      c.words[i / 2] = __byte_perm(pair.words[i], pair.words[i + 1], which == 0 ? 0x5410 : 0x7632);
    return c;
  }
};

template <class T, int N>
FOURSCALE_D cta::values<T, N> as_values(column_block<T, N> const& block) {
  return block.values();
}

template <class T, int N>
FOURSCALE_D float signed_value(column_block<T, N> const& block, int i, u32 sign, u32 upper) {
  return half_as_float<T>(block.pair.words[i], block.which == 1, sign, upper);
}

/// As of values. The compiler finds what both columns have in common.
template <class T, int N>
FOURSCALE_D u32 nibble_signs(column_block<T, N> const& block, int i) {
  u32 const* const w = block.pair.words + i;
  const auto four = [&](int k) {
    return ptx::prmt_b32(__byte_perm(w[k], w[k + 2], 0x7351), __byte_perm(w[k + 4], w[k + 6], 0x7351),
                         block.which == 0 ? 0xdc98 : 0xfeba);
  };
  return joined_signs(four(0), four(1));
}
template <class T, bool KeepNan, int N>
FOURSCALE_D u32 column_magnitudes(column_pair<T, N> const& pair) {
  u32 largest = pair.words[0];
  FOURSCALE_UNROLL
  for (int i = 1; i < N; ++i) largest = larger_magnitudes<T, KeepNan>(largest, pair.words[i]);
  return largest;
}
template <class T, int N>
FOURSCALE_D float amax_or_nan(column_block<T, N> const& block) {
  const u32 both = column_magnitudes<T, true>(block.pair);
  return to_float(bit_cast<T>(static_cast<u16>(both >> (16 * block.which) & 0x7fffu)));
}

}  // namespace fourscale::device::detail
