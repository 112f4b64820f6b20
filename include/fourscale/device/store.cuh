// SPDX-License-Identifier: Apache-2.0
// What the quantizing kernels share: storing a block, and the tensor scale of a row.
#pragma once

#include "../block/quantize.hpp"
#include "launch.cuh"

namespace fourscale::device::detail {

template <class F, class Layout>
FOURSCALE_D void store_block(block_scaled_view<F, Layout> const& q, i64 row, i64 block,
                             packed_block<F> const& b) {
  u8* const to = q.codes + q.code_offset(row, block);
  q.store_scale(row, block, b.scale);
  if (reinterpret_cast<u64>(to) % 8 == 0)
    store_codes<8>(b.codes, to);
  else
    store_codes<1>(b.codes, to);
}

/// The widest words that every block is a whole number of.
template <class F>
inline constexpr int code_word = block_code_bytes<F> % 16 == 0 ? 16 : 8;

/// The same where q.codes is a multiple of code_word<F>.
template <class F, class Layout>
FOURSCALE_D void store_aligned_block(block_scaled_view<F, Layout> const& q, i64 row, i64 block,
                                     packed_block<F> const& b) {
  q.store_scale(row, block, b.scale);
  store_codes<code_word<F>>(b.codes, q.codes + q.code_offset(row, block));
}

/// The tensor scale of a row: that of the tensor, unless each row has an amax of its own.
template <class F>
FOURSCALE_D tensor_scale<F> tensor_scale_of([[maybe_unused]] tensor_amax<F> const& amax,
                                            [[maybe_unused]] i64 row, tensor_scale<F> const& of_tensor) {
  if constexpr (F::has_tensor_scale)
    if (amax.kind == amax_kind::per_row) return amax.scale_of_row(row);
  return of_tensor;
}

}  // namespace fourscale::device::detail
