// SPDX-License-Identifier: Apache-2.0
// Scale layouts: where the scale of (row, block) lies. A layout is an empty struct with three index maps, and
// a flag that is true if some bytes are padding.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE {

/// Row-major, rows x blocks bytes, without padding: the layout of checkpoints.
struct linear {
  static constexpr bool has_padding = false;
  FOURSCALE_HD static constexpr i64 padded_rows(i64 rows) { return rows; }
  FOURSCALE_HD static constexpr i64 padded_blocks(i64 blocks) { return blocks; }
  /// The byte offset of the scale of (row, block); `blocks` is the number of blocks in a row.
  FOURSCALE_HD static constexpr i64 offset(i64 row, i64 block, i64 blocks) { return row * blocks + block; }
};

/// Tiles of 128 rows x 4 blocks, 512 bytes each, as the tensor cores read them. Rows are padded to a multiple
/// of 128 and blocks to a multiple of 4; the padding is zero. PTX ISA 9.7.16.10 (scale factors), cuBLAS "1D
/// block scaling factors layout"; the same for E4M3 and E8M0.
struct swizzled_128x4 {
  static constexpr bool has_padding = true;
  FOURSCALE_HD static constexpr i64 padded_rows(i64 rows) { return round_up<i64>(rows, 128); }
  FOURSCALE_HD static constexpr i64 padded_blocks(i64 blocks) { return round_up<i64>(blocks, 4); }
  FOURSCALE_HD static constexpr i64 offset(i64 row, i64 block, i64 blocks) {
    const i64 tile = (row / 128) * ceil_div<i64>(blocks, 4) + block / 4;
    return tile * 512 + (row % 32) * 16 + (row % 128) / 32 * 4 + block % 4;
  }
};

/// A scale layout: maps (row, block) to a byte, one to one, within padded_rows * padded_blocks bytes.
template <class L>
concept scale_layout = requires(i64 n) {
  L::has_padding, L::padded_rows(n), L::padded_blocks(n), L::offset(n, n, n);
};

}  // namespace FOURSCALE_NAMESPACE
