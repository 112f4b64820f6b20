// SPDX-License-Identifier: Apache-2.0
// Which values share a scale: a run along a row, or a square tile.
#pragma once

#include "../bits.hpp"

namespace fourscale {

/// One scale for block_size consecutive values of a row: activations and gradients.
struct blocks_1d {
  static constexpr bool is_2d = false;
};

/// One scale for a Rows x Cols tile: weights, so that the matrix and its transpose quantize to the same
/// numbers. Rows = Cols = the format's block size.
template <int Rows, int Cols>
struct blocks_2d {
  static constexpr bool is_2d = true;
  static constexpr int rows = Rows, cols = Cols;
};

}  // namespace fourscale
