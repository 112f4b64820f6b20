// SPDX-License-Identifier: Apache-2.0
// Which element a policy is looking at. Randomness is a function of it, never of a thread or a launch.
#pragma once

#include "bits.hpp"

namespace FOURSCALE_NAMESPACE {

/// Row and column of an element in the matrix whose rows hold the blocks (the transpose, for a columnwise
/// copy).
struct position {
  i64 row = 0, col = 0;
  FOURSCALE_HD constexpr position right(i64 columns) const { return {row, col + columns}; }
};

/// What stochastic policies draw from: `bits(where)` gives 32 random bits for the four elements at `where`.
template <class B>
concept random_bits = requires(B const bits, position where) {
  u32{bits(where)};
};

/// A fast form of the same, for a CPU: `bits.draw_lanes(where, count, words)` writes the words of 16 *
/// `count` elements of a row, four for each sixteen; the first is at `where`, in a column that is a multiple
/// of 16.
template <class B>
concept lane_random_bits = random_bits<B> && requires(B const bits, position where, u32* words) {
  bits.draw_lanes(where, 1, words);
};

}  // namespace FOURSCALE_NAMESPACE
