// SPDX-License-Identifier: Apache-2.0
// Both copies under one set of 2-D scales: every value is rounded once, as part of a column, and the codes of
// a square are transposed between threads for the rowwise copy.
#pragma once

#include "quantize_both.cuh"

namespace fourscale::device::detail {

/// Swaps the bits of the indices of a square of nibbles, N x N, that N / 2 neighbouring lanes hold: lane j
/// columns 2 j and 2 j + 1 before, rows 2 j and 2 j + 1 after.
template <int N>
struct nibble_square {
  static constexpr int words = N / 8;  // of a column or row
  u32 w[2][words];

  FOURSCALE_D void transpose() {
    FOURSCALE_UNROLL
    for (int i = 0; i < words; ++i) {  // bit 0 is within the lane
      const u32 a = w[0][i], b = w[1][i];
      w[0][i] = (a & 0x0f0f'0f0fu) | (b << 4 & 0xf0f0'f0f0u);
      w[1][i] = (a >> 4 & 0x0f0f'0f0fu) | (b & 0xf0f0'f0f0u);
    }
    const u32 lane = threadIdx.x;
    const bool odd = lane & 1u, upper = lane & 2u;
    swap_in_words(1, odd ? 0x6420 : 0x7531, odd ? 0x3514 : 0x5240, odd ? 0x3716 : 0x7260);
    swap_in_words(2, upper ? 0x5410 : 0x7632, upper ? 0x3254 : 0x5410, upper ? 0x3276 : 0x7610);
    FOURSCALE_UNROLL
    for (int bit = 1; bit < words; bit *= 2) swap_words(bit);
  }

