// SPDX-License-Identifier: Apache-2.0
// Loads codes of a row from memory, fewer than a block at a time.
#pragma once

#include "../formats/packed.hpp"

namespace FOURSCALE_NAMESPACE::cta {

/// The bytes of the widest word, at most eight, that fits a whole number of times into N codes.
template <element_format E, int N>
inline constexpr int word_of_codes = packed<E, N>::bytes % 8 == 0   ? 8
                                     : packed<E, N>::bytes % 4 == 0 ? 4
                                     : packed<E, N>::bytes % 2 == 0 ? 2
                                                                    : 1;

/// True if `codes` is aligned to that word. Every group of N codes, counted from there, then is, too.
template <element_format E, int N>
FOURSCALE_HD bool are_words(u8 const* codes) {
  return reinterpret_cast<u64>(codes) % word_of_codes<E, N> == 0;
}

namespace detail {

template <element_format E, int N, int Word>
FOURSCALE_D packed<E, N> load_codes_in(u8 const* from) {
  packed<E, N> codes;
  using all = decltype(codes.bits);
  FOURSCALE_UNROLL
  for (int i = 0; i < packed<E, N>::bytes; i += Word)
    codes.bits |= static_cast<all>(all{*reinterpret_cast<uint_t<8 * Word> const*>(from + i)} << (8 * i));
  return codes;
}

}  // namespace detail

/// Loads N codes that begin at a whole byte. `words` is the result of are_words() for the first of all codes;
/// if it is false, the codes are loaded byte by byte.
template <element_format E, int N>
FOURSCALE_D packed<E, N> load_codes(u8 const* from, bool words) {
  static_assert(N * E::width % 8 == 0 && N * E::width <= 64);
  return words ? detail::load_codes_in<E, N, word_of_codes<E, N>>(from)
               : detail::load_codes_in<E, N, 1>(from);
}

}  // namespace FOURSCALE_NAMESPACE::cta
