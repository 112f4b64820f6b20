// SPDX-License-Identifier: Apache-2.0
// The kernels for blocks of 128 and of 128 x 128 values of a matrix in memory.
#pragma once

#include "../cta/quantize_wide.cuh"
#include "quantize_rows.cuh"
#include "quantize_tiles.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {
namespace detail {

template <class F, class Walk, class Producer, class Sink, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads, 4)
    quantize_wide_kernel(Walk walk, Producer source, Sink sink, Quantizer q) {
  cta::quantize_wide_rows<F>(walk.begin(), source, sink, q);
}

/// A CTA takes a square; they are counted from the end of the scale layout, along rows.
template <class F, class Producer, class Sink, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads, sizeof(typename Producer::block_type) > 32 ? 3 : 4)
    quantize_wide_squares_kernel(cta::divisor along, Producer source, Sink sink, Quantizer q) {
  __shared__ cta::reduction shared;
  const u32 at = cta::cta_from_end(), row = along.quotient(at);
  cta::quantize_wide_square<F>(row, at - row * along.d, source, sink, q, shared);
}

template <bool Aligned, class F, class Layout, class Producer, class Quantizer, bool Is2d>
void launch_wide_from(Producer const& source, block_scaled_view<F, Layout> const& q,
                      Quantizer const& quantizer, cta::detail::boolean<Is2d>, cudaStream_t stream) {
  using value = decltype(typename Producer::block_type{}.get(0));
  constexpr int n = cta::piece_values;
  const cta::wide_sink<F, Layout, Aligned> sink{q};
  if constexpr (Is2d) {
    const cta::divisor along(static_cast<u32>(Layout::padded_blocks(q.blocks())));
    const i64 squares = ceil_div<i64>(Layout::padded_rows(q.rows), F::block_size) * along.d;
    quantize_wide_squares_kernel<F><<<static_cast<unsigned>(squares), cta_threads, 0, stream>>>(
        along, source, sink, cta::prepared(quantizer));
  } else {
    using walk_type = cta::row_walk<cta::blocks_on_the_way<n, value>, Layout::has_padding>;
    const auto walk = walk_type::over(cta::layout_of_pieces<Layout>{}, q.rows, q.cols / n);
    quantize_wide_kernel<F>
        <<<walk.grid(), cta_threads, 0, stream>>>(walk, source, sink, cta::prepared(quantizer));
  }
}

/// Chooses the kernel by where the rows of x and the buffers of q lie.
template <class F, class Layout, class T, class Quantizer, bool Is2d>
void launch_wide(matrix_view<T const> const& x, block_scaled_view<F, Layout> const& q,
                 Quantizer const& quantizer, cta::detail::boolean<Is2d> shape, cudaStream_t stream) {
  constexpr int n = cta::piece_values;
  using cta::access, cta::matrix_producer;
  const bool aligned = rows_are_vectors(x) && reinterpret_cast<u64>(q.codes) % 16 == 0 &&
                       reinterpret_cast<u64>(q.scales) % 4 == 0;
  if (!aligned)
    return launch_wide_from<false>(matrix_producer<T, n, access::anywhere>{x.data, x.rows, x.cols, x.ld}, q,
                                   quantizer, shape, stream);
  if constexpr (same_type<Layout, linear> && !Is2d)
    if (access_of<Layout>(x) == access::contiguous)
      return launch_wide_from<true>(matrix_producer<T, n, access::contiguous>{x.data, x.rows, x.cols, x.ld},
                                    q, quantizer, shape, stream);
  launch_wide_from<true>(matrix_producer<T, n, access::vectors>{x.data, x.rows, x.cols, x.ld}, q, quantizer,
                         shape, stream);
}

}  // namespace detail
}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
