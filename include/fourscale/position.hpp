// SPDX-License-Identifier: Apache-2.0
// The position of an element in its matrix. Random bits are a function of the position, never of a thread or
// a launch, so that every kernel, grid and machine draws the same ones.
#pragma once

#include "bits.hpp"

namespace FOURSCALE_NAMESPACE {

/// Row and column of an element. They are those of the matrix whose rows hold the blocks: of the transpose,
/// for a columnwise copy.
struct position {
  i64 row = 0, col = 0;
  FOURSCALE_HD constexpr position right(i64 columns) const { return {row, col + columns}; }
};

/// The source of randomness of stochastic policies: `bits(where)` gives 32 random bits for the four
/// consecutive elements of a row that begin at `where`.
template <class B>
concept random_bits = requires(B const bits, position where) {
  u32{bits(where)};
};

/// Random bits that also have a fast form for CPUs. `bits.draw_lanes(where, count, words)` writes the words
/// of 16 * `count` consecutive elements of a row, four words for each sixteen elements. `where` is the
/// position of the first; its column is a multiple of 16.
template <class B>
concept lane_random_bits = random_bits<B> && requires(B const bits, position where, u32* words) {
  bits.draw_lanes(where, 1, words);
};

}  // namespace FOURSCALE_NAMESPACE
