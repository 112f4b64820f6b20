// SPDX-License-Identifier: Apache-2.0
// Many matrices of one width, packed row by row, in one launch: the experts of an MoE layer.
#pragma once

#include "../cta/group_walk.cuh"
#include "quantize_rows.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// Four vectors of N values a thread, or the same values one by one.
template <bool Aligned, int N, class T>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    amax_grouped_kernel(matrix_view<T const> x, cta::group_walk<4, false> walk, i32* largest) {
  const auto cursor = walk.begin();
  cta::values<T, N> raw[cursor.batch] = {};
  i32 mine = 0;
  const auto raise = [&](i32 magnitude) { mine = magnitude > mine ? magnitude : mine; };
  FOURSCALE_UNROLL
  for (int k = 0; k < cursor.batch; ++k) {
    if (!cursor.inside(k)) continue;
    const cta::place at = cursor.at(k);
    if constexpr (Aligned)
      raw[k] = cta::values<T, N>::load(&x.at(at.row, at.block * N));
    else
      for (i64 c = at.block * N; c < at.block * N + N && c < x.cols; ++c)
        raise(amax_bits(to_float(x.at(at.row, c))));
  }
  if (cursor.tile.rows <= 0) return;
  if constexpr (Aligned) {
    FOURSCALE_UNROLL
    for (int k = 0; k < cursor.batch; ++k) raise(bit_cast<i32>(raw[k].amax()));
  }
  raise_by_cta(mine, largest + cursor.tile.group);
}

/// CTAs of one launch: more than fit in a grid are too many.
template <class Walk>
bool fits_grid(Walk const& walk, i64 rows) {
  return walk.tiles.bound(rows) <= 0x7fff'ffff / i64{walk.tiles_along.d};
}

}  // namespace detail

/// The largest magnitude of each group of packed rows to amax[0 .. groups.count) (device memory), as amax()
/// gives it; 0 for an empty group. A memset and a kernel on the stream, graph-capturable; never synchronises,
/// never allocates. Errors: see validate(); `amax` is then untouched. The offsets are trusted.
template <class T>
errc amax_grouped(matrix_view<T> const& x, row_groups const& groups, float* amax,
                  cudaStream_t stream = nullptr) {
  if (const errc e = validate(x); e != errc::ok) return e;
  if (const errc e = validate(groups); e != errc::ok) return e;
  if (const errc e = fourscale::detail::check_amax_output(amax); e != errc::ok) return e;
  const auto m = detail::as_input(x);
  using value = typename decltype(m)::value_type;
  constexpr int n = 32 / static_cast<int>(sizeof(value));
  const auto walk = cta::group_walk<4, false>::over(groups, ceil_div<i64>(m.cols, n));
  if (!detail::fits_grid(walk, m.rows)) return errc::too_large;
  if (cudaMemsetAsync(amax, 0, static_cast<u64>(groups.count) * sizeof(float), stream) != cudaSuccess)
    return errc::cuda_failed;
  auto* const kernel = m.cols % n == 0 && detail::rows_are_vectors(m)
                           ? &detail::amax_grouped_kernel<true, n, value>
                           : &detail::amax_grouped_kernel<false, n, value>;
  kernel<<<static_cast<unsigned>(walk.ctas(m.rows)), detail::cta_threads, 0, stream>>>(
      m, walk, reinterpret_cast<i32*>(amax));
  return detail::launched();
}

/// Quantizes each group of packed rows under its own amax if q has amax_of_groups(), else under the one of q;
/// every pointer is device memory, groups.offsets included. Equal to
/// host::quantize_grouped in every bit, and so to quantize() of each group by itself, but for random
/// rounding, which takes the row of the packed matrix. One kernel on the stream, graph-capturable; never
/// synchronises, never allocates. Errors: see validate_grouped(); q is then untouched. The offsets are
/// trusted.
template <class T, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
errc quantize_grouped(matrix_view<T> const& x, block_scaled_view<F, Layout> const& q,
                      row_groups const& groups, Quantizer const& quantizer = {},
                      cudaStream_t stream = nullptr) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Grouped quantization reads values of two or four bytes.");
  static_assert(block_scale_bytes<F> == 1 || !Layout::has_padding,
                "Only scales of one byte have a layout with padding.");
  if (const errc e = validate_grouped(x, q, groups, quantizer); e != errc::ok) return e;
  const Quantizer of_input = for_input<typename matrix_view<T>::value_type>(quantizer);
  const auto m = detail::as_input(x);
  using value = typename decltype(m)::value_type;
  constexpr int n = F::block_size, batch = cta::blocks_on_the_way<n, value>;
  const auto walk = cta::group_walk<batch, Layout::has_padding>::over(groups, q.blocks());
  if (!detail::fits_grid(walk, m.rows)) return errc::too_large;
  const auto launch = [&](auto source, auto sink) {
    detail::launch_walk(walk, source, sink, q.amax, of_input, dim3(static_cast<unsigned>(walk.ctas(m.rows))),
                        stream);
  };
  const auto from = [&](auto source) {
    if constexpr (!Layout::has_padding)
      launch(source, cta::view_sink<F, Layout>{q});
    else if (detail::codes_are_words(q))
      launch(source, cta::swizzled_sink<F, true>{q});
    else
      launch(source, cta::swizzled_sink<F, false>{q});
  };
  if (detail::rows_are_vectors(m))
    from(cta::matrix_producer<value, n, cta::access::vectors>{m.data, m.rows, m.cols, m.ld});
  else
    from(cta::matrix_producer<value, n, cta::access::anywhere>{m.data, m.rows, m.cols, m.ld});
  return detail::launched();
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
