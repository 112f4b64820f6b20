// SPDX-License-Identifier: Apache-2.0
// Amax and quantization of groups, in one launch: many matrices of one width, packed row by row, such as the
// experts of an MoE layer.
#pragma once

#include "../cta/group_walk.cuh"
#include "quantize_rows.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// Raises the amax of each group. A thread takes four vectors of N values; unless `Aligned`, it reads them
/// value by value.
template <bool Aligned, int N, class T>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    amax_grouped_kernel(matrix_view<T const> x, cta::group_walk<4> walk, i32* largest) {
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
  if (cursor.tile.count == 0) return;
  if constexpr (Aligned) {
    FOURSCALE_UNROLL
    for (int k = 0; k < cursor.batch; ++k) raise(bit_cast<i32>(raw[k].amax()));
  }
  raise_by_cta(mine, largest + cursor.tile.group);
}

/// The walks through the groups of a packed matrix, for launch_matrix() in place of matrix_walks.
struct packed_walks {
  row_groups groups;

  template <int Batch, class F, class Layout>
  auto along_rows(block_scaled_view<F, Layout> const& q) const {
    return cta::group_walk<Batch>::over(groups, q.rows, q.blocks());
  }
  template <int Batch, class F, class Layout>
  auto by_tiles(block_scaled_view<F, Layout> const& q) const {
    // Whole batches of E2M1 would take more registers in a loop than there are.
    constexpr int batch = F::element::width == 4 ? (Batch + 1) / 2 : Batch;
    return cta::group_tile_walk<batch>::over(groups, q.rows, q.blocks());
  }
};

}  // namespace detail

/// Writes the largest magnitude of each group of packed rows to amax[0 .. groups.count) (device memory), as
/// amax() gives it; 0 for an empty group. A memset and a kernel on the stream, graph-capturable; never
/// synchronises, never allocates. Errors: see validate(); `amax` is then untouched. The offsets are not
/// checked.
template <class T>
errc amax_grouped(matrix_view<T> const& x, row_groups const& groups, float* amax,
                  cudaStream_t stream = nullptr) {
  if (const errc e = validate(x); e != errc::ok) return e;
  if (const errc e = validate(groups); e != errc::ok) return e;
  if (const errc e = fourscale::detail::check_amax_output(amax); e != errc::ok) return e;
  const auto m = detail::as_input(x);
  using value = typename decltype(m)::value_type;
  constexpr int n = 32 / static_cast<int>(sizeof(value));
  const auto walk = cta::group_walk<4>::over(groups, m.rows, ceil_div<i64>(m.cols, n));
  if (walk.ctas() > 0x7fff'ffff) return errc::too_large;
  if (cudaMemsetAsync(amax, 0, static_cast<u64>(groups.count) * sizeof(float), stream) != cudaSuccess)
    return errc::cuda_failed;
  auto* const kernel = m.cols % n == 0 && detail::rows_are_vectors(m)
                           ? &detail::amax_grouped_kernel<true, n, value>
                           : &detail::amax_grouped_kernel<false, n, value>;
  kernel<<<walk.grid(), detail::cta_threads, 0, stream>>>(m, walk, reinterpret_cast<i32*>(amax));
  return detail::launched();
}

/// Quantizes each group of packed rows: under its own amax if q has amax_of_groups(), else under the one of
/// q. Every pointer is device memory, groups.offsets included. The result equals host::quantize_grouped in
/// every bit, and so quantize() of each group by itself. Random rounding is the exception to the latter: it
/// takes the row in the packed matrix. One kernel on the stream, graph-capturable; never synchronises, never
/// allocates. Errors: see validate_grouped(); q is then untouched. The offsets are not checked.
template <class T, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
errc quantize_grouped(matrix_view<T> const& x, block_scaled_view<F, Layout> const& q,
                      row_groups const& groups, Quantizer const& quantizer = {},
                      cudaStream_t stream = nullptr) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Grouped quantization reads values of two or four bytes.");
  static_assert(detail::gathers_scales<F, Layout> || !Layout::has_padding,
                "Groups have linear scales, or swizzled ones of one byte.");
  if (const errc e = validate_grouped(x, q, groups, quantizer); e != errc::ok) return e;
  const Quantizer of_input = for_input<typename matrix_view<T>::value_type>(quantizer);
  const auto m = detail::as_input(x);
  const detail::packed_walks walks{groups};
  if (walks.by_tiles<1>(q).ctas() > 0x7fff'ffff || walks.along_rows<1>(q).ctas() > 0x7fff'ffff)
    return errc::too_large;
  detail::launch_matrix(m, q, of_input, stream, walks);
  return detail::launched();
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
