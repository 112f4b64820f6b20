// SPDX-License-Identifier: Apache-2.0
// Quantizes whole matrices on a stream. Every kernel gives each block the bits that it has on the host.
// path.cuh decides which kernel a call takes; explain.cuh says it in words.
#pragma once

#include "../view/requirements.hpp"
#include "path.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// Launches the path that path_of() returns.
template <bool Is2d, class F, class Layout, class M, class Quantizer>
void launch(M const& x, block_scaled_view<F, Layout> const& q, Quantizer const& quantizer,
            cudaStream_t stream) {
  constexpr path best = best_path<F, Is2d, M, Quantizer>();
  if constexpr (best == path::rows) {
    launch_matrix(x, q, quantizer, stream);
  } else if constexpr (best == path::wide) {
    launch_wide(x, q, quantizer, cta::detail::boolean<Is2d>{}, stream);
  } else if constexpr (best == path::wide_columns) {
    launch_wide_columns(x.base, q, quantizer, cta::detail::boolean<Is2d>{}, stream);
  } else {
    if constexpr (is_by_tiles(best))
      if (path_of<Is2d, Quantizer>(x, q) == best) {
        if constexpr (best == path::columns) return launch_columns(x.base, q, quantizer, stream);
        if constexpr (best == path::row_squares) return launch_row_squares(x, q, quantizer, stream);
        if constexpr (best == path::column_squares)
          return launch_column_squares(x.base, q, quantizer, stream);
      }
    if constexpr (Is2d)
      launch_2d_view(x, q, quantizer, stream);
    else
      launch_view(x, q, quantizer, stream);
  }
}

}  // namespace detail

/// Quantizes x into q, in blocks along the rows of x; quantize(transposed(x), ...) makes the columnwise copy.
/// `shape` is blocks_1d{}, or blocks_2d<16, 16>{} (32 for MX) for square blocks. All pointers are device
/// memory, that of the amax included. Every code and scale is written, padding with zero; they equal those of
/// host::quantize in every bit. One kernel on the stream; never synchronises, never allocates. Errors: see
/// validate(); q is then untouched.
template <class M, class F, class Layout, class Byte, class Quantizer, block_shape Blocks>
errc quantize(M const& x, block_scaled_view<F, Layout, Byte> const& q, Quantizer const& quantizer,
              Blocks shape, cudaStream_t stream = nullptr) {
  if constexpr (fourscale::detail::can_quantize<M, F, Byte, Quantizer, Blocks>()) {
    if (const errc e = validate(x, q, shape, quantizer); e != errc::ok) return e;
    detail::launch<Blocks::is_2d>(detail::as_input(x), q, for_input<typename M::value_type>(quantizer),
                                  stream);
    return detail::launched();
  }
  return errc::ok;
}

/// The same with 1-D blocks.
template <matrix_like M, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
errc quantize(M const& x, block_scaled_view<F, Layout> const& q, Quantizer const& quantizer = {},
              cudaStream_t stream = nullptr) {
  return device::quantize(x, q, quantizer, blocks_1d{}, stream);
}

/// Quantizes into q a matrix that is never in memory: a producer makes it block by block, see
/// cta/producer.cuh. Errors: shape_mismatch, and those of validate(); q is then untouched.
template <cta::producer Producer, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
errc quantize(Producer const& source, block_scaled_view<F, Layout> const& q, Quantizer const& quantizer = {},
              cudaStream_t stream = nullptr) {
  if (const errc e = validate(q, quantizer); e != errc::ok) return e;
  if (source.rows != q.rows || source.cols != q.cols) return errc::shape_mismatch;
  using value = decltype(typename Producer::block_type{}.get(0));
  detail::launch_rows(source, q, for_input<value>(quantizer), stream);
  return detail::launched();
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
