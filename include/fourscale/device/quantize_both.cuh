// SPDX-License-Identifier: Apache-2.0
// The columnwise copy, alone or with the rowwise one, from one read of the matrix: a CTA holds a tile of it
// in shared memory and walks it both ways.
#pragma once

#include "quantize_rows.cuh"

namespace fourscale::device::detail {

/// In place of a recipe: this copy is not wanted.
struct no_copy {};

inline constexpr int tile_threads = 128, tile_size = 128;  // rows and columns

/// What the kernel below is told. `wide`: the codes of a column's blocks may be stored in words of 16 bytes.
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

/// Tile and its scales in shared memory. Values are 16 bits wide, two columns to a word.
template <int BlockSize>
struct tile_memory {
  static constexpr int along = tile_size / BlockSize;
  u32 words[tile_size][tile_size / 2];
  float multipliers[along][along];  ///< of 2-D blocks
  u8 scales[along][along];
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

/// A thread takes two columns over 64 rows, so that the codes of a column make whole sectors.
template <bool Is2d, class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
FOURSCALE_D void quantize_columns(both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise> const& p, i64 row,
                                  i64 col, tile_memory<F::block_size>& tile) {
  constexpr int n = F::block_size, blocks = 64 / n, bytes = block_code_bytes<F>;
  const int pair = static_cast<int>(threadIdx.x) % 64, group = static_cast<int>(threadIdx.x) / 64;
  const tensor_scale<F> tensor = own_tensor_scale<F>(
      p.amax_t, p.qt.tensor_scale, [&](float a) { return tensor_scale_for<F>(p.columnwise.scale, a); });
  u8 codes[2][blocks * bytes];
  const i64 first_block = row / n + group * blocks, column = col + 2 * pair;
  FOURSCALE_UNROLL
  for (int b = 0; b < blocks; ++b) {
    u32 words[n];
    FOURSCALE_UNROLL
    for (int i = 0; i < n; ++i) words[i] = tile.words[group * 64 + b * n + i][pair];
    u32 amaxes = column_amaxes<T>(words);
    block_scale<F> of_tile{};
    if constexpr (Is2d) {
      FOURSCALE_UNROLL
      for (int lanes = 1; lanes < n / 2; lanes *= 2)
        amaxes = larger_magnitudes<T>(amaxes, __shfl_xor_sync(0xffff'ffffu, amaxes, lanes));
      of_tile = scale_for<F>(p.columnwise.scale, pair_amax<T>(amaxes), tensor, position{});
      if (pair % (n / 2) == 0) {
        tile.multipliers[group * blocks + b][pair / (n / 2)] = of_tile.multiplier;
        tile.scales[group * blocks + b][pair / (n / 2)] = static_cast<u8>(of_tile.scale.bits);
      }
    }
    FOURSCALE_UNROLL
    for (int which = 0; which < 2; ++which) {
      const i64 c = column + which, block = first_block + b;
      const position where{c, block * n};
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
      const bool inside = c < p.qt.rows && block < p.qt.blocks();
      if (inside || (c < LayoutC::padded_rows(p.qt.rows) && block < LayoutC::padded_blocks(p.qt.blocks())))
        p.qt.store_scale(c, block, inside ? packed.scale : typename F::scale{});
      if (!p.wide && inside) store_codes<8>(packed.codes, p.qt.codes + p.qt.code_offset(c, block));
    }
  }
  FOURSCALE_UNROLL
  for (int which = 0; which < 2; ++which)
    if (const i64 c = column + which; p.wide && c < p.qt.rows && first_block < p.qt.blocks())
      store_codes<16>(codes[which], p.qt.codes + p.qt.code_offset(c, first_block));
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
        packed.scale = {tile.scales[r / n][b]};
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
FOURSCALE_KERNEL void __launch_bounds__(tile_threads)
    quantize_both_kernel(both_copies<T, F, LayoutR, LayoutC, Rowwise, Columnwise> p) {
  __shared__ __align__(16) tile_memory<F::block_size> tile;
  const i64 tile_row = blockIdx.x / p.tiles_along, row = tile_row * tile_size;
  const i64 col = (blockIdx.x - tile_row * p.tiles_along) * tile_size;
  load_tile(p.x, row, col, tile.words);
  quantize_columns<Is2d>(p, row, col, tile);
  if constexpr (!__is_same(Rowwise, no_copy)) {
    if constexpr (Is2d) __syncthreads();
    quantize_tile_rows<Is2d>(p, row, col, tile);
  }
}

/// True if the kernel above can do it: 16-bit values in rows that are vectors, blocks of at most 32 with a
/// scale, one tensor scale, aligned codes.
template <class T, class F, class Layout>
bool fits_tiles(matrix_view<T> const& x, block_scaled_view<F, Layout> const& q) {
  return rows_are_vectors(x) && reinterpret_cast<u64>(q.codes) % code_word<F> == 0 && q.row_amax == nullptr;
}
template <class T, class F>
inline constexpr bool has_tiles = sizeof(T) == 2 && F::block_size <= 32 && F::element::width != 6 &&
                                  (__is_same(typename matrix_view<T>::value_type, bf16) ||
                                   __is_same(typename matrix_view<T>::value_type, fp16));

template <bool Is2d, class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise>
void launch_both(matrix_view<T const> const& x, block_scaled_view<F, LayoutR> const& q,
                 block_scaled_view<F, LayoutC> const& qt, float const* amax, float const* amax_t,
                 Rowwise const& rowwise, Columnwise const& columnwise, cudaStream_t stream) {
  const i64 along = ceil_div<i64>(x.cols, tile_size), tiles = along * ceil_div<i64>(x.rows, tile_size);
  const bool wide = reinterpret_cast<u64>(qt.codes) % 16 == 0 && qt.rows > 0 && qt.cols % 64 == 0;
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
