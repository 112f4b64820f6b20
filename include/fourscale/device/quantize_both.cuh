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
  i64 tiles_along;
  bool wide;
};

/// A tile in shared memory, and what its columns become, gathered there so that whole sectors are written.
/// Values are 16 bits wide, two columns to a word; codes are four bits wide.
template <int BlockSize>
struct tile_memory {
  static constexpr int along = tile_size / BlockSize, column_bytes = tile_size / 2;
  u32 words[tile_size][tile_size / 2];
  alignas(16) u8 codes[tile_size][column_bytes + 16];  ///< of each column; 16 more, for the banks
  alignas(8) u8 scales[tile_size][along];              ///< of each column
  float multipliers[along][along];                     ///< of 2-D blocks
};

/// Starts copying a tile; what lies outside the matrix becomes 0.
template <class T>
FOURSCALE_D void load_tile(matrix_view<T const> const& x, i64 row, i64 col,
                           u32 (&words)[tile_size][tile_size / 2]) {
  constexpr int chunk = 16 / static_cast<int>(sizeof(T)), chunks = tile_size / chunk;
  const int c = static_cast<int>(threadIdx.x) % chunks * chunk,
            first = static_cast<int>(threadIdx.x) / chunks;
  const i64 left = x.cols - (col + c);
  const int columns = left < 0 ? 0 : left < chunk ? static_cast<int>(left) : chunk;
  FOURSCALE_UNROLL
  for (int r = first; r < tile_size; r += tile_threads / chunks) {
    const int bytes = row + r < x.rows ? columns * static_cast<int>(sizeof(T)) : 0;
    T const* from = bytes > 0 ? &x.at(row + r, col + c) : x.data;
    const u32 to = static_cast<u32>(__cvta_generic_to_shared(&words[r][c / 2]));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}

/// The N values of a column within a tile, from words that hold two columns.
template <class T, int N>
FOURSCALE_D void column_of(u32 const (&words)[N], int which, float (&x)[N]) {
  FOURSCALE_UNROLL
  for (int i = 0; i < N; ++i) x[i] = to_float(bit_cast<T>(static_cast<u16>(words[i] >> (16 * which))));
}

/// Amaxes of both columns, packed.
template <class T, int N>
FOURSCALE_D u32 column_amaxes(u32 const (&words)[N]) {
  u32 largest = words[0];
  FOURSCALE_UNROLL
  for (int i = 1; i < N; ++i) largest = larger_magnitudes<T>(largest, words[i]);
  return largest;
}
template <class T>
FOURSCALE_D float amax_of(u32 packed, int which) {
  return bit_cast<float>(
      amax_bits(to_float(bit_cast<T>(static_cast<u16>((packed >> (16 * which)) & 0x7fffu)))));
}

/// One block of a column: by its amax if the recipe needs no more, else as quantize_block() does.
template <class F, class T, class Recipe>
FOURSCALE_D packed_block<F> quantize_column(u32 const (&words)[F::block_size], u32 amaxes, int which,
                                            Recipe const& recipe, tensor_scale<F> const& tensor,
                                            position where) {
  float values[F::block_size];
  column_of<T>(words, which, values);
  if constexpr (__is_same(decltype(recipe.transform), identity) &&
                amax_scaling_policy<decltype(recipe.scale), F>) {
    const block_scale<F> scaled = scale_for<F>(recipe.scale, amax_of<T>(amaxes, which), tensor, where);
    packed_block<F> packed{scaled.scale, {}};
    round_block<F>(values, scaled.multiplier, recipe.round, where, packed.codes);
    return packed;
  } else {
    return quantize_block<F>(values, recipe, tensor, where);
  }
}

/// A thread takes two columns over 32 rows; codes and scales stay in shared memory.
template <bool Is2d, class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
FOURSCALE_D void quantize_columns(both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise> const& p, i64 row,
                                  i64 col, tile_memory<F::block_size>& tile) {
  constexpr int n = F::block_size, blocks = group_rows / n, bytes = block_code_bytes<F>;
  const int pair = static_cast<int>(threadIdx.x) % (tile_size / 2),
            group = static_cast<int>(threadIdx.x) / (tile_size / 2);
  const tensor_scale<F> tensor = own_tensor_scale<F>(
      p.amax_t, p.qt.tensor_scale, [&](float a) { return tensor_scale_for<F>(p.columnwise.scale, a); });
  u8 codes[2][blocks * bytes];
  FOURSCALE_UNROLL
  for (int b = 0; b < blocks; ++b) {
    const int block = group * blocks + b;
    u32 words[n];
    FOURSCALE_UNROLL
    for (int i = 0; i < n; ++i) words[i] = tile.words[block * n + i][pair];
    u32 amaxes = column_amaxes<T>(words);
    block_scale<F> of_tile{};
    if constexpr (Is2d) {
      FOURSCALE_UNROLL
      for (int lanes = 1; lanes < n / 2; lanes *= 2)
        amaxes = larger_magnitudes<T>(amaxes, __shfl_xor_sync(0xffff'ffffu, amaxes, lanes));
      of_tile = scale_for<F>(p.columnwise.scale, pair_amax<T>(amaxes), tensor, position{});
      if (pair % (n / 2) == 0) tile.multipliers[block][pair / (n / 2)] = of_tile.multiplier;
    }
    FOURSCALE_UNROLL
    for (int which = 0; which < 2; ++which) {
      const position where{col + 2 * pair + which, row + block * n};
      packed_block<F> packed;
      if constexpr (Is2d) {
        float values[n];
        column_of<T>(words, which, values);
        packed.scale = of_tile.scale;
        round_block<F>(values, of_tile.multiplier, p.columnwise.round, where, packed.codes);
      } else {
        packed = quantize_column<F, T>(words, amaxes, which, p.columnwise, tensor, where);
      }
      FOURSCALE_UNROLL
      for (int i = 0; i < bytes; ++i) codes[which][b * bytes + i] = packed.codes[i];
      tile.scales[2 * pair + which][block] = packed.scale.bits;
    }
  }
  FOURSCALE_UNROLL
  for (int which = 0; which < 2; ++which)
    store_codes<16>(codes[which], &tile.codes[2 * pair + which][group * blocks * bytes]);
}

/// The gathered codes and scales of the columns to memory; scales of the padding as 0.
template <class F, class Layout>
FOURSCALE_D void store_columns(block_scaled_view<F, Layout> const& qt, bool wide, i64 row, i64 col,
                               tile_memory<F::block_size> const& tile) {
  constexpr int along = tile.along, bytes = block_code_bytes<F>, chunks = tile.column_bytes / 16;
  const i64 first_block = row / F::block_size, left = qt.blocks() - first_block;
  const int valid = left < along ? static_cast<int>(left) * bytes : tile.column_bytes;
  for (int i = static_cast<int>(threadIdx.x); i < tile_size * chunks; i += tile_threads) {
    const int c = i / chunks, at = i % chunks * 16;
    if (col + c >= qt.rows || at >= valid) continue;
    const vector16 v = *reinterpret_cast<vector16 const*>(&tile.codes[c][at]);
    u8* const to = qt.codes + qt.code_offset(col + c, first_block) + at;
    if (wide && at + 16 <= valid) {
      *reinterpret_cast<vector16*>(to) = v;
    } else {
      *reinterpret_cast<u64*>(to) = u64{v.words[1]} << 32 | v.words[0];
      if (at + 16 <= valid) *reinterpret_cast<u64*>(to + 8) = u64{v.words[3]} << 32 | v.words[2];
    }
  }
  for (int c = static_cast<int>(threadIdx.x); c < tile_size; c += tile_threads) {
    u8* const to = qt.scales + qt.scale_offset(col + c, first_block);
    if (!Layout::has_padding && left >= along && col + c < qt.rows &&
        reinterpret_cast<u64>(to) % along == 0) {
      if constexpr (along == 8)
        *reinterpret_cast<u64*>(to) = *reinterpret_cast<u64 const*>(tile.scales[c]);
      else
        *reinterpret_cast<u32*>(to) = *reinterpret_cast<u32 const*>(tile.scales[c]);
      continue;
    }
    for (int b = 0; b < along; ++b) {
      const bool inside = col + c < qt.rows && b < left;
      if (inside ||
          (col + c < Layout::padded_rows(qt.rows) && first_block + b < Layout::padded_blocks(qt.blocks())))
        qt.store_scale(col + c, first_block + b, {inside ? tile.scales[c][b] : u8{0}});
    }
  }
}

/// A thread takes a block of a row at a time.
template <bool Is2d, class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
FOURSCALE_D void quantize_tile_rows(both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise> const& p,
                                    i64 row, i64 col, tile_memory<F::block_size>& tile) {
  constexpr int n = F::block_size, along = tile_size / n;
  const tensor_scale<F> tensor = own_tensor_scale<F>(
      p.amax, p.q.tensor_scale, [&](float a) { return tensor_scale_for<F>(p.rowwise.scale, a); });
  for (int i = static_cast<int>(threadIdx.x); i < tile_size * along; i += tile_threads) {
    const int r = i / along, b = i % along;
    const i64 block = col / n + b;
    if (row + r < p.q.rows && block < p.q.blocks()) {
      const auto raw = load_raw<T, n>(reinterpret_cast<T const*>(&tile.words[r][b * n / 2]));
      const position where{row + r, block * n};
      packed_block<F> packed;
      if constexpr (Is2d) {
        float values[n];
        to_floats(raw, values);
        packed.scale = {tile.scales[b * n][r / n]};
        round_block<F>(values, tile.multipliers[r / n][b], p.rowwise.round, where, packed.codes);
      } else {
        packed = quantize_raw<F>(raw, p.rowwise, tensor, where);
      }
      store_aligned_block(p.q, row + r, block, packed);
    } else if (row + r < LayoutR::padded_rows(p.q.rows) && block < LayoutR::padded_blocks(p.q.blocks())) {
      p.q.store_scale(row + r, block, {});
    }
  }
}

template <bool Is2d, class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
FOURSCALE_KERNEL void __launch_bounds__(tile_threads, 4)
    quantize_both_kernel(both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise> p) {
  __shared__ __align__(16) tile_memory<F::block_size> tile;
  const i64 tile_row = blockIdx.x / p.tiles_along, row = tile_row * tile_size;
  const i64 col = (blockIdx.x - tile_row * p.tiles_along) * tile_size;
  load_tile(p.x, row, col, tile.words);
  quantize_columns<Is2d>(p, row, col, tile);
  if constexpr (!__is_same(Rowwise, no_copy) && !Is2d) quantize_tile_rows<Is2d>(p, row, col, tile);
  __syncthreads();
  if constexpr (!__is_same(Rowwise, no_copy) && Is2d) quantize_tile_rows<Is2d>(p, row, col, tile);
  store_columns(p.qt, p.wide, row, col, tile);
}

/// True if the kernel above can do it: 16-bit values in rows that are vectors, 4-bit codes at a multiple of
/// eight bytes, one tensor scale.
template <class T, class F, class Layout>
bool fits_tiles(matrix_view<T> const& x, block_scaled_view<F, Layout> const& q) {
  return rows_are_vectors(x) && reinterpret_cast<u64>(q.codes) % code_word<F> == 0 && q.row_amax == nullptr;
}
template <class T, class F>
inline constexpr bool has_tiles = sizeof(T) == 2 && F::block_size <= 32 && F::element::width == 4 &&
                                  (__is_same(typename matrix_view<T>::value_type, bf16) ||
                                   __is_same(typename matrix_view<T>::value_type, fp16));

template <bool Is2d, class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
void launch_both(matrix_view<T const> const& x, block_scaled_view<F, LayoutR> const& q,
                 block_scaled_view<F, LayoutC> const& qt, float const* amax, float const* amax_t,
                 Rowwise const& rowwise, Columnwise const& columnwise, cudaStream_t stream) {
  const i64 along = ceil_div<i64>(x.cols, tile_size), tiles = along * ceil_div<i64>(x.rows, tile_size);
  const bool wide = reinterpret_cast<u64>(qt.codes) % 16 == 0 && qt.cols % 32 == 0;
  const both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise> p{x,       q,          qt,    amax, amax_t,
                                                                   rowwise, columnwise, along, wide};
  quantize_both_kernel<Is2d><<<static_cast<unsigned>(tiles), tile_threads, 0, stream>>>(p);
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
      return launch_both<false>(x.base, block_scaled_view<F>{}, q, nullptr, amax, no_copy{}, recipe, stream);
  launch_rows(x, q, amax, recipe, stream);
}

}  // namespace fourscale::device::detail
