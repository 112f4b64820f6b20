// SPDX-License-Identifier: Apache-2.0
// 2-D blocks by tiles: the rowwise copy, the columnwise one, or both. A square is a block of N x N values
// under one scale. Every value is rounded once, 16-bit values by columns and fp32 values by rows. For the
// other copy, lanes transpose the codes of a square among themselves.
#pragma once

#include "quantize_tile.cuh"

namespace FOURSCALE_NAMESPACE::cta {

/// A square of N x N nibbles in N / 2 neighbouring lanes. Before transpose(), lane j holds columns 2 j and 2
/// j + 1; after it, rows 2 j and 2 j + 1. Each step swaps one bit of the row index with the same bit of the
/// column index. All lanes of a warp take part.
template <int N>
struct nibble_square {
  static constexpr int words = N / 8;  // of a column or row
  u32 w[2][words];

  FOURSCALE_D void transpose() {
    FOURSCALE_UNROLL
    for (int i = 0; i < words; ++i) {  // bit 0: both columns are in the lane
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
  /// Exchanges bytes or halves of words with lane ^ distance. The selectors of __byte_perm say which parts of
  /// both words to send, and how to put what came into each word.
  FOURSCALE_D void swap_in_words(int distance, u32 send, u32 into_first, u32 into_second) {
    FOURSCALE_UNROLL
    for (int i = 0; i < words; ++i) {
      const u32 came = __shfl_xor_sync(0xffff'ffffu, __byte_perm(w[0][i], w[1][i], send), distance);
      w[0][i] = __byte_perm(w[0][i], came, into_first);
      w[1][i] = __byte_perm(w[1][i], came, into_second);
    }
  }
  /// Exchanges the words whose index differs in `bit` from bit 4 * bit of the lane.
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

/// The amax of a square, in all of its lanes; each has two of its columns. All lanes of a warp take part.
template <bool KeepNan, class T, int N>
FOURSCALE_D float square_amax(column_pair<T, N> const& columns) {
  u32 largest = columns.template magnitudes<KeepNan>();
  FOURSCALE_UNROLL
  for (int lanes = 1; lanes < N / 2; lanes *= 2)
    largest = detail::larger_magnitudes<T, KeepNan>(largest, __shfl_xor_sync(0xffff'ffffu, largest, lanes));
  return detail::pair_amax<T, KeepNan>(largest);
}

/// Quantizes a square. Writes the codes of the lane's two columns and returns the scale of the square. May
/// lower the values in `columns`. All lanes of a warp take part: if the fast form is not valid in one of
/// them, all go by the definition.
template <class F, class T, class Quantizer>
FOURSCALE_D typename F::scale quantize_square(column_pair<T, F::block_size>& columns, Quantizer const& q,
                                              tensor_scale<F> const& tensor,
                                              u8 (&codes)[2][block_code_bytes<F>]) {
  constexpr int n = F::block_size;
  if constexpr (detail::has_fast_form<F, Quantizer>()) {
    using round = decltype(Quantizer::round);
    constexpr bool limited = round::fast_limited(), as_words = same_type<T, bf16>;
    const detail::scale_choice<F> chosen =
        detail::choose_fast<F>(square_amax<true>(columns), q.scale, tensor, position{});
    if (__all_sync(0xffff'ffffu, chosen.valid)) {
      if constexpr (as_words)
        if (limited && chosen.over) columns.lower_to(chosen.limit(), chosen.limit());
      FOURSCALE_UNROLL
      for (int which = 0; which < 2; ++which)
        detail::round_fast<F, limited && !as_words>(column_block<T, n>{&columns, which}, chosen.multiplier,
                                                    q.round, position{}, codes[which]);
      return chosen.scale;
    }
  }
  const block_scale<F> scaled = scale_for<F>(q.scale, square_amax<false>(columns), tensor, position{});
  FOURSCALE_UNROLL
  for (int which = 0; which < 2; ++which) {
    float x[n];
    column_block<T, n>{&columns, which}.to_floats(x);
    round_block<F>(x, scaled.multiplier, q.round, position{}, codes[which]);
  }
  return scaled.scale;
}

/// Stores the words of a row or column of codes at once, to an address that is a multiple of their bytes.
template <u32 N>
FOURSCALE_D void store_words(u32 const (&w)[N], u32* to) {
  if constexpr (N == 2)
    *reinterpret_cast<u64*>(to) = u64{w[1]} << 32 | w[0];
  else
    *reinterpret_cast<vector16*>(to) = {{w[0], w[1], w[2], w[3]}};
}

/// Quantizes a tile of 16-bit values. A thread takes two columns over 32 rows, a square at a time; after the
/// transpose, it has two rows of the same square. All codes and scales stay in shared memory. All threads of
/// a CTA call it; a barrier must follow.
template <class Copies, class Quantizer, class T = typename Copies::value, class F = typename Copies::format>
FOURSCALE_D void quantize_squares(Quantizer const& q, typename Copies::memory& tile) {
  constexpr u32 n = F::block_size, bytes = block_code_bytes<F>, cols = Copies::tile_cols;
  const u32 pair = threadIdx.x % (cols / 2), square = pair / (n / 2);
  const tensor_scale<F> tensor = tile.tensor;
#pragma unroll 1
  for (u32 b = 0; b < group_rows / n; ++b) {
    const u32 block = threadIdx.x / (cols / 2) * (group_rows / n) + b;
    column_pair<T, n> columns(&tile.words[block * n][tile.word(pair)], cols / 2);
    __syncwarp();  // all lanes have read their values, and codes may replace these
    u8 codes[2][bytes];
    const u8 scale = quantize_square<F>(columns, q, tensor, codes).bits;
    nibble_square<n> transposed;
    FOURSCALE_UNROLL
    for (u32 which = 0; which < 2; ++which) {
      if constexpr (Copies::has_columnwise) {
        store_codes<8>(codes[which], tile.codes_of(2 * pair + which) + block * bytes);
        tile.scales[2 * pair + which][block] = scale;
      }
      FOURSCALE_UNROLL
      for (u32 i = 0; i < bytes; ++i) {
        u32& word = transposed.w[which][i / 4];
        word = (i % 4 == 0 ? 0 : word) | u32{codes[which][i]} << (8 * (i % 4));
      }
    }
    if constexpr (!Copies::has_rowwise) continue;
    transposed.transpose();
    FOURSCALE_UNROLL
    for (u32 which = 0; which < 2; ++which) {
      const u32 r = block * n + 2 * (pair % (n / 2)) + which;
      tile.row_scales[r][square] = scale;
      store_words(transposed.w[which], tile.row_codes(r, pair / 32) + pair % 32 / (n / 2) * (n / 8));
    }
  }
}

/// Loads N values of a row. `vectors`: `from` is a multiple of 16 bytes.
template <int N>
FOURSCALE_D values<float, N> load_row(float const* from, bool vectors) {
  if (vectors) return values<float, N>::load(from);
  values<float, N> v;
  FOURSCALE_UNROLL
  for (int i = 0; i < N; ++i) v.set(i, from[i]);
  return v;
}

/// The amax of a square, in all of its lanes; each has two of its rows. All lanes of a warp take part.
template <bool KeepNan, int N>
FOURSCALE_D float square_amax(values<float, N> const (&rows)[2]) {
  const auto of_row = [&](int i) { return bit_cast<i32>(KeepNan ? rows[i].amax_or_nan() : rows[i].amax()); };
  i32 largest = max(of_row(0), of_row(1));
  FOURSCALE_UNROLL
  for (int lanes = 1; lanes < N / 2; lanes *= 2)
    largest = max(largest, __shfl_xor_sync(0xffff'ffffu, largest, lanes));
  return bit_cast<float>(largest);
}

/// The same as above for a square of fp32 values: writes the codes of the lane's two rows.
template <class F, class Quantizer>
FOURSCALE_D typename F::scale quantize_square(values<float, F::block_size> const (&rows)[2],
                                              Quantizer const& q, tensor_scale<F> const& tensor,
                                              u8 (&codes)[2][block_code_bytes<F>]) {
  if constexpr (detail::has_fast_form<F, Quantizer>()) {
    const detail::scale_choice<F> chosen =
        detail::choose_fast<F>(square_amax<true>(rows), q.scale, tensor, position{});
    if (__all_sync(0xffff'ffffu, chosen.valid)) {
      FOURSCALE_UNROLL
      for (int i = 0; i < 2; ++i)
        detail::round_fast<F, decltype(q.round)::fast_limited()>(rows[i], chosen.multiplier, q.round,
                                                                 position{}, codes[i]);
      return chosen.scale;
    }
  }
  const block_scale<F> scaled = scale_for<F>(q.scale, square_amax<false>(rows), tensor, position{});
  FOURSCALE_UNROLL
  for (int i = 0; i < 2; ++i) {
    float x[F::block_size];
    rows[i].to_floats(x);
    round_block<F>(x, scaled.multiplier, q.round, position{}, codes[i]);
  }
  return scaled.scale;
}

/// Both copies of fp32 values, which are too wide for a tile. A lane loads two rows of a square from memory
/// to registers; after the codes are transposed, it has two of its columns. All codes and scales go to shared
/// memory. All threads of a CTA call it; a barrier must follow.
template <class Copies, class Quantizer, class F = typename Copies::format>
FOURSCALE_D void quantize_squares_of_rows(Copies const& p, typename Copies::place_of_tile const& place,
                                          Quantizer const& q, typename Copies::memory& tile) {
  constexpr u32 n = F::block_size, bytes = block_code_bytes<F>, lanes = n / 2,
                along = Copies::memory::along_row, squares = along * Copies::memory::along_column;
  const tensor_scale<F> tensor = tile.tensor;
  const u32 lane = threadIdx.x % lanes;
#pragma unroll 1
  for (u32 s = threadIdx.x / lanes; s < squares; s += Copies::threads / lanes) {
    const u32 i = s / along, j = s % along;
    const i64 row = place.row() + i * n + 2 * lane, block = i64{place.tile_col} * along + j;
    const bool inside = place.inside || (row < p.q.rows && block < p.q.blocks());
    values<float, n> rows[2] = {};
    FOURSCALE_UNROLL
    for (int k = 0; k < 2; ++k)
      if (inside) rows[k] = load_row<n>(&p.x.at(row + k, block * n), p.wide_values);
    u8 codes[2][bytes];
    const u8 scale = quantize_square<F>(rows, q, tensor, codes).bits;
    nibble_square<n> square{};
    FOURSCALE_UNROLL
    for (u32 k = 0; k < 2; ++k) {
      const u32 r = i * n + 2 * lane + k;
      FOURSCALE_UNROLL
      for (u32 b = 0; b < bytes; ++b) square.w[k][b / 4] |= u32{codes[k][b]} << (8 * (b % 4));
      store_words(square.w[k], tile.row_codes(r, j * n / 64) + j * n % 64 / 8);
      tile.row_scales[r][j] = scale;
    }
    square.transpose();
    FOURSCALE_UNROLL
    for (u32 k = 0; k < 2; ++k) {
      const u32 c = j * n + 2 * lane + k;
      store_words(square.w[k], reinterpret_cast<u32*>(tile.codes_of(c) + i * bytes));
      tile.scales[c][i] = scale;
    }
  }
}

/// Stores the codes and scales in a tile's shared memory to both copies, or to the one that is wanted. All
/// threads of a CTA call it. If p.scales_of_first_rows, only the first row of each square stores its scales,
/// those of the rowwise copy; spread_scales() does the rest.
template <class Copies>
FOURSCALE_D void store_squares(Copies const& p, typename Copies::place_of_tile const& place,
                               typename Copies::memory& tile) {
  using F = typename Copies::format;
  if constexpr (Copies::has_columnwise) {
    p.store_codes_of_columns(place, tile);
    if (!p.scales_of_first_rows) p.store_scales_of_columns(place, tile);
  }
  if constexpr (Copies::has_rowwise) {
    store_tile_codes<Copies::threads, tile_rows, Copies::tile_cols / 2>(
        p.q, p.codes, p.wide_codes && place.inside, place.tile_row, place.tile_col,
        [&](u32 r, u32 byte) -> void const* { return tile.row_codes(r, byte / 32) + byte % 32 / 4; });
    if (!p.scales_of_first_rows) {
      p.store_scales_of_rows(place, tile);
    } else if (constexpr u32 n = F::block_size; threadIdx.x < tile_rows / n * tile.along_row) {
      const u32 r = threadIdx.x / tile.along_row * n, b = threadIdx.x % tile.along_row;
      *p.scales.at(place.tile_row * tile_rows + r, place.tile_col * tile.along_row + b) =
          tile.row_scales[r][b];
    }
  }
}

/// Quantizes and stores one tile of squares. All threads of a CTA call it.
template <class Copies>
FOURSCALE_D void quantize_tile_of_squares(Copies const& p, typename Copies::place_of_tile const& place,
                                          typename Copies::memory& tile) {
  if constexpr (same_type<typename Copies::value, float>) {
    p.find_tensor_scale(tile);
    __syncthreads();
    quantize_squares_of_rows(p, place, p.columnwise, tile);
  } else {
    p.load(place, tile);
    if constexpr (Copies::has_columnwise)
      quantize_squares<Copies>(p.columnwise, tile);
    else
      quantize_squares<Copies>(p.rowwise, tile);
  }
  __syncthreads();
  store_squares(p, place, tile);
}

inline constexpr u32 spread_squares = 32;  ///< squares of a CTA in each direction

/// Copies the scales in the first row of each N x N square to all rows of both linear copies, where each
/// scale occurs N times. A tile has less than a sector of each row of scales, so storing them from the tiles
/// costs more than this kernel. All threads of a CTA call it.
template <u32 N>
FOURSCALE_D void spread_scales(byte_rows<u8> const& scales, byte_rows<u8> const& scales_t) {
  constexpr u32 n = spread_squares, halves = n / 16, step = threads / halves;
  __shared__ alignas(16) u8 square[n][n], transposed[n][n + 16];
  const u32 row = blockIdx.y * n, col = blockIdx.x * n;
  for (u32 i = threadIdx.x; i < n * n / 4; i += threads) {
    const u32 r = i / (n / 4), c = i % (n / 4) * 4;
    const u32 four = *reinterpret_cast<u32 const*>(scales.at((row + r) * N, col + c));
    *reinterpret_cast<u32*>(&square[r][c]) = four;
    FOURSCALE_UNROLL
    for (u32 k = 0; k < 4; ++k) transposed[c + k][r] = static_cast<u8>(four >> (8 * k));
  }
  __syncthreads();  // also: the first rows have been read, and may be overwritten
  const u32 byte = threadIdx.x % halves * 16;
  FOURSCALE_UNROLL
  for (u32 r = threadIdx.x / halves; r < n * N; r += step) {
    *reinterpret_cast<vector16*>(scales.at(row * N + r, col + byte)) =
        *reinterpret_cast<vector16 const*>(&square[r / N][byte]);
    *reinterpret_cast<vector16*>(scales_t.at(col * N + r, row + byte)) =
        *reinterpret_cast<vector16 const*>(&transposed[r / N][byte]);
  }
}

/// True if both copies of a square round alike: 4-bit codes, to nearest, and under a scale rule that neither
/// weighs candidates nor takes a position.
template <class F, class Quantizer>
inline constexpr bool has_like_squares =
    same_type<decltype(Quantizer::round), nearest_even>&& F::element::width == 4 &&
    requires(Quantizer const q, tensor_scale<F> tensor) {
  q.scale(F{}, 0.0f, tensor);
};

}  // namespace FOURSCALE_NAMESPACE::cta
