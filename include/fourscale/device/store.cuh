// SPDX-License-Identifier: Apache-2.0
// What the quantizing kernels share: storing a block, and the tensor scale of a row.
#pragma once

#include "../block/quantize.hpp"
#include "launch.cuh"

namespace fourscale::device::detail {

template <class F, class Layout>
FOURSCALE_D void store_block(block_scaled_view<F, Layout> const& q, i64 row, i64 block,
                             packed_block<F> const& b) {
  q.store_scale(row, block, b.scale);
  store_codes(b.codes, q.codes + q.code_offset(row, block));
}

/// The tensor scale that a row is quantized under: by its own amax if it has one.
template <class F, class Layout, class Scale>
FOURSCALE_D tensor_scale<F> tensor_scale_of([[maybe_unused]] block_scaled_view<F, Layout> const& q,
                                            [[maybe_unused]] i64 row, [[maybe_unused]] Scale const& scale,
                                            tensor_scale<F> const& of_tensor) {
  if constexpr (F::has_tensor_scale)
    if (q.row_amax != nullptr) return tensor_scale_for<F>(scale, q.row_amax[row]);
  return of_tensor;
}

}  // namespace fourscale::device::detail
