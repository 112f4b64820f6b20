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
  matrix_view<T const> x;
  block_scaled_view<F, LayoutR> q;
  block_scaled_view<F, LayoutC> qt;
  float const *amax, *amax_t;
  Rowwise rowwise;
  Columnwise columnwise;
  divisor tiles_along{};
  bool wide_codes = false, wide_scales = false, wide_row_scales = false;

  /// Loads a tile, and finds the tensor scales meanwhile.
  FOURSCALE_D void load(tile_place const& place, tile_memory<F>& tile) const {
    start_tile(x, place, tile.words);
    if constexpr (!__is_same(Rowwise, no_copy))
      if (threadIdx.x == 0)
        tile.tensor[0] = own_tensor_scale<F>(amax, q.tensor_scale,
                                             [&](float a) { return tensor_scale_for<F>(rowwise.scale, a); });
    if (threadIdx.x == 32)
      tile.tensor[1] = own_tensor_scale<F>(amax_t, qt.tensor_scale,
                                           [&](float a) { return tensor_scale_for<F>(columnwise.scale, a); });
    finish_tile();
  }
  FOURSCALE_D void store_columns(tile_place const& place, tile_memory<F>& tile) const {
    store_column_codes(qt, wide_codes && place.inside, place, tile);
    store_scales(qt, wide_scales && place.inside, place.col, place.row / F::block_size, tile.scales);
  }
};

/// A thread takes two columns over 32 rows; codes and scales stay in shared memory.
template <class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
FOURSCALE_D void quantize_columns(both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise> const& p,
                                  tile_place const& place, tile_memory<F>& tile) {
  constexpr int n = F::block_size, blocks = group_rows / n, bytes = block_code_bytes<F>;
  const int pair = static_cast<int>(threadIdx.x) % (tile_cols / 2),
            first = static_cast<int>(threadIdx.x) / (tile_cols / 2) * blocks;
  const i64 row = place.row, col = place.col;
  const tensor_scale<F> tensor = tile.tensor[1];
  u8 codes[2][blocks * bytes];
  u32 again = 0;
  FOURSCALE_UNROLL
  for (int b = 0; b < blocks; ++b) {
    const column_pair<T, n> columns(&tile.words[(first + b) * n][pair], tile_cols / 2);
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
    const column_pair<T, n> columns(&tile.words[block * n][pair], tile_cols / 2);
    const packed_block<F> packed = quantize_raw<F>(column_block<T, n>{columns, i % 2}.raw(), p.columnwise,
                                                   tensor, position{col + c, row + block * n});
    store_codes<8>(packed.codes, &tile.codes[c][block * bytes]);
    tile.scales[c][block] = packed.scale.bits;
  }
}

/// A thread takes a block of a row at a time.
template <class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
FOURSCALE_D void quantize_tile_rows(both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise> const& p,
                                    tile_place const& place, tile_memory<F>& tile) {
  constexpr int n = F::block_size, along = tile.along_row, step = tile_threads / along;
  const i64 row = place.row, col = place.col;
  const tensor_scale<F> tensor = tile.tensor[0];
  const int b = static_cast<int>(threadIdx.x) % along;
  const i64 block = col / n + b;
  const bool in_row = block < p.q.blocks();
  int r = static_cast<int>(threadIdx.x) / along;
  u8* codes = p.q.codes + p.q.code_offset(row + r, block);
  const i64 stride = step * p.q.code_offset(1, 0);
#pragma unroll 1
  for (; r < tile_rows; r += step, codes += stride) {
    if (in_row && row + r < p.q.rows) {
      const auto raw = load_raw<T, n>(reinterpret_cast<T const*>(&tile.words[r][b * n / 2]));
      const position where{row + r, block * n};
      attempt<F> result = try_quantize_raw<F, T>(raw, p.rowwise, tensor, where);
      if (!result.valid) result.block = quantize_raw<F>(raw, p.rowwise, tensor, where);
      store_codes<code_word<F>>(result.block.codes, codes);
      p.q.store_scale(row + r, block, result.block.scale);
    } else if (row + r < LayoutR::padded_rows(p.q.rows) && block < LayoutR::padded_blocks(p.q.blocks())) {
      p.q.store_scale(row + r, block, {});
    }
  }
}

template <class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
FOURSCALE_KERNEL void __launch_bounds__(tile_threads, tile_ctas)
    quantize_both_kernel(both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise> p) {
  __shared__ tile_memory<F> tile;
  const tile_place place(p.x, p.tiles_along);
  p.load(place, tile);
  quantize_columns(p, place, tile);
  if constexpr (!__is_same(Rowwise, no_copy)) quantize_tile_rows(p, place, tile);
  __syncthreads();
  p.store_columns(place, tile);
}

/// Launches a kernel that takes tiles: those of the matrix, and those that only the padding of a layout
/// reaches.
template <class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
void launch_both(void (*kernel)(both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise>),
                 both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise> p, cudaStream_t stream) {
  constexpr bool rowwise = !__is_same(Rowwise, no_copy);
  const i64 n = F::block_size, rows_r = rowwise ? LayoutR::padded_rows(p.q.rows) : 0,
            rows_c = LayoutC::padded_blocks(p.qt.blocks()) * n,
            cols_r = rowwise ? LayoutR::padded_blocks(p.q.blocks()) * n : 0,
            cols_c = LayoutC::padded_rows(p.qt.rows);
  const i64 along = ceil_div<i64>(cols_r > cols_c ? cols_r : cols_c, tile_cols),
            tiles = along * ceil_div<i64>(rows_r > rows_c ? rows_r : rows_c, tile_rows);
  p.tiles_along = divisor(static_cast<u32>(along));
  p.wide_codes = reinterpret_cast<u64>(p.qt.codes) % 16 == 0 && p.qt.cols % 32 == 0;
  p.wide_scales = scales_are_vectors<tile_memory<F>::along_column>(p.qt);
  p.wide_row_scales = scales_are_vectors<tile_memory<F>::along_row>(p.q);
  kernel<<<static_cast<unsigned>(tiles), tile_threads, 0, stream>>>(p);
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
  if constexpr (has_tiles<T, F>)
    if (fits_tiles(x.base, q))
      return launch_both(&quantize_both_kernel<T, F, linear, Layout, no_copy, decltype(scheduled(recipe))>,
                         {x.base, {}, q, nullptr, amax, {}, scheduled(recipe)}, stream);
  launch_rows(x, q, amax, recipe, stream);
}

}  // namespace fourscale::device::detail
