// SPDX-License-Identifier: Apache-2.0
// The kernel for blocks along rows, cta::quantize(), and the choice of its walk, producer and sink.
#pragma once

#include "../cta/quantize.cuh"
#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {
namespace detail {

/// CTAs of 256 threads per SM, so that a kernel has the registers that it needs. Three kinds take more: wide
/// blocks by tiles, loads that are still to be shifted, and E2M1 on GPUs without FP8 conversions.
template <class F, class Walk, class Producer>
inline constexpr int row_ctas = (F::block_size > 16 && cta::by_tiles<Walk> && Walk::cursor::batch == 2) ||
                                requires(Producer p, cta::place at) {
  p.start(at);
}
|| (FOURSCALE_DEVICE_PASS > 0 && !arch::has_cvt_fp8) ? 3 : 4;

template <class F, bool ByRow, class Walk, class Producer, class Sink, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads, row_ctas<F, Walk, Producer>)
    quantize_kernel(Walk walk, Producer source, Sink sink, tensor_amax<F> amax, Quantizer q) {
  __shared__ typename Sink::memory memory;
  cta::quantize<F, ByRow>(walk.begin(), source, sink, memory, amax, q);
}

template <class F, class Walk, class Producer, class Sink, class Quantizer>
void launch_walk(Walk const& walk, Producer const& source, Sink const& sink, tensor_amax<F> const& amax,
                 Quantizer const& q, dim3 grid, cudaStream_t stream) {
  if constexpr (F::has_tensor_scale)
    if (amax.by_row()) {
      quantize_kernel<F, true><<<grid, cta_threads, 0, stream>>>(walk, source, sink, amax, cta::prepared(q));
      return;
    }
  quantize_kernel<F, false><<<grid, cta_threads, 0, stream>>>(walk, source, sink, amax, cta::prepared(q));
}

/// True for the types that cta::values can hold.
template <class T>
inline constexpr bool is_loadable = sizeof(T) == 2 || sizeof(T) == 4;

/// True if scales are gathered by tiles, so that whole sectors of them are written.
template <class F, class Layout>
inline constexpr bool gathers_scales = block_scale_bytes<F> == 1 && same_type<Layout, swizzled_128x4>;

/// How the blocks of a matrix are read.
template <class Layout, class T>
cta::access access_of(matrix_view<T const> const& x) {
  if (!rows_are_vectors(x)) return cta::access::anywhere;
  return same_type<Layout, linear> && (x.ld == x.cols || x.rows == 1) ? cta::access::contiguous
                                                                      : cta::access::vectors;
}

/// The walks through a single matrix. (quantize_grouped.cuh has those through groups.)
struct matrix_walks {
  template <int Batch, class F, class Layout>
  static auto along_rows(block_scaled_view<F, Layout> const& q) {
    return cta::row_walk<Batch, Layout::has_padding>::over(Layout{}, q.rows, q.blocks());
  }
  template <int Batch, class F, class Layout>
  static auto by_tiles(block_scaled_view<F, Layout> const& q) {
    return cta::tile_walk<Batch>::over(q.rows, q.blocks());
  }
};

/// Quantizes what a producer makes block by block: by tiles of swizzled scales, or along rows.
template <class F, class Layout, class Producer, class Quantizer, class Walks = matrix_walks>
void launch_rows(Producer const& source, block_scaled_view<F, Layout> const& q, Quantizer const& quantizer,
                 cudaStream_t stream, Walks const& walks = {}) {
  using value = decltype(typename Producer::block_type{}.get(0));
  // A policy that weighs gets smaller batches: more blocks take more instructions than a cache holds, and
  // more registers. The loop of a walk by tiles takes some more.
  constexpr bool weighs = !amax_scaling_policy<decltype(quantizer.scale), F>;
  constexpr int all = cta::blocks_on_the_way<F::block_size, value>, batch = !weighs || all == 1 ? all
                                                                            : gathers_scales<F, Layout>
                                                                                ? 1
                                                                                : all / 2;
  const auto launch = [&](auto const& walk, auto const& sink) {
    launch_walk(walk, source, sink, q.amax, quantizer, walk.grid(), stream);
  };
  if constexpr (gathers_scales<F, Layout>) {
    const auto walk = walks.template by_tiles<batch>(q);
    if (codes_are_words(q))
      launch(walk, cta::swizzled_sink<F, true, walk.scale_tiles>{q});
    else
      launch(walk, cta::swizzled_sink<F, false, walk.scale_tiles>{q});
  } else {
    const auto walk = walks.template along_rows<batch>(q);
    if constexpr (same_type<Layout, linear>)
      if (codes_are_words(q)) return launch(walk, cta::linear_sink<F>{q.codes, q.scales});
    launch(walk, cta::view_sink<F, Layout>{q});
  }
}

/// Quantizes a matrix in memory; how its rows lie decides which producer reads it.
template <class F, class Layout, class T, class Quantizer, class Walks = matrix_walks>
void launch_matrix(matrix_view<T const> const& x, block_scaled_view<F, Layout> const& q,
                   Quantizer const& quantizer, cudaStream_t stream, Walks const& walks = {}) {
  using cta::access;
  const auto from = [&](auto source) { launch_rows(source, q, quantizer, stream, walks); };
  constexpr int n = F::block_size;
  const access how = access_of<Layout>(x);
  if (how == access::anywhere)
    return from(cta::matrix_producer<T, n, access::anywhere>{x.data, x.rows, x.cols, x.ld});
  if constexpr (same_type<Layout, linear>)
    if (how == access::contiguous)
      return from(cta::matrix_producer<T, n, access::contiguous>{x.data, x.rows, x.cols, x.ld});
  from(cta::matrix_producer<T, n, access::vectors>{x.data, x.rows, x.cols, x.ld});
}

/// Quantizes any view, value by value.
template <class F, class Layout, class M, class Quantizer>
void launch_view(M const& x, block_scaled_view<F, Layout> const& q, Quantizer const& quantizer,
                 cudaStream_t stream) {
  const auto walk = cta::any_walk<M::is_transposed>::over(Layout{}, q.rows, q.blocks());
  launch_walk(walk, cta::view_producer<M, F::block_size>{x}, cta::view_sink<F, Layout>{q}, q.amax, quantizer,
              walk.grid(), stream);
}

}  // namespace detail
}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
