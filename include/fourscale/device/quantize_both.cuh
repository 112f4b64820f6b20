// SPDX-License-Identifier: Apache-2.0
// The columnwise copy, alone or with the rowwise one, from one read of the matrix.
#pragma once

#include "quantize_rows.cuh"
#include "tile.cuh"

namespace fourscale::device::detail {

/// In place of a recipe: this copy is not wanted.
struct no_copy {};

/// What the kernel below is told. Codes of qt, scales of either: see tile.cuh about whole tiles.
template <class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
struct both_copies {
  using value = T;
  using format = F;
  static constexpr bool has_rowwise = !__is_same(Rowwise, no_copy);
  /// Measured on an H200: a narrow tile is best for columns alone, whole sectors of rows matter for both.
  static constexpr int tile_cols = has_rowwise ? 128 : 64;
  using memory = tile_memory<F, tile_cols>;
  using place_of_tile = tile_place<tile_cols>;

  matrix_view<T const> x;
  block_scaled_view<F, LayoutR> q;
  block_scaled_view<F, LayoutC> qt;
  float const *amax, *amax_t;
  Rowwise rowwise;
  Columnwise columnwise;
  divisor tiles_along{};
  bool wide_codes = false, wide_scales = false, wide_row_scales = false;

  /// The tensor scale of the columns, by one thread for all.
  FOURSCALE_D void find_tensor_scale(memory& tile) const {
    if (threadIdx.x == 32)
      tile.tensor = own_tensor_scale<F>(amax_t, qt.tensor_scale,
                                        [&](float a) { return tensor_scale_for<F>(columnwise.scale, a); });
  }
  /// Loads a tile, and finds the tensor scale while it is on its way.
  FOURSCALE_D void load(place_of_tile const& place, memory& tile) const {
    start_tile<tile_cols>(x, place, tile.words);
    find_tensor_scale(tile);
    finish_tile();
  }
  FOURSCALE_D void store_columns(place_of_tile const& place, memory& tile) const {
    store_column_codes(qt, wide_codes && place.inside, place, tile);
    store_scales<tile_threads<tile_cols>>(qt, wide_scales && place.inside, place.col,
                                          place.row / F::block_size, tile.scales);
  }
};

/// A thread takes two columns over 32 rows; codes and scales stay in shared memory.
template <class T, class F, int Cols, class Copies>
FOURSCALE_D void quantize_columns(Copies const& p, tile_place<Cols> const& place,
                                  tile_memory<F, Cols>& tile) {
  constexpr int n = F::block_size, blocks = group_rows / n, bytes = block_code_bytes<F>;
  const int pair = static_cast<int>(threadIdx.x) % (Cols / 2),
            first = static_cast<int>(threadIdx.x) / (Cols / 2) * blocks;
  const i64 row = place.row, col = place.col;
  const tensor_scale<F> tensor = tile.tensor;
  u8 codes[2][blocks * bytes];
  u32 again = 0;
  FOURSCALE_UNROLL
  for (int b = 0; b < blocks; ++b) {
    const column_pair<T, n> columns(&tile.words[(first + b) * n][pair], Cols / 2);
    FOURSCALE_UNROLL
    for (int which = 0; which < 2; ++which) {
      const position where{col + 2 * pair + which, row + (first + b) * n};
      const attempt<F> result =
          try_quantize_raw<F, T>(column_block<T, n>{columns, which}, p.columnwise, tensor, where);
      FOURSCALE_UNROLL
      for (int i = 0; i < bytes; ++i) codes[which][b * bytes + i] = result.block.codes[i];
      tile.scales[2 * pair + which][first + b] = result.block.scale.bits;
      again |= static_cast<u32>(!result.valid) << (2 * b + which);
    }
  }
  FOURSCALE_UNROLL
  for (int which = 0; which < 2; ++which)
    store_codes<16>(codes[which], &tile.codes[2 * pair + which][first * bytes]);
#pragma unroll 1
  for (int i = 0; again >> i != 0; ++i) {
    if ((again >> i & 1u) == 0) continue;
    const int block = first + i / 2, c = 2 * pair + i % 2;
    const column_pair<T, n> columns(&tile.words[block * n][pair], Cols / 2);
    const packed_block<F> packed = quantize_raw<F>(column_block<T, n>{columns, i % 2}.values(), p.columnwise,
                                                   tensor, position{col + c, row + block * n});
    store_codes<8>(packed.codes, &tile.codes[c][block * bytes]);
    tile.scales[c][block] = packed.scale.bits;
  }
}

/// The rowwise copy: a thread takes blocks of rows on their way from memory to the tile. `Inside`: all of the
/// tile is in the matrix.
template <bool Inside, class T, class F, int Cols, class Copies>
FOURSCALE_D void quantize_rows_into_tile(Copies const& p, tile_place<Cols> const& place,
                                         tile_memory<F, Cols>& tile) {
  using Layout = typename decltype(p.q)::layout;
  constexpr int n = F::block_size, along = tile.along_row, step = tile_threads<Cols> / along,
                each = tile_rows / step;
  const int r = static_cast<int>(threadIdx.x) / along, b = static_cast<int>(threadIdx.x) % along;
  const i64 row = place.row + r, block = place.col / n + b;
  const auto inside = [&](int k) { return Inside || (block < p.q.blocks() && row + k * step < p.q.rows); };
  T const* from = &p.x.at(row, block * n);
  const auto load = [&](int k) { return cta::values<T, n>::load(from + k * (step * p.x.ld)); };
  cta::values<T, n> raw[each];
  FOURSCALE_UNROLL
  for (int k = 0; k < each; ++k) {
    raw[k] = {};
    if (inside(k)) raw[k] = load(k);
  }
  p.find_tensor_scale(tile);
  const tensor_scale<F> tensor = own_tensor_scale<F>(
      p.amax, p.q.tensor_scale, [&](float a) { return tensor_scale_for<F>(p.rowwise.scale, a); });
  u8* const codes = p.q.codes + p.q.code_offset(row, block);
  [[maybe_unused]] u8* const scales = p.q.scales + p.q.scale_offset(row, block);
  const i64 stride = step * p.q.blocks();
  const auto store = [&](int k, packed_block<F> const& packed) {
    store_codes<code_word<F>>(packed.codes, codes + k * stride * block_code_bytes<F>);
    if constexpr (Layout::has_padding)
      p.q.store_scale(row + k * step, block, packed.scale);
    else
      scales[k * stride] = packed.scale.bits;
  };
  u32 again = 0;
  FOURSCALE_UNROLL
  for (int k = 0; k < each; ++k) {
    raw[k].store(reinterpret_cast<T*>(&tile.words[r + k * step][b * n / 2]));
    if (inside(k)) {
      const attempt<F> result =
          try_quantize_raw<F, T>(raw[k], p.rowwise, tensor, position{row + k * step, block * n});
      store(k, result.block);
      again |= static_cast<u32>(!result.valid) << k;
    } else if (row + k * step < Layout::padded_rows(p.q.rows) &&
               block < Layout::padded_blocks(p.q.blocks())) {
      p.q.store_scale(row + k * step, block, {});
    }
  }
#pragma unroll 1
  for (int k = 0; again >> k != 0; ++k)
    if (again >> k & 1u)
      store(k, quantize_raw<F>(load(k), p.rowwise, tensor, position{row + k * step, block * n}));
}

template <class Copies>
FOURSCALE_KERNEL void __launch_bounds__(tile_threads<Copies::tile_cols>, tile_ctas<Copies::tile_cols>)
    quantize_both_kernel(Copies p) {
  using T = typename Copies::value;
  using F = typename Copies::format;
  __shared__ typename Copies::memory tile;
  const typename Copies::place_of_tile place(p.x, p.tiles_along);
  if constexpr (Copies::has_rowwise) {
    if (place.inside)
      quantize_rows_into_tile<true, T, F>(p, place, tile);
    else
      quantize_rows_into_tile<false, T, F>(p, place, tile);
    __syncthreads();
  } else {
    p.load(place, tile);
  }
  quantize_columns<T, F>(p, place, tile);
  __syncthreads();
  p.store_columns(place, tile);
}

/// Launches a kernel that takes tiles: those of the matrix, and those that only the padding of a layout
/// reaches.
template <class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
void launch_both(void (*kernel)(both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise>),
                 both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise> p, cudaStream_t stream) {
  using copies = both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise>;
  constexpr int cols = copies::tile_cols;
  const i64 n = F::block_size, rows_r = copies::has_rowwise ? LayoutR::padded_rows(p.q.rows) : 0,
            rows_c = LayoutC::padded_blocks(p.qt.blocks()) * n,
            cols_r = copies::has_rowwise ? LayoutR::padded_blocks(p.q.blocks()) * n : 0,
            cols_c = LayoutC::padded_rows(p.qt.rows);
  const i64 along = ceil_div<i64>(cols_r > cols_c ? cols_r : cols_c, cols),
            tiles = along * ceil_div<i64>(rows_r > rows_c ? rows_r : rows_c, tile_rows);
  p.tiles_along = divisor(static_cast<u32>(along));
  p.wide_codes = reinterpret_cast<u64>(p.qt.codes) % 16 == 0 && p.qt.cols % 32 == 0;
  p.wide_scales = scales_are_vectors<copies::memory::along_column>(p.qt);
  p.wide_row_scales = scales_are_vectors<copies::memory::along_row>(p.q);
  kernel<<<static_cast<unsigned>(tiles), tile_threads<cols>, 0, stream>>>(p);
}

/// 1-D blocks of any view: columns of a matrix in memory by tiles, all else block by block.
template <class F, class Layout, class M, class Quantizer>
void launch_1d(M const& x, block_scaled_view<F, Layout> const& q, float const* amax, Quantizer const& recipe,
               cudaStream_t stream) {
  launch_rows(x, q, amax, recipe, stream);
}
template <class F, class Layout, class T, class Quantizer>
void launch_1d(transposed_view<T const> const& x, block_scaled_view<F, Layout> const& q, float const* amax,
               Quantizer const& recipe, cudaStream_t stream) {
  if constexpr (has_tiles<T, F>) {
    if (fits_tiles(x.base, q)) {
      using copies = both_copies<T, F, linear, Layout, no_copy, decltype(scheduled(recipe))>;
      const copies p{x.base, {}, q, nullptr, amax, {}, scheduled(recipe)};
      return launch_both(&quantize_both_kernel<copies>, p, stream);
    }
  }
  launch_rows(x, q, amax, recipe, stream);
}

}  // namespace fourscale::device::detail
