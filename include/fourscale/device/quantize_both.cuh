// SPDX-License-Identifier: Apache-2.0
// The columnwise copy, alone or with the rowwise one, from one read of the matrix: a CTA holds a tile of it
// in shared memory and walks it both ways.
#pragma once

#include "quantize_rows.cuh"

namespace fourscale::device::detail {

/// In place of a recipe: this copy is not wanted.
struct no_copy {};

inline constexpr int tile_threads = 256, tile_size = 128;  // rows and columns
inline constexpr int group_rows = 32;                      // that a thread takes of a column

/// What the kernel below is told. `wide`: rows of qt's codes begin at multiples of 16 bytes.
template <class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
struct both_copies {
  matrix_view<T const> x;
  block_scaled_view<F, LayoutR> q;
  block_scaled_view<F, LayoutC> qt;
  float const *amax, *amax_t;
  Rowwise rowwise;
  Columnwise columnwise;
  i64 tiles_along = 0;
  bool wide = false;
};

/// A tile in shared memory, and what its columns become, gathered there so that whole sectors are written.
/// Values are 16 bits wide, two columns to a word; codes are four bits wide.
template <int BlockSize>
struct tile_memory {
  static constexpr int along = tile_size / BlockSize, column_bytes = tile_size / 2;
  u32 words[tile_size][tile_size / 2];
  alignas(16) u8 codes[tile_size][column_bytes + 16];  ///< of each column; 16 more, for the banks
  alignas(8) u8 scales[tile_size][along];              ///< of each column
};

/// Copies a tile; what lies outside the matrix becomes 0.
template <class T>
FOURSCALE_D void load_tile(matrix_view<T const> const& x, i64 row, i64 col,
                           u32 (&words)[tile_size][tile_size / 2]) {
  constexpr int chunk = 16 / static_cast<int>(sizeof(T)), chunks = tile_size / chunk,
                step = tile_threads / chunks;
  const int c = static_cast<int>(threadIdx.x) % chunks * chunk,
            first = static_cast<int>(threadIdx.x) / chunks;
  const u32 to = static_cast<u32>(__cvta_generic_to_shared(&words[first][c / 2]));
  T const* from = x.data + (row + first) * x.ld + (col + c);
  if (row + tile_size <= x.rows && col + tile_size <= x.cols) {
    const i64 stride = step * x.ld;
    FOURSCALE_UNROLL
    for (int i = 0; i < tile_size / step; ++i, from += stride)
      asm volatile(
          "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + static_cast<u32>(i * step * tile_size * 2)),
          "l"(from)
          : "memory");
  } else {
    const i64 left = x.cols - (col + c);
    const int columns = left < 0 ? 0 : left < chunk ? static_cast<int>(left) : chunk;
#pragma unroll 1
    for (int i = 0; i < tile_size / step; ++i) {
      const i64 r = row + first + i * step;
      const int bytes = r < x.rows ? columns * static_cast<int>(sizeof(T)) : 0;
      T const* const source = bytes > 0 ? &x.at(r, col + c) : x.data;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                       to + static_cast<u32>(i * step * tile_size * 2)),
                   "l"(source), "r"(bytes)
                   : "memory");
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}

/// Block `block` of two neighbouring columns of a tile: N words that hold a value of each.
template <class T, int N>
struct column_pair {
  u32 words[N];

  FOURSCALE_D column_pair(u32 const (&tile)[tile_size][tile_size / 2], int block, int pair) {
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) words[i] = tile[block * N + i][pair];
  }
  FOURSCALE_D raw_block<T, N> column(int which) const {
    raw_block<T, N> c;
    FOURSCALE_UNROLL
    for (int i = 0; i < N; i += 2)
      c.w[i / 2] = __byte_perm(words[i], words[i + 1], which == 0 ? 0x5410 : 0x7632);
    return c;
  }
};

