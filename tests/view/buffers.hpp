// SPDX-License-Identifier: Apache-2.0
// Arguments of matrix functions, good ones, in memory that shows whether anything was written.
#pragma once

#include <fourscale/fourscale.hpp>

namespace fourscale::test {

inline constexpr i64 rows = 16, cols = 32;
using matrix = matrix_view<float>;
using blocks = block_scaled_view<nvfp4>;

/// One buffer for everything, so that overlaps are a matter of offsets: values, codes, scales; amaxes, one a
/// row.
struct buffers {
  alignas(16) u8 bytes[4096];
  float* x = reinterpret_cast<float*>(bytes);
  u8 *codes = bytes + 2048, *scales = codes + 256;
  float* amaxes = reinterpret_cast<float*>(bytes + 3840);

  buffers() {
    for (u8& b : bytes) b = 0x5a;
  }
  buffers(buffers const&) = delete;
  matrix values() { return {x, rows, cols}; }
  blocks quantized() { return {codes, scales, rows, cols, amax_in(amaxes)}; }
  bool untouched() const {
    for (const u8 b : bytes)
      if (b != 0x5a) return false;
    return true;
  }
};

inline float const* floats_at(u8 const* p) { return reinterpret_cast<float const*>(p); }

}  // namespace fourscale::test