 private:
  /// Bytes or halves of words with lane ^ distance: which of both words to send, and how to put what came
  /// into each.
  FOURSCALE_D void swap_in_words(int distance, u32 send, u32 into_first, u32 into_second) {
    FOURSCALE_UNROLL
    for (int i = 0; i < words; ++i) {
      const u32 came = __shfl_xor_sync(0xffff'ffffu, __byte_perm(w[0][i], w[1][i], send), distance);
      w[0][i] = __byte_perm(w[0][i], came, into_first);
      w[1][i] = __byte_perm(w[1][i], came, into_second);
    }
  }
  /// Words whose index has `bit` other than the lane's bit 4 * bit has.
  FOURSCALE_D void swap_words(int bit) {
    const bool high = threadIdx.x & static_cast<u32>(4 * bit);
    FOURSCALE_UNROLL
    for (int i = 0; i < 2 * words; ++i) {
      u32(&column)[words] = w[i / words];
      const int low = i % words;
      if (low & bit) continue;
      const u32 came = __shfl_xor_sync(0xffff'ffffu, high ? column[low] : column[low | bit], 4 * bit);
      if (high)
        column[low] = came;
      else
        column[low | bit] = came;
    }
  }
};

/// The amax of a square, of whose columns each lane has two.
template <bool KeepNan, class T, int N>
FOURSCALE_D float square_amax(column_pair<T, N> const& columns) {
  u32 largest = column_magnitudes<T, KeepNan>(columns);
  FOURSCALE_UNROLL
  for (int lanes = 1; lanes < N / 2; lanes *= 2)
    largest = larger_magnitudes<T, KeepNan>(largest, __shfl_xor_sync(0xffff'ffffu, largest, lanes));
  return pair_amax<T, KeepNan>(largest);
}

/// The codes of both columns, and the scale of the square. All lanes of a warp take part.
template <class F, class T, class Recipe>
FOURSCALE_D typename F::scale quantize_square(column_pair<T, F::block_size> const& columns,
                                              Recipe const& recipe, tensor_scale<F> const& tensor,
                                              u8 (&codes)[2][block_code_bytes<F>]) {
  constexpr int n = F::block_size;
#if FOURSCALE_HAS_CVT_FP8
  if constexpr (has_quick_way<F, T, Recipe>()) {
    const float amax = square_amax<true>(columns);
    const quick_scale<F> chosen = scale_quickly<F>(recipe.scale, columns, amax, tensor, position{});
    if (__all_sync(0xffff'ffffu, chosen.valid)) {
      FOURSCALE_UNROLL
      for (int which = 0; which < 2; ++which)
        round_block_quickly<F>(column_block<T, n>{columns, which}, 1.0f, chosen.multiplier, recipe.round,
                               position{}, codes[which]);
      return chosen.code;
    }
  }
#endif
  const block_scale<F> scaled = scale_for<F>(recipe.scale, square_amax<false>(columns), tensor, position{});
  FOURSCALE_UNROLL
  for (int which = 0; which < 2; ++which) {
    float values[n];
    to_floats(column_block<T, n>{columns, which}, values);
    round_block<F>(values, scaled.multiplier, recipe.round, position{}, codes[which]);
  }
  return scaled.scale;
}

template <class F, int Cols>
struct square_memory : tile_memory<F, Cols> {
  alignas(8) u8 row_scales[tile_rows][Cols / F::block_size];

  /// Where the rowwise codes are of 64 columns of a row: over its values, of which they take a quarter; each
  /// of neighbouring rows in another, for the banks.
  FOURSCALE_D u32* row_codes(u32 r, u32 columns) {
    return &this->words[r][columns * 32 + (r / 2 + r % 2 * 2 + columns) % 4 * 8];
  }
};

/// A thread takes two columns over 32 rows; then, of the same squares, two rows. All codes stay in shared
/// memory.
template <class T, class F, int Cols, class Copies>
FOURSCALE_D void quantize_squares(Copies const& p, square_memory<F, Cols>& tile) {
  constexpr u32 n = F::block_size, bytes = block_code_bytes<F>;
  const u32 pair = threadIdx.x % (Cols / 2), square = pair / (n / 2);
  const tensor_scale<F> tensor = tile.tensor;
#pragma unroll 1
  for (u32 b = 0; b < group_rows / n; ++b) {
    const u32 block = threadIdx.x / (Cols / 2) * (group_rows / n) + b;
    const column_pair<T, n> columns(&tile.words[block * n][tile.word(pair)], Cols / 2);
    __syncwarp();  // the values have been read, and codes may take their place
    u8 codes[2][bytes];
    const u8 scale = quantize_square<F>(columns, p.rowwise, tensor, codes).bits;
    nibble_square<n> transposed;
    FOURSCALE_UNROLL
    for (u32 which = 0; which < 2; ++which) {
      store_codes<8>(codes[which], tile.codes_of(2 * pair + which) + block * bytes);
      tile.scales[2 * pair + which][block] = scale;
      FOURSCALE_UNROLL
      for (u32 i = 0; i < bytes; ++i) {
        u32& word = transposed.w[which][i / 4];
        word = (i % 4 == 0 ? 0 : word) | u32{codes[which][i]} << (8 * (i % 4));
      }
    }
    transposed.transpose();
    FOURSCALE_UNROLL
    for (u32 which = 0; which < 2; ++which) {
      const u32 r = block * n + 2 * (pair % (n / 2)) + which;
      tile.row_scales[r][square] = scale;
      u32* const to = tile.row_codes(r, pair / 32) + pair % 32 / (n / 2) * (n / 8);
      u32 const(&w)[n / 8] = transposed.w[which];
      if constexpr (n == 16)
        *reinterpret_cast<u64*>(to) = u64{w[1]} << 32 | w[0];
      else
        *reinterpret_cast<vector16*>(to) = {{w[0], w[1], w[2], w[3]}};
    }
  }
}

template <class Copies>
FOURSCALE_KERNEL void __launch_bounds__(Copies::threads, tile_ctas<Copies::tile_cols>)
    quantize_squares_kernel(Copies p) {
  using T = typename Copies::value;
  using F = typename Copies::format;
  constexpr int cols = Copies::tile_cols;
  __shared__ square_memory<F, cols> tile;
  const auto place = p.place();
  p.load(place, tile);
  quantize_squares<T, F>(p, tile);
  __syncthreads();
  p.store_columns(place, tile);
  store_tile_codes<Copies::threads, tile_rows, cols / 2>(
      p.q, p.codes, p.wide_codes && place.inside, place.tile_row, place.tile_col,
      [&](u32 r, u32 byte) -> void const* { return tile.row_codes(r, byte / 32) + byte % 32 / 4; });
  store_tile_scales<Copies::threads>(p.q, p.scales, p.wide_scales && place.inside, place.tile_row,
                                     place.tile_col, tile.row_scales);
}

}  // namespace fourscale::device::detail
