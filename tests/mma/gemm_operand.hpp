// SPDX-License-Identifier: Apache-2.0
// Random operands of a GEMM: every code and scale that is a number, NaN scales in the padding of layouts.
#pragma once

#include <cstddef>
#include <fourscale/view/block_scaled_view.hpp>
#include <vector>

#include "support/data.hpp"

namespace fourscale::test {

/// Codes and scales on the host; the view says which rows, columns and amax. `start` bytes lie before
/// the codes.
template <class F, class Layout>
struct gemm_operand_data {
  i64 rows, cols, start;
  std::vector<u8> codes, scales;
  float amax = 0;

  gemm_operand_data(i64 r, i64 c, u64 seed, i64 first = 0)
      : rows(r),
        cols(c),
        start(first),
        codes(static_cast<std::size_t>(first + code_bytes<F>(r, c))),
        scales(static_cast<std::size_t>(scale_bytes<F, Layout>(r, c)), u8{0xff}) {
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = code(mix(i * 1000 + seed));
    const block_scaled_view<F, Layout> q = view(codes.data(), scales.data());
    for (i64 i = 0; i < rows; ++i)
      for (i64 j = 0; j < q.blocks(); ++j)
        q.store_scale(i, j, {scale(mix(static_cast<u64>(i * q.blocks() + j) * 1000 + seed + 1))});
    if (F::has_tensor_scale) amax = static_cast<float>(37 + 3 * seed) / 10.0f;
  }

  /// What a buffer of the library holds.
  template <class Buffer>
  explicit gemm_operand_data(Buffer const& q, i64 first = 0)
      : rows(q.rows), cols(q.cols), start(first), codes(static_cast<std::size_t>(first)), scales(q.scales) {
    codes.insert(codes.end(), q.codes.begin(), q.codes.end());
    if constexpr (F::has_tensor_scale) amax = q.amax.value;
  }

  static u8 code(u64 r) {
    const u8 byte = static_cast<u8>(r >> 20);
    return F::element::width == 8 && (byte & 0x78) == 0x78 ? static_cast<u8>(byte ^ 0x40u) : byte;
  }
  /// Far enough apart that f32 cannot hold the sums exactly: only then do order and rounding show.
  static u8 scale(u64 r) {
    return static_cast<u8>(same_type<typename F::scale, e8m0> ? 118 + (r >> 20) % 16 : 0x10 + (r >> 20) % 80);
  }
  block_scaled_view<F, Layout> view(u8* c, u8* s) const {
    return {c + start, s, rows, cols, amax_value(amax)};
  }
  block_scaled_view<F, Layout> view() { return view(codes.data(), scales.data()); }
};

}  // namespace fourscale::test