/// A thread takes two columns over 32 rows; codes and scales stay in shared memory.
template <class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
FOURSCALE_D void quantize_columns(both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise> const& p, i64 row,
                                  i64 col, tile_memory<F::block_size>& tile) {
  constexpr int n = F::block_size, blocks = group_rows / n, bytes = block_code_bytes<F>;
  const int pair = static_cast<int>(threadIdx.x) % (tile_size / 2),
            first = static_cast<int>(threadIdx.x) / (tile_size / 2) * blocks;
  const tensor_scale<F> tensor = own_tensor_scale<F>(
      p.amax_t, p.qt.tensor_scale, [&](float a) { return tensor_scale_for<F>(p.columnwise.scale, a); });
  u8 codes[2][blocks * bytes];
  u32 again = 0;
  FOURSCALE_UNROLL
  for (int b = 0; b < blocks; ++b) {
    const column_pair<T, n> columns(tile.words, first + b, pair);
    FOURSCALE_UNROLL
    for (int which = 0; which < 2; ++which) {
      const position where{col + 2 * pair + which, row + (first + b) * n};
      const attempt<F> result = try_quantize_raw<F>(columns.column(which), p.columnwise, tensor, where);
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
    const packed_block<F> packed = quantize_raw<F>(column_pair<T, n>(tile.words, block, pair).column(i % 2),
                                                   p.columnwise, tensor, position{col + c, row + block * n});
    store_codes<8>(packed.codes, &tile.codes[c][block * bytes]);
    tile.scales[c][block] = packed.scale.bits;
  }
}

/// Scales of tile_size rows to memory, `along` of each from first_block on; those of the padding as 0.
template <class F, class Layout, int Along>
FOURSCALE_D void store_scales(block_scaled_view<F, Layout> const& q, i64 row, i64 first_block,
                              u8 const (&scales)[tile_size][Along]) {
  const i64 left = q.blocks() - first_block;
  for (int r = static_cast<int>(threadIdx.x); r < tile_size; r += tile_threads) {
    u8* const to = q.scales + q.scale_offset(row + r, first_block);
    if (!Layout::has_padding && left >= Along && row + r < q.rows && reinterpret_cast<u64>(to) % Along == 0) {
      if constexpr (Along == 8)
        *reinterpret_cast<u64*>(to) = *reinterpret_cast<u64 const*>(scales[r]);
      else
        *reinterpret_cast<u32*>(to) = *reinterpret_cast<u32 const*>(scales[r]);
      continue;
    }
    for (int b = 0; b < Along; ++b) {
      const bool inside = row + r < q.rows && b < left;
      if (inside ||
          (row + r < Layout::padded_rows(q.rows) && first_block + b < Layout::padded_blocks(q.blocks())))
        q.store_scale(row + r, first_block + b, {inside ? scales[r][b] : u8{0}});
    }
  }
}

/// The gathered codes and scales of the columns to memory.
template <class F, class Layout>
FOURSCALE_D void store_columns(block_scaled_view<F, Layout> const& qt, bool wide, i64 row, i64 col,
                               tile_memory<F::block_size> const& tile) {
  constexpr int along = tile.along, bytes = block_code_bytes<F>, chunks = tile.column_bytes / 16;
  const i64 first_block = row / F::block_size, left = qt.blocks() - first_block;
  const int valid = left < along ? static_cast<int>(left) * bytes : tile.column_bytes;
  const int at = static_cast<int>(threadIdx.x) % chunks * 16, first = static_cast<int>(threadIdx.x) / chunks;
  constexpr int step = tile_threads / chunks;
  u8* to = qt.codes + qt.code_offset(col + first, first_block) + at;
  const i64 stride = step * qt.code_offset(1, 0);
  const bool whole = wide && valid == tile.column_bytes && col + tile_size <= qt.rows;
  FOURSCALE_UNROLL
  for (int i = 0; i < tile_size / step; ++i, to += stride) {
    const int c = first + i * step;
    const vector16 v = *reinterpret_cast<vector16 const*>(&tile.codes[c][at]);
    if (whole) {
      *reinterpret_cast<vector16*>(to) = v;
    } else if (col + c < qt.rows && at < valid) {
      *reinterpret_cast<u64*>(to) = u64{v.words[1]} << 32 | v.words[0];
      if (at + 16 <= valid) *reinterpret_cast<u64*>(to + 8) = u64{v.words[3]} << 32 | v.words[2];
    }
  }
  store_scales(qt, col, first_block, tile.scales);
}

/// A thread takes a block of a row at a time.
template <class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
FOURSCALE_D void quantize_tile_rows(both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise> const& p,
                                    i64 row, i64 col, tile_memory<F::block_size>& tile) {
  constexpr int n = F::block_size, along = tile_size / n;
  const tensor_scale<F> tensor = own_tensor_scale<F>(
      p.amax, p.q.tensor_scale, [&](float a) { return tensor_scale_for<F>(p.rowwise.scale, a); });
  const int first = static_cast<int>(threadIdx.x) / along, b = static_cast<int>(threadIdx.x) % along;
  const i64 block = col / n + b;
  const bool in_row = block < p.q.blocks();
#pragma unroll 1
  for (int r = first; r < tile_size; r += tile_threads / along) {
    if (in_row && row + r < p.q.rows) {
      const auto raw = load_raw<T, n>(reinterpret_cast<T const*>(&tile.words[r][b * n / 2]));
      const position where{row + r, block * n};
      const attempt<F> result = try_quantize_raw<F>(raw, p.rowwise, tensor, where);
      store_aligned_block(p.q, row + r, block, result.block);
      if (!result.valid)
        store_aligned_block(p.q, row + r, block, quantize_raw<F>(raw, p.rowwise, tensor, where));
    } else if (row + r < LayoutR::padded_rows(p.q.rows) && block < LayoutR::padded_blocks(p.q.blocks())) {
      p.q.store_scale(row + r, block, {});
    }
  }
}

template <class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
FOURSCALE_KERNEL void __launch_bounds__(tile_threads, 4)
    quantize_both_kernel(both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise> p) {
  __shared__ __align__(16) tile_memory<F::block_size> tile;
  const i64 tile_row = blockIdx.x / p.tiles_along, row = tile_row * tile_size;
  const i64 col = (blockIdx.x - tile_row * p.tiles_along) * tile_size;
  load_tile(p.x, row, col, tile.words);
  quantize_columns(p, row, col, tile);
  if constexpr (!__is_same(Rowwise, no_copy)) quantize_tile_rows(p, row, col, tile);
  __syncthreads();
  store_columns(p.qt, p.wide, row, col, tile);
}

/// True if tiles of shared memory will do: 16-bit values in rows that are vectors, 4-bit codes at a multiple
/// of eight bytes, one tensor scale.
template <class T, class F, class Layout>
bool fits_tiles(matrix_view<T> const& x, block_scaled_view<F, Layout> const& q) {
  return rows_are_vectors(x) && reinterpret_cast<u64>(q.codes) % code_word<F> == 0 && q.row_amax == nullptr;
}
template <class T, class F>
inline constexpr bool has_tiles = is_short<T>&& F::block_size <= 32 && F::element::width == 4;

/// Launches a kernel that takes tiles.
template <class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
void launch_both(void (*kernel)(both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise>),
                 both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise> p, cudaStream_t stream) {
  p.tiles_along = ceil_div<i64>(p.x.cols, tile_size);
  p.wide = reinterpret_cast<u64>(p.qt.codes) % 16 == 0 && p.qt.cols % 32 == 0;
  const i64 tiles = p.tiles_along * ceil_div<i64>(p.x.rows, tile_size);
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
