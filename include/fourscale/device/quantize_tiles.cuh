// SPDX-License-Identifier: Apache-2.0
// The kernels that take a matrix by tiles, and their launches: the columnwise copy, both copies from one
// read, and copies in 2-D blocks. cta/quantize_tile.cuh and cta/quantize_squares.cuh have the work of a CTA.
#pragma once

#include "../cta/quantize_squares.cuh"
#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {
namespace detail {

template <class Copies>
FOURSCALE_KERNEL void __launch_bounds__(Copies::threads, cta::tile_ctas<Copies::tile_cols>)
    quantize_tile_kernel(Copies p) {
  __shared__ typename Copies::memory tile;
  const auto place = p.place();
  if (place.tile_row < p.tiles_down) cta::quantize_tile(p, place, tile);
}

/// CTAs per SM: fewer for fp32, where two rows of values are in registers.
template <class Copies>
inline constexpr int square_ctas =
    !same_type<typename Copies::value, float> ? cta::tile_ctas<Copies::tile_cols>
    : Copies::format::block_size > 16         ? 2
                                              : 3;
template <class Copies>
FOURSCALE_KERNEL void __launch_bounds__(Copies::threads, square_ctas<Copies>)
    quantize_squares_kernel(Copies p) {
  __shared__ typename Copies::memory tile;
  const auto place = p.place();
  if (place.tile_row < p.tiles_down) cta::quantize_tile_of_squares(p, place, tile);
}

template <u32 N>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    spread_scales_kernel(cta::byte_rows<u8> scales, cta::byte_rows<u8> scales_t) {
  cta::spread_scales<N>(scales, scales_t);
}

/// True if rows of codes are aligned to 16 bytes.
template <class F, class Layout>
bool codes_are_vectors(block_scaled_view<F, Layout> const& q) {
  return reinterpret_cast<u64>(q.codes) % 16 == 0 && q.cols * F::element::width / 8 % 16 == 0;
}
/// True if scales of a tile can be stored in whole words: with linear scales, if every Along scales are
/// aligned to Along bytes; with swizzled ones, if four scales are aligned to 4 bytes.
template <int Along, class F, class Layout>
bool scales_are_vectors(block_scaled_view<F, Layout> const& q) {
  const u64 address = reinterpret_cast<u64>(q.scales);
  if constexpr (same_type<Layout, linear>)
    return address % Along == 0 && q.blocks() % Along == 0;
  else
    return address % 4 == 0;
}

/// True if tiles can be used: codes in whole words, and sizes of x that 32 bits hold. (Rows of codes are
/// shorter than 4 GiB: validate() makes sure.)
template <class T, class F, class Layout>
bool fits_tiles(matrix_view<T const> const& x, block_scaled_view<F, Layout> const& q) {
  constexpr i64 most = 0xffff'ffff;
  return x.rows <= most && x.ld * static_cast<i64>(sizeof(T)) <= most && codes_are_words(q);
}
/// The same for what a producer makes.
template <cta::producer Producer, class F, class Layout>
bool fits_tiles(Producer const&, block_scaled_view<F, Layout> const& q) {
  return codes_are_words(q);
}
/// True for 16-bit values that become codes of four or eight bits.
template <class T, class F>
inline constexpr bool has_tiles =
    cta::is_packed<T>&& F::block_size <= 32 && F::element::width != 6 && block_scale_bytes<F> <= 1;

/// How many tiles there are in a row of tiles, and in a column.
struct tile_counts {
  i64 along, down;
};
/// Sets the members of p that follow from its views. Returns how many tiles there are: those of the matrix,
/// and those that hold only padding of a layout.
template <class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise, bool ByRow,
          class Source>
tile_counts complete_tiles(cta::tile_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise, ByRow, Source>& p) {
  using copies = cta::tile_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise, ByRow, Source>;
  constexpr int cols = copies::tile_cols;
  // The view of a copy that is not wanted has no rows.
  using cta::tile_rows;
  const i64 n = F::block_size, rows_r = LayoutR::padded_rows(p.q.rows),
            rows_c = LayoutC::padded_blocks(p.qt.blocks()) * n,
            cols_r = LayoutR::padded_blocks(p.q.blocks()) * n, cols_c = LayoutC::padded_rows(p.qt.rows);
  const i64 along = ceil_div<i64>(cols_r > cols_c ? cols_r : cols_c, cols),
            down = ceil_div<i64>(rows_r > rows_c ? rows_r : rows_c, tile_rows);
  if constexpr (!cta::producer<Source>)
    p.values = {reinterpret_cast<u8 const*>(p.x.data), static_cast<u32>(p.x.ld * i64{sizeof(T)})};
  p.codes = {p.q.codes, static_cast<u32>(p.q.blocks() * block_code_bytes<F>)};
  p.scales = {p.q.scales, static_cast<u32>(p.q.blocks())};
  p.codes_t = {p.qt.codes, static_cast<u32>(p.qt.blocks() * block_code_bytes<F>)};
  p.scales_t = {p.qt.scales, static_cast<u32>(p.qt.blocks())};
  p.tiles_down = static_cast<u32>(down);
  p.rows_inside = static_cast<u32>(p.x.rows / tile_rows);
  p.cols_inside = static_cast<u32>(p.x.cols / cols);
  p.wide_values = cta::producer<Source> || rows_are_vectors(p.x);
  p.wide_codes = codes_are_vectors(p.q);
  p.wide_codes_t = codes_are_vectors(p.qt);
  p.wide_scales = scales_are_vectors<copies::memory::along_row>(p.q);
  p.wide_scales_t = scales_are_vectors<copies::memory::along_column>(p.qt);
  return {along, down};
}
/// Launches a kernel over tiles. CTAs come in columns of place_of_tile::down tiles. In the last row of the
/// grid some CTAs may have no tile.
template <class Copies>
void launch_tiles(void (*kernel)(Copies), Copies p, cudaStream_t stream) {
  const auto [along, down] = complete_tiles(p);
  constexpr i64 step = Copies::place_of_tile::down, most = 0xffff * step;  // a grid has 65535 rows
  for (i64 first = 0; first < down; first += most) {
    const i64 height = ceil_div<i64>(down - first < most ? down - first : most, step);
    const dim3 grid(static_cast<unsigned>(along * step), static_cast<unsigned>(height));
    p.first_tile_row = static_cast<u32>(first);
    kernel<<<grid, Copies::threads, 0, stream>>>(p);
  }
}

/// True if linear scales of squares are spread by a kernel of their own: from `from` values on, if the matrix
/// divides evenly into the CTAs of that kernel and both scales are aligned to 16 bytes.
template <class F, class T, class Layout, class LayoutT>
bool spreads_scales(matrix_view<T const> const& x, block_scaled_view<F, Layout> const& q,
                    block_scaled_view<F, LayoutT> const& qt, i64 from) {
  constexpr u32 unit = F::block_size * cta::spread_squares;
  return same_type<Layout, linear> && same_type<LayoutT, linear> && x.rows * x.cols >= from &&
         x.rows % unit == 0 && x.cols % unit == 0 && reinterpret_cast<u64>(q.scales) % 16 == 0 &&
         reinterpret_cast<u64>(qt.scales) % 16 == 0 && x.rows / unit <= 0xffff;
}

/// Both copies in 2-D blocks. Their scales may be spread from `spread_from` values on, see spreads_scales().
template <class F, class T, class Layout, class LayoutT, class Quantizer>
void launch_squares(matrix_view<T const> const& x, block_scaled_view<F, Layout> const& q,
                    block_scaled_view<F, LayoutT> const& qt, Quantizer const& quantizer, cudaStream_t stream,
                    i64 spread_from) {
  using copies = cta::tile_copies<T, F, Layout, LayoutT, Quantizer, Quantizer>;
  constexpr u32 n = F::block_size, unit = n * cta::spread_squares;
  copies p{x, q, qt, quantizer, quantizer};
  p.scales_of_first_rows = spreads_scales(x, q, qt, spread_from);
  launch_tiles(&quantize_squares_kernel<copies>, p, stream);
  if (!p.scales_of_first_rows) return;
  const dim3 grid(static_cast<unsigned>(x.cols / unit), static_cast<unsigned>(x.rows / unit));
  spread_scales_kernel<n><<<grid, cta_threads, 0, stream>>>({q.scales, static_cast<u32>(q.blocks())},
                                                            {qt.scales, static_cast<u32>(qt.blocks())});
}

/// The columnwise copy of a matrix in memory.
template <class F, class Layout, class T, class Quantizer>
void launch_columns(matrix_view<T const> const& x, block_scaled_view<F, Layout> const& q,
                    Quantizer const& quantizer, cudaStream_t stream) {
  const auto launch = [&](auto by_row) {
    using copies = cta::tile_copies<T, F, linear, Layout, cta::no_copy, decltype(cta::prepared(quantizer)),
                                    decltype(by_row)::value>;
    launch_tiles(&quantize_tile_kernel<copies>, copies{x, {}, q, {}, cta::prepared(quantizer)}, stream);
  };
  if constexpr (F::has_tensor_scale)
    if (q.amax.by_row()) return launch(cta::detail::boolean<true>{});
  launch(cta::detail::boolean<false>{});
}
/// Both copies of values of T, each with a quantizer of its own: of a matrix, or of what a producer makes.
template <class T, class Source, class F, class Layout, class LayoutT, class Rowwise, class Columnwise>
void launch_both(Source const& x, block_scaled_view<F, Layout> const& q,
                 block_scaled_view<F, LayoutT> const& qt, Rowwise const& rowwise,
                 Columnwise const& columnwise, cudaStream_t stream) {
  using copies = cta::tile_copies<T, F, Layout, LayoutT, decltype(cta::prepared(rowwise)),
                                  decltype(cta::prepared(columnwise)), false, Source>;
  launch_tiles(&quantize_tile_kernel<copies>,
               copies{x, q, qt, cta::prepared(rowwise), cta::prepared(columnwise)}, stream);
}
/// The rowwise or the columnwise copy alone, in 2-D blocks.
template <class F, class Layout, class T, class Quantizer>
void launch_row_squares(matrix_view<T const> const& x, block_scaled_view<F, Layout> const& q,
                        Quantizer const& quantizer, cudaStream_t stream) {
  using copies = cta::tile_copies<T, F, Layout, linear, Quantizer, cta::no_copy>;
  launch_tiles(&quantize_squares_kernel<copies>, copies{x, q, {}, quantizer, {}}, stream);
}
template <class F, class Layout, class T, class Quantizer>
void launch_column_squares(matrix_view<T const> const& x, block_scaled_view<F, Layout> const& q,
                           Quantizer const& quantizer, cudaStream_t stream) {
  using copies = cta::tile_copies<T, F, linear, Layout, cta::no_copy, Quantizer>;
  launch_tiles(&quantize_squares_kernel<copies>, copies{x, {}, q, {}, quantizer}, stream);
}

}  // namespace detail
}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
