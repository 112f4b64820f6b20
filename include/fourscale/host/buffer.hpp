// SPDX-License-Identifier: Apache-2.0
// A quantized matrix that owns its memory, on the CPU. Opt-in, because it allocates and includes <vector>.
#pragma once

#include <vector>

#include "../view/validate.hpp"

namespace FOURSCALE_NAMESPACE {

/// The codes and scales of a rows x cols matrix in format F, zero at first, and its amax. Pass view() to host
/// functions. A shape that validate() would refuse gets no memory; the function that is given the view then
/// returns the error. Throws what std::vector throws if there is not enough memory.
template <block_format F, scale_layout Layout = linear>
struct host_buffer {
  std::vector<u8> codes, scales;
  i64 rows = 0, cols = 0;
  tensor_amax<F> amax{};  ///< set it at any time before view()

  FOURSCALE_H host_buffer() = default;
  FOURSCALE_H host_buffer(i64 r, i64 c, tensor_amax<F> a = {}) : rows(r), cols(c), amax(a) {
    if (detail::check_shape(r, c) != errc::ok || c % F::block_size != 0) return;
    codes.resize(static_cast<u64>(code_bytes<F>(r, c)));
    scales.resize(static_cast<u64>(scale_bytes<F, Layout>(r, c)));
  }

  /// A view that is valid until the buffer is destroyed, moved from or assigned to. It copies the current
  /// amax.
  FOURSCALE_H block_scaled_view<F, Layout> view() { return {codes, scales, rows, cols, amax}; }
  FOURSCALE_H block_scaled_view<F, Layout, u8 const> view() const {
    return {codes, scales, rows, cols, amax};
  }

  /// Codes and scales together.
  FOURSCALE_H i64 bytes() const { return static_cast<i64>(codes.size() + scales.size()); }
};

}  // namespace FOURSCALE_NAMESPACE
