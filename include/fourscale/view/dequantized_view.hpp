// SPDX-License-Identifier: Apache-2.0
// A quantized matrix read as if it were a matrix of floats: the source of a requantization.
#pragma once

#include "../block/quantize.hpp"
#include "validate.hpp"

namespace FOURSCALE_NAMESPACE {

/// The values of a quantized matrix, or of its transpose, computed as they are read. They are what
/// dequantize() to float stores. quantize(transposed(dequantized(q)), qt, quantizer) requantizes from 4 bits
/// without a copy in between.
template <block_format F, scale_layout Layout, bool Transposed = false>
struct dequantized_view {
  using value_type = float;
  static constexpr bool is_transposed = Transposed;
  static constexpr bool is_only_read = true;

  block_scaled_view<F, Layout, u8 const> base;
  i64 rows = 0, cols = 0;

  FOURSCALE_HD constexpr float at(i64 r, i64 c) const {
    const i64 row = Transposed ? c : r, col = Transposed ? r : c;
    const float scale = decode(base.load_scale(row, col / F::block_size));
    return ptx::mul_rn_f32(decode(base.load_code(row, col)),
                           base.amax.scale_of_row(row).dequantize_factor(scale));
  }
};

/// q as a matrix of floats.
template <class F, class Layout, class Byte>
FOURSCALE_HD constexpr dequantized_view<F, Layout> dequantized(block_scaled_view<F, Layout, Byte> const& q) {
  return {q, q.rows, q.cols};
}

template <class F, class Layout>
FOURSCALE_HD constexpr dequantized_view<F, Layout, true> transposed(dequantized_view<F, Layout> const& m) {
  return {m.base, m.cols, m.rows};
}

template <class F, class Layout, bool Transposed>
FOURSCALE_H errc validate(dequantized_view<F, Layout, Transposed> const& m) {
  const bool is_base = Transposed ? m.rows == m.base.cols && m.cols == m.base.rows
                                  : m.rows == m.base.rows && m.cols == m.base.cols;
  return is_base ? validate(m.base) : errc::shape_mismatch;
}

namespace detail {
template <class F, class Layout, bool Transposed>
FOURSCALE_H bool overlaps(dequantized_view<F, Layout, Transposed> const& m, byte_range range) {
  return overlaps(m.base, range) || overlap(bytes_of_amax(m.base.amax, m.base.rows), range);
}
}  // namespace detail

}  // namespace FOURSCALE_NAMESPACE
