// SPDX-License-Identifier: Apache-2.0
// Whole matrices on a stream. Every kernel is a loop around one block by one thread, or by eight threads if
// it is wide, so their bits are those of the host. Which of them a call takes: explain.cuh.
#pragma once

#include "../view/requirements.hpp"
#include "quantize_2d.cuh"
#include "quantize_rows.cuh"
#include "quantize_tiles.cuh"
#include "quantize_wide.cuh"

namespace fourscale::device {

namespace detail {

/// 1-D blocks: a matrix in memory along its rows, its columns by tiles, any other view value by value.
template <class F, class Layout, class M, class Quantizer>
void launch_1d(M const& x, block_scaled_view<F, Layout> const& q, Quantizer const& quantizer,
               cudaStream_t stream) {
  launch_view(x, q, quantizer, stream);
}
template <class F, class Layout, class T, class Quantizer>
void launch_1d(matrix_view<T const> const& x, block_scaled_view<F, Layout> const& q,
               Quantizer const& quantizer, cudaStream_t stream) {
  if constexpr (is_loadable<T>)
    launch_matrix(x, q, quantizer, stream);
  else
    launch_view(x, q, quantizer, stream);
}
template <class F, class Layout, class T, class Quantizer>
void launch_1d(transposed_view<T const> const& x, block_scaled_view<F, Layout> const& q,
               Quantizer const& quantizer, cudaStream_t stream) {
  if constexpr (has_tiles<T, F>)
    if (fits_tiles(x.base, q)) return launch_columns(x.base, q, quantizer, stream);
  launch_view(x, q, quantizer, stream);
}

/// 2-D blocks: of a matrix in memory by tiles where squares round alike, of any other view by rows of
/// squares.
template <class F, class Layout, class M, class Quantizer>
void launch_2d(M const& x, block_scaled_view<F, Layout> const& q, Quantizer const& quantizer,
               cudaStream_t stream) {
  if constexpr (requires { x.data; }) {
    if constexpr (has_tiles<typename M::value_type, F> && cta::has_like_squares<F, Quantizer>)
      if (fits_tiles(x, q)) return launch_row_squares(x, q, quantizer, stream);
  } else if constexpr (requires { x.base.data; }) {
    if constexpr (has_tiles<typename M::value_type, F> && cta::has_like_squares<F, Quantizer>)
      if (fits_tiles(x.base, q)) return launch_column_squares(x.base, q, quantizer, stream);
  }
  launch_2d_view(x, q, quantizer, stream);
}

/// Blocks of 128 and of 128 x 128 values of a matrix in memory: by eight threads, and by a CTA.
template <class F, class Layout, class T, class Quantizer>
requires(is_loadable<T>&& cta::is_wide<F, Quantizer>) void launch_1d(matrix_view<T const> const& x,
                                                                     block_scaled_view<F, Layout> const& q,
                                                                     Quantizer const& quantizer,
                                                                     cudaStream_t stream) {
  launch_wide(x, q, quantizer, cta::detail::boolean<false>{}, stream);
}
template <class F, class Layout, class T, class Quantizer>
requires(is_loadable<T>&& cta::is_wide<F, Quantizer>) void launch_2d(matrix_view<T const> const& x,
                                                                     block_scaled_view<F, Layout> const& q,
                                                                     Quantizer const& quantizer,
                                                                     cudaStream_t stream) {
  launch_wide(x, q, quantizer, cta::detail::boolean<true>{}, stream);
}

}  // namespace detail

/// Quantizes x into q, blocks along the rows of x; quantize(transposed(x), ...) makes the columnwise copy.
/// All pointers are device memory, that of the amax included. `blocks_1d{}`, or `blocks_2d<16, 16>{}` (32 for
/// MX) for square tiles. Every code and scale is written, padding with zero; equal to host::quantize in every
/// bit. One kernel on the stream; never synchronises, never allocates. Errors: see validate(); q is then
/// untouched.
template <class M, class F, class Layout, class Byte, class Quantizer, block_shape Blocks>
errc quantize(M const& x, block_scaled_view<F, Layout, Byte> const& q, Quantizer const& quantizer,
              Blocks shape, cudaStream_t stream = nullptr) {
  if constexpr (fourscale::detail::can_quantize<M, F, Byte, Quantizer, Blocks>()) {
    if (const errc e = validate(x, q, shape, quantizer); e != errc::ok) return e;
    const auto input = detail::as_input(x);
    const Quantizer of_input = for_input<typename M::value_type>(quantizer);
    if constexpr (Blocks::is_2d)
      detail::launch_2d(input, q, of_input, stream);
    else
      detail::launch_1d(input, q, of_input, stream);
    return detail::launched();
  }
  return errc::ok;
}

/// 1-D blocks.
template <matrix_like M, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
errc quantize(M const& x, block_scaled_view<F, Layout> const& q, Quantizer const& quantizer = {},
              cudaStream_t stream = nullptr) {
  return device::quantize(x, q, quantizer, blocks_1d{}, stream);
}

/// Quantizes what a producer makes, block by block, into q: a matrix that never lies in memory. See
/// cta/producer.cuh; it is as fast as a matrix that does. Errors: see validate(); q is then untouched.
template <cta::producer Producer, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
errc quantize(Producer const& source, block_scaled_view<F, Layout> const& q, Quantizer const& quantizer = {},
              cudaStream_t stream = nullptr) {
  if (const errc e = validate(q, quantizer); e != errc::ok) return e;
  if (source.rows != q.rows || source.cols != q.cols) return errc::shape_mismatch;
  using value = decltype(typename Producer::block_type{}.get(0));
  detail::launch_rows(source, q, for_input<value>(quantizer), stream);
  return detail::launched();
}

}  // namespace fourscale::device
