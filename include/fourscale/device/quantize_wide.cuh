// SPDX-License-Identifier: Apache-2.0
// The kernels for FP8 blocks of 128 and of 128 x 128 values of a matrix in memory, and their launches.
// cta/quantize_wide.cuh and cta/quantize_wide_columns.cuh have the work of a CTA.
#pragma once

#include "../cta/quantize_wide_columns.cuh"
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

/// A CTA takes a square. Squares are counted along the rows of the scale layout; CTAs begin at the last one.
template <class F, class Producer, class Sink, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads, sizeof(typename Producer::block_type) > 32 ? 3 : 4)
    quantize_wide_squares_kernel(cta::divisor along, Producer source, Sink sink, Quantizer q) {
  __shared__ cta::reduction shared;
  const u32 at = cta::cta_from_end(), row = along.quotient(at);
  const cta::tile_cursor cursor{sink.q, row * i64{F::block_size},
                                (at - row * along.d) * i64{cta::pieces_of_block}};
  cta::quantize_wide_square<F>(cursor, source, sink, q, shared);
}

/// True if wide_sink may be `Aligned`.
template <class F, class Layout>
bool takes_words(block_scaled_view<F, Layout> const& q) {
  return reinterpret_cast<u64>(q.codes) % 16 == 0 && reinterpret_cast<u64>(q.scales) % 4 == 0;
}

/// Launches the kernel for the rowwise copy, with `source` as the producer of its pieces.
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

/// Launches a CTA for each of `along` x `down` squares, with dynamic shared memory for a wide_tile<T>.
template <class T, class... Parameters, class... Arguments>
void launch_by_squares(void (*kernel)(cta::divisor, Parameters...), i64 along, i64 down, cudaStream_t stream,
                       Arguments const&... arguments) {
  constexpr int bytes = static_cast<int>(sizeof(cta::wide_tile<T>));
  if constexpr (bytes > 48 << 10)  // if this fails, the launch fails, too
    static_cast<void>(cudaFuncSetAttribute(reinterpret_cast<void const*>(kernel),
                                           cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  kernel<<<static_cast<unsigned>(along * down), cta_threads, bytes, stream>>>(
      cta::divisor(static_cast<u32>(along)), arguments...);
}

/// A CTA makes the columnwise copy of a square of x. Squares are counted along the rows of x.
template <bool Is2d, bool Aligned, class F, class T, class Layout, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads, sizeof(T) == 2 ? 3 : 2)
    quantize_wide_columns_kernel(cta::divisor along, matrix_view<T const> x, block_scaled_view<F, Layout> qt,
                                 Quantizer q) {
  extern __shared__ __align__(16) u8 wide_columns_memory[];
  __shared__ cta::reduction shared;
  const u32 at = cta::cta_from_end(), block = along.quotient(at);
  cta::quantize_wide_columns<F, Is2d>(at - block * along.d, block, x, cta::wide_sink<F, Layout, Aligned>{qt},
                                      q, *reinterpret_cast<cta::wide_tile<T>*>(wide_columns_memory), shared);
}

template <bool Is2d, bool Aligned, class F, class T, class Layout, class Quantizer>
void launch_wide_columns_from(matrix_view<T const> const& x, block_scaled_view<F, Layout> const& qt,
                              Quantizer const& quantizer, cudaStream_t stream) {
  launch_by_squares<T>(&quantize_wide_columns_kernel<Is2d, Aligned, F, T, Layout, Quantizer>,
                       ceil_div<i64>(Layout::padded_rows(qt.rows), F::block_size),
                       Layout::padded_blocks(qt.blocks()), stream, x, qt, quantizer);
}

/// A CTA makes both copies of a square.
template <bool Is2d, bool Aligned, class F, class T, class Layout, class LayoutT, class Rowwise,
          class Columnwise>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads, sizeof(T) == 2 ? 3 : 2)
    quantize_wide_both_kernel(cta::divisor along, matrix_view<T const> x, block_scaled_view<F, Layout> q,
                              block_scaled_view<F, LayoutT> qt, Rowwise rowwise, Columnwise columnwise) {
  extern __shared__ __align__(16) u8 wide_both_memory[];
  __shared__ cta::reduction shared;
  const u32 at = cta::cta_from_end(), down = along.quotient(at);
  cta::quantize_wide_both<F, Is2d>(down, at - down * along.d, x, cta::wide_sink<F, Layout, Aligned>{q},
                                   rowwise, cta::wide_sink<F, LayoutT, Aligned>{qt}, columnwise,
                                   *reinterpret_cast<cta::wide_tile<T>*>(wide_both_memory), shared);
}

template <bool Is2d, bool Aligned, class F, class T, class Layout, class LayoutT, class Rowwise,
          class Columnwise>
void launch_wide_both_from(matrix_view<T const> const& x, block_scaled_view<F, Layout> const& q,
                           block_scaled_view<F, LayoutT> const& qt, Rowwise const& rowwise,
                           Columnwise const& columnwise, cudaStream_t stream) {
  constexpr i64 n = F::block_size;
  // The squares of each copy, padding included, along the rows of x and down.
  const i64 along_r = Layout::padded_blocks(q.blocks()),
            along_c = ceil_div<i64>(LayoutT::padded_rows(qt.rows), n),
            down_r = ceil_div<i64>(Layout::padded_rows(q.rows), n),
            down_c = LayoutT::padded_blocks(qt.blocks());
  launch_by_squares<T>(&quantize_wide_both_kernel<Is2d, Aligned, F, T, Layout, LayoutT, Rowwise, Columnwise>,
                       along_r > along_c ? along_r : along_c, down_r > down_c ? down_r : down_c, stream, x, q,
                       qt, rowwise, columnwise);
}

/// Both copies of a matrix in memory.
template <bool Is2d, class F, class T, class Layout, class LayoutT, class Rowwise, class Columnwise>
void launch_wide_both(matrix_view<T const> const& x, block_scaled_view<F, Layout> const& q,
                      block_scaled_view<F, LayoutT> const& qt, Rowwise const& rowwise,
                      Columnwise const& columnwise, cudaStream_t stream) {
  const auto r = cta::prepared(rowwise);
  const auto c = cta::prepared(columnwise);
  if (rows_are_vectors(x) && takes_words(q) && takes_words(qt))
    launch_wide_both_from<Is2d, true>(x, q, qt, r, c, stream);
  else
    launch_wide_both_from<Is2d, false>(x, q, qt, r, c, stream);
}

/// The columnwise copy of a matrix in memory.
template <class F, class Layout, class T, class Quantizer, bool Is2d>
void launch_wide_columns(matrix_view<T const> const& x, block_scaled_view<F, Layout> const& qt,
                         Quantizer const& quantizer, cta::detail::boolean<Is2d>, cudaStream_t stream) {
  if (rows_are_vectors(x) && takes_words(qt))
    launch_wide_columns_from<Is2d, true>(x, qt, cta::prepared(quantizer), stream);
  else
    launch_wide_columns_from<Is2d, false>(x, qt, cta::prepared(quantizer), stream);
}

/// The rowwise copy of a matrix in memory. Alignment of x and q decides which producer and which sink the
/// kernel has.
template <class F, class Layout, class T, class Quantizer, bool Is2d>
void launch_wide(matrix_view<T const> const& x, block_scaled_view<F, Layout> const& q,
                 Quantizer const& quantizer, cta::detail::boolean<Is2d> shape, cudaStream_t stream) {
  constexpr int n = cta::piece_values;
  using cta::access, cta::matrix_producer;
  if (!rows_are_vectors(x) || !takes_words(q))
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
