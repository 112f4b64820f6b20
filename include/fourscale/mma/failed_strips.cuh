// SPDX-License-Identifier: Apache-2.0
// Which outputs the kernel of wgmma_in_32s.cuh leaves to that of f16_tile.cuh, as it has no certificate for
// them.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::mma {

/// A byte for each strip of 16 rows by 64 columns. The first word says whether there are any. Without memory,
/// all outputs count as failed.
struct failed_strips {
  static constexpr int rows = 16, cols = 64;
  u32* any = nullptr;
  i64 across = 0;  ///< strips side by side

  FOURSCALE_HD static constexpr i64 words(i64 m, i64 n) {
    return 1 + ceil_div<i64>(ceil_div<i64>(m, rows) * ceil_div<i64>(n, cols), 4);
  }
  FOURSCALE_HD static constexpr i64 bytes(i64 m, i64 n) { return 4 * words(m, n); }
  FOURSCALE_HD static failed_strips in(u8* at, i64 n) {
    return {reinterpret_cast<u32*>(at), ceil_div<i64>(n, cols)};
  }
  FOURSCALE_D bool has_none() const { return any != nullptr && *any == 0; }
  FOURSCALE_HD u8& of(i64 row, i64 col) const {
    return reinterpret_cast<u8*>(any + 1)[row / rows * across + col / cols];
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma
