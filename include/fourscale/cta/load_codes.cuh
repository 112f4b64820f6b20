// SPDX-License-Identifier: Apache-2.0
// Codes of a row from memory, fewer than a block.
#pragma once

#include "../formats/packed.hpp"

namespace FOURSCALE_NAMESPACE::cta {

/// The widest word, of at most eight bytes, of which N codes are a multiple.
template <element_format E, int N>
inline constexpr int word_of_codes = packed<E, N>::bytes % 8 == 0   ? 8
                                     : packed<E, N>::bytes % 4 == 0 ? 4
                                     : packed<E, N>::bytes % 2 == 0 ? 2
                                                                    : 1;

/// Whether groups of N codes begin at multiples of that where the first does.
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

/// N codes that begin at a whole byte. `words`: what are_words() says of the row's first.
template <element_format E, int N>
FOURSCALE_D packed<E, N> load_codes(u8 const* from, bool words) {
  static_assert(N * E::width % 8 == 0 && N * E::width <= 64);
  return words ? detail::load_codes_in<E, N, word_of_codes<E, N>>(from)
               : detail::load_codes_in<E, N, 1>(from);
}

}  // namespace FOURSCALE_NAMESPACE::cta
