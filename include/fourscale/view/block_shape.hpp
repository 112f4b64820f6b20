// SPDX-License-Identifier: Apache-2.0
// The shape of a block, which is the set of values that share a scale: a run along a row, or a square tile.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE {

/// One scale for block_size consecutive values of a row. Used for activations and gradients.
struct blocks_1d {
  static constexpr bool is_2d = false;
};

/// One scale for a Rows x Cols tile. Used for weights, so that the matrix and its transpose quantize to the
/// same numbers. Rows = Cols = the format's block size.
template <int Rows, int Cols>
struct blocks_2d {
  static constexpr bool is_2d = true;
  static constexpr int rows = Rows, cols = Cols;
};

/// blocks_1d or a blocks_2d.
template <class Blocks>
concept block_shape = requires {
  Blocks::is_2d;
};

namespace detail {

template <class Blocks, class F>
FOURSCALE_H constexpr bool shape_fits() {
  if constexpr (!block_shape<Blocks>)
    return false;
  else if constexpr (Blocks::is_2d)
    return Blocks::rows == F::block_size && Blocks::cols == F::block_size;
  else
    return true;
}

}  // namespace detail

/// True if format F can have blocks of that shape: 1-D blocks always; 2-D blocks if they are squares of the
/// format's block size.
template <class Blocks, class F>
inline constexpr bool fits_format = detail::shape_fits<Blocks, F>();

}  // namespace FOURSCALE_NAMESPACE
