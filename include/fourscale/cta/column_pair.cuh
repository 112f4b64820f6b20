// SPDX-License-Identifier: Apache-2.0
// Two neighbouring columns of a matrix of 16-bit values, read together: a word has one row of both.
#pragma once

#include "values.cuh"

namespace FOURSCALE_NAMESPACE::cta {

/// A block of two neighbouring columns of 16-bit values: N words that hold a value of each.
template <class T, int N>
struct column_pair {
  u32 words[N];

  column_pair() = default;
  /// From `first` on, in steps of `stride` words.
  template <class Stride>
  FOURSCALE_D column_pair(u32 const* first, Stride stride) {
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) words[i] = first[i * stride];
  }

  /// The largest magnitudes of both columns, as a pair.
  template <bool KeepNan>
  FOURSCALE_D u32 magnitudes() const {
    u32 largest = words[0];
    FOURSCALE_UNROLL
    for (int i = 1; i < N; ++i) largest = detail::larger_magnitudes<T, KeepNan>(largest, words[i]);
    return largest;
  }
  /// The values with magnitudes of at most `limits`, one for each column, rounded down to bf16.
  FOURSCALE_D void lower_to(float first, float second) {
    const u32 pair = __byte_perm(bit_cast<u32>(first), bit_cast<u32>(second), 0x7632);
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) words[i] = ptx::min_xorsign_abs_bf16x2(words[i], pair);
  }
};

/// One column of the pair, with the members of `values`. The compiler shares the work that both columns have
/// in common.
template <class T, int N>
struct column_block {
  column_pair<T, N> const* pair;
  int which;

  FOURSCALE_D T get(int i) const { return bit_cast<T>(static_cast<u16>(pair->words[i] >> (16 * which))); }
  FOURSCALE_D float value(int i) const { return to_float(get(i)); }
  /// Costs an instruction for two values.
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
