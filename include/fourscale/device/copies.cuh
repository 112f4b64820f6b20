// SPDX-License-Identifier: Apache-2.0
// Both copies of a matrix, rowwise and columnwise, in one call, and the columnwise copy as the transpose of a
// rowwise one in 2-D blocks; on a stream.
#pragma once

#include "quantize.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// A thread takes a block of the result, or a scale of its padding; neighbouring threads read neighbours of
/// the source.
template <class F, class Layout, class LayoutT>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    transpose_kernel(block_scaled_view<F, Layout, u8 const> q, block_scaled_view<F, LayoutT> qt) {
  constexpr int n = F::block_size;
  cta::no_memory unused;
  const i64 rows = LayoutT::padded_rows(qt.rows), blocks = LayoutT::padded_blocks(qt.blocks());
  for (i64 i = blockIdx.x * i64{cta_threads} + threadIdx.x; i < rows * blocks;
       i += i64{gridDim.x} * cta_threads) {
    const i64 row = i % rows, block = i / rows;
    if (row >= qt.rows || block >= qt.blocks()) {
      qt.store_scale(row, block, {});
      continue;
    }
    packed_block<F> column{q.load_scale(block * n, row / n), {}};
    for (int k = 0; k < n; ++k) column.set(k, q.load_code(block * n + k, row));
    cta::view_sink<F, LayoutT>{qt}.store(unused, {row, block}, column);
  }
}

}  // namespace detail

/// The transpose of a matrix quantized with 2-D blocks, as host::transpose does. One kernel on the stream;
/// never synchronises, never allocates. Errors: as host::transpose; qt is then untouched.
template <class F, class Layout, class Byte, class LayoutT>
errc transpose(block_scaled_view<F, Layout, Byte> const& q, block_scaled_view<F, LayoutT> const& qt,
               cudaStream_t stream = nullptr) {
  if (const errc e = validate_transpose(q, qt); e != errc::ok) return e;
  const block_scaled_view<F, Layout, u8 const> input = q;
  const i64 items = LayoutT::padded_rows(qt.rows) * LayoutT::padded_blocks(qt.blocks());
  detail::transpose_kernel<<<detail::grid_for(items), detail::cta_threads, 0, stream>>>(input, qt);
  return detail::launched();
}

/// Makes both copies in one call, as host::quantize_both does. All pointers are device memory, those of the
/// amaxes included; the amax of qt is that after the columnwise transform. One or two kernels on the stream;
/// never synchronises, never allocates. Errors: see validate(); both outputs are then untouched.
template <class T, class F, class Layout, class LayoutT, quantizer_for<F> Rowwise = quantizer<>,
          quantizer_for<F> Columnwise = quantizer<>, block_shape Blocks = blocks_1d>
errc quantize_both(matrix_view<T> const& x, block_scaled_view<F, Layout> const& q,
                   block_scaled_view<F, LayoutT> const& qt, Rowwise const& rowwise = {},
                   Columnwise const& columnwise = {}, Blocks shape = {}, cudaStream_t stream = nullptr) {
  if (const errc e = validate_both(x, q, qt, shape, rowwise, columnwise); e != errc::ok) return e;
  const auto input = detail::as_input(x);
  using detail::path;
  using source = typename matrix_view<T>::value_type;
  using value = typename decltype(input)::value_type;
  if constexpr (constexpr path best =
                    detail::best_path_of_both<F, Blocks::is_2d, value, Rowwise, Columnwise>();
                best != path::one_by_one) {
    if (detail::path_of_both<Blocks::is_2d, Rowwise, Columnwise>(input, q, qt) == best) {
      if constexpr (best == path::both_wide && Blocks::is_2d)
        detail::launch_wide_both<true>(input, q, qt, for_input<source>(rowwise), for_input<source>(rowwise),
                                       stream);
      else if constexpr (best == path::both_wide)
        detail::launch_wide_both<false>(input, q, qt, for_input<source>(rowwise),
                                        for_input<source>(columnwise), stream);
      else if constexpr (best == path::both_squares)
        detail::launch_squares<F>(input, q, qt, for_input<source>(rowwise), stream, detail::spread_from);
      else
        detail::launch_both<value>(input, q, qt, for_input<source>(rowwise), for_input<source>(columnwise),
                                   stream);
      return detail::launched();
    }
  }
  if (const errc e = device::quantize(x, q, rowwise, shape, stream); e != errc::ok) return e;
  if constexpr (Blocks::is_2d)
    return transpose(q, qt, stream);
  else
    return device::quantize(transposed(x), qt, columnwise, shape, stream);
}

/// Makes both copies, in 1-D blocks, of a matrix of 16-bit values that is never in memory but made by a
/// producer (see cta/producer.cuh). The producer is asked for each block once, and may be asked again where a
/// fast form is not valid. The bits are those of the same matrix in memory. One kernel on the stream; never
/// synchronises, never allocates. Errors: those of validate(), shape_mismatch, overlap; bad_recipe for amaxes
/// of rows; misaligned for codes that do not begin at a multiple of 8 bytes (in blocks of 32: 16). Both
/// outputs are then untouched.
template <cta::producer Producer, class F, class Layout, class LayoutT,
          quantizer_for<F> Rowwise = quantizer<>, quantizer_for<F> Columnwise = quantizer<>>
errc quantize_both(Producer const& source, block_scaled_view<F, Layout> const& q,
                   block_scaled_view<F, LayoutT> const& qt, Rowwise const& rowwise = {},
                   Columnwise const& columnwise = {}, cudaStream_t stream = nullptr) {
  using value = decltype(typename Producer::block_type{}.get(0));
  static_assert(
      detail::has_tiles<value, F>,
      "Both copies of a producer are made from 16-bit values, to 4 or 8 bits: let its block_type be "
      "cta::values<bf16, N>.");
  if (const errc e = validate(q, rowwise); e != errc::ok) return e;
  if (const errc e = validate(qt, columnwise); e != errc::ok) return e;
  const bool matching =
      source.rows == q.rows && source.cols == q.cols && source.rows == qt.cols && source.cols == qt.rows;
  if (!matching) return errc::shape_mismatch;
  if (fourscale::detail::overlaps(q, qt) || fourscale::detail::overlaps(qt, q)) return errc::overlap;
  if (q.amax.by_row() || qt.amax.by_row()) return errc::bad_recipe;
  if (!detail::fits_tiles(source, q) || !detail::fits_tiles(source, qt)) return errc::misaligned;
  detail::launch_both<value>(source, q, qt, for_input<value>(rowwise), for_input<value>(columnwise), stream);
  return detail::launched();
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
