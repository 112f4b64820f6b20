// SPDX-License-Identifier: Apache-2.0
// One block of each of two neighbouring columns of 16-bit values, in the registers of one thread: a word has
// the values of both columns in one row. Kernels that go along columns read a matrix this way.
#pragma once

#include "values.cuh"

namespace FOURSCALE_NAMESPACE::cta {

/// A block of each of two neighbouring columns: N rows, a word for each. The first column is in the low half
/// of the words, the second in the high half.
template <class T, int N>
struct column_pair {
  u32 words[N];

  column_pair() = default;
  /// Reads N words: the one at `first`, and each next one `stride` words behind.
  template <class Stride>
  FOURSCALE_D column_pair(u32 const* first, Stride stride) {
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) words[i] = first[i * stride];
  }

  /// The largest magnitude of each column, as a pair. With KeepNan, a NaN wins; else it loses to a number.
  /// The sign bits of the result mean nothing.
  template <bool KeepNan>
  FOURSCALE_D u32 magnitudes() const {
    u32 largest = words[0];
    FOURSCALE_UNROLL
    for (int i = 1; i < N; ++i) largest = detail::larger_magnitudes<T, KeepNan>(largest, words[i]);
    return largest;
  }
  /// Lowers the magnitudes of the first column to at most `first`, those of the second to at most `second`,
  /// both rounded down to bf16. Signs stay.
  FOURSCALE_D void lower_to(float first, float second) {
    const u32 pair = __byte_perm(bit_cast<u32>(first), bit_cast<u32>(second), 0x7632);
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) words[i] = ptx::min_xorsign_abs_bf16x2(words[i], pair);
  }
};

/// One column of a pair (`which` is 0 or 1), with the members of cta::values. The compiler shares the work
/// that both columns have in common.
template <class T, int N>
struct column_block {
  column_pair<T, N> const* pair;
  int which;

  FOURSCALE_D T get(int i) const { return bit_cast<T>(static_cast<u16>(pair->words[i] >> (16 * which))); }
  FOURSCALE_D float value(int i) const { return to_float(get(i)); }
  /// Costs one instruction for every two values.
  FOURSCALE_D values<T, N> to_values() const {
    values<T, N> c;
    FOURSCALE_UNROLL
    for (int i = 0; i < N; i += 2)
      c.words[i / 2] = __byte_perm(pair->words[i], pair->words[i + 1], which == 0 ? 0x5410 : 0x7632);
    return c;
  }
  FOURSCALE_D void to_floats(float (&x)[N]) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) x[i] = value(i);
  }
  FOURSCALE_D float amax() const { return half<false>(pair->template magnitudes<false>()); }
  FOURSCALE_D float amax_or_nan() const { return half<true>(pair->template magnitudes<true>()); }
  FOURSCALE_D u32 signs(int i) const {
    u32 const* const w = pair->words + i;
    const auto four = [&](int k) {
      return ptx::prmt_b32(__byte_perm(w[k], w[k + 2], 0x7351), __byte_perm(w[k + 4], w[k + 6], 0x7351),
                           which == 0 ? 0xdc98 : 0xfeba);
    };
    return detail::joined_signs(four(0), four(1));
  }

 private:
  template <bool KeepNan>
  FOURSCALE_D float half(u32 both) const {
    const float amax = to_float(bit_cast<T>(static_cast<u16>(both >> (16 * which) & 0x7fffu)));
    return KeepNan ? amax : bit_cast<float>(amax_bits(amax));
  }
};

}  // namespace FOURSCALE_NAMESPACE::cta
