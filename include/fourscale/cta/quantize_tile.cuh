// SPDX-License-Identifier: Apache-2.0
// 1-D blocks by tiles: the columnwise copy, alone or with the rowwise one from the same read.
// quantize_squares.cuh takes the same arguments (tile_copies) for 2-D blocks. The order of the code is the
// fastest one found on an H200 (docs/speed.md): for instance, indices are computed anew and not kept.
#pragma once

#include "producer.cuh"
#include "tile.cuh"

namespace FOURSCALE_NAMESPACE::cta {

/// Takes the place of the quantizer of a copy that is not wanted.
struct no_copy {};

/// The arguments of a kernel that works by tiles. q is the rowwise copy, qt the columnwise one. `Source` may
/// be a producer if the rowwise copy is wanted.
template <class T, class F, class LayoutR, class LayoutC, class Rowwise, class Columnwise, bool ByRow = false,
          class Source = matrix_view<T const>>
struct tile_copies {
  static constexpr bool by_row = ByRow;  ///< each row of qt, a column of x, has an amax of its own
  using value = T;
  using format = F;
  static constexpr bool has_rowwise = !same_type<Rowwise, no_copy>,
                        has_columnwise = !same_type<Columnwise, no_copy>;
  /// Measured on an H200: for columns alone a narrow tile is best. For both copies, whole sectors of rows
  /// matter, as do whole lines of columns; codes of eight bits fill those in half the width.
  static constexpr int tile_cols = has_rowwise && F::element::width == 4 ? 128 : 64;
  static constexpr u32 threads = tile_threads<tile_cols>;
  using memory = tile_memory<F, tile_cols>;
  using place_of_tile = tile_place<tile_cols, has_rowwise && has_columnwise ? 4 : 1>;

  Source x;
  block_scaled_view<F, LayoutR> q;
  block_scaled_view<F, LayoutC> qt;
  Rowwise rowwise;
  Columnwise columnwise;
  // The launch sets the rest, see complete_tiles() in device/quantize_tiles.cuh.
  byte_rows<u8 const> values{};
  byte_rows<u8> codes{}, scales{}, codes_t{}, scales_t{};
  u32 first_tile_row = 0;
  u32 tiles_down = 0;
  u32 rows_inside = 0, cols_inside = 0;  ///< whole tiles down and along
  bool wide_values = false;              ///< rows of x are aligned to 16 bytes, or a producer's
  bool wide_codes = false, wide_scales = false, wide_codes_t = false, wide_scales_t = false;
  bool scales_of_first_rows = false;  ///< see spread_scales()

  FOURSCALE_D place_of_tile place() const { return {rows_inside, cols_inside, first_tile_row}; }
  /// Thread 32 computes the tensor scale of the columnwise copy, or of the rowwise one if it is alone, for
  /// all threads. A barrier must follow.
  FOURSCALE_D void find_tensor_scale(memory& tile) const {
    if (threadIdx.x != 32) return;
    if constexpr (has_columnwise)
      tile.tensor = by_row ? tensor_scale<F>{} : qt.amax.scale();
    else
      tile.tensor = q.amax.scale();
  }
  /// Loads a tile, and computes the tensor scale while the loads are in flight. All threads of a CTA call it.
  FOURSCALE_D void load(place_of_tile const& at, memory& tile) const {
    if (wide_values)
      start_tile(x, values, at, tile);
    else
      copy_tile(x, at, tile);
    find_tensor_scale(tile);
    finish_tile();
  }
  FOURSCALE_D void store_codes_of_columns(place_of_tile const& at, memory& tile) const {
    store_tile_codes<threads, tile_cols, memory::column_bytes>(
        qt, codes_t, wide_codes_t && at.inside, at.tile_col, at.tile_row,
        [&](u32 r, u32 byte) -> void const* { return tile.codes_of(r) + byte; });
  }
  FOURSCALE_D void store_scales_of_columns(place_of_tile const& at, memory const& tile) const {
    if constexpr (block_scale_bytes<F> == 1)
      store_tile_scales<threads>(qt, scales_t, wide_scales_t && at.inside, at.tile_col, at.tile_row,
                                 tile.scales);
  }
  FOURSCALE_D void store_scales_of_rows(place_of_tile const& at, memory const& tile) const {
    if constexpr (block_scale_bytes<F> == 1)
      store_tile_scales<threads>(q, scales, wide_scales && at.inside, at.tile_row, at.tile_col,
                                 tile.row_scales);
  }
};

/// The columnwise copy of a tile. A thread takes two columns over 32 rows; codes and scales stay in shared
/// memory. If the fast form is not valid for one of its blocks, the thread computes all of them again:
/// keeping track of single blocks would cost more. All threads of a CTA call it; a barrier must follow.
template <class T, class F, int Cols, class Copies>
FOURSCALE_D void quantize_columns(Copies const& p, typename Copies::place_of_tile const& place,
                                  tile_memory<F, Cols>& tile) {
  constexpr int n = F::block_size, blocks = group_rows / n, bytes = block_code_bytes<F>;
  const int pair = static_cast<int>(threadIdx.x) % (Cols / 2),
            first = static_cast<int>(threadIdx.x) / (Cols / 2) * blocks;
  const i64 row = place.row(), col = place.col();
  const tensor_scale<F> of_all = tile.tensor;
  const auto tensor = [&](int which) {
    const i64 c = col + 2 * pair + which;  // columns are rows of the quantized matrix
    return Copies::by_row && c < p.qt.rows ? p.qt.amax.scale_of_own(c) : of_all;
  };
  u8 codes[2][blocks * bytes];
  bool all_valid = true;
  FOURSCALE_UNROLL
  for (int b = 0; b < blocks; ++b) {
    const column_pair<T, n> columns(&tile.words[(first + b) * n][tile.word(static_cast<u32>(pair))],
                                    Cols / 2);
    const position where[2] = {{col + 2 * pair, row + (first + b) * n},
                               {col + 2 * pair + 1, row + (first + b) * n}};
    attempt<F> results[2];
    try_quantize_pair<F>(columns, p.columnwise, tensor, where, results);
    FOURSCALE_UNROLL
    for (int which = 0; which < 2; ++which) {
      FOURSCALE_UNROLL
      for (int i = 0; i < bytes; ++i) codes[which][b * bytes + i] = results[which].block.codes[i];
      tile.scales[2 * pair + which][first + b] = static_cast<u8>(results[which].block.scale.bits);
      all_valid &= results[which].valid;
    }
  }
  FOURSCALE_UNROLL
  for (int which = 0; which < 2; ++which)
    store_codes<16>(codes[which], tile.codes_of(static_cast<u32>(2 * pair + which)) + first * bytes);
  if (all_valid) return;
#pragma unroll 1
  for (int i = 0; i < 2 * blocks; ++i) {
    const int block = first + i / 2, c = 2 * pair + i % 2;
    const column_pair<T, n> columns(&tile.words[block * n][tile.word(static_cast<u32>(pair))], Cols / 2);
    const packed_block<F> packed = quantize_by_definition<F>(
        column_block<T, n>{&columns, i % 2}, p.columnwise, tensor(i % 2), position{col + c, row + block * n});
    store_codes<8>(packed.codes, tile.codes_of(static_cast<u32>(c)) + block * bytes);
    tile.scales[c][block] = static_cast<u8>(packed.scale.bits);
  }
}

/// The rowwise copy. A thread loads blocks of rows, puts their values into the tile for the columnwise copy,
/// and quantizes them from its registers. `Inside`: all of the tile is in the matrix, and its rows are
/// aligned to 16 bytes or a producer's. All threads of a CTA call it; a barrier must follow.
template <bool Inside, class T, class F, int Cols, class Copies>
FOURSCALE_D void quantize_rows_into_tile(Copies const& p, typename Copies::place_of_tile const& place,
                                         tile_memory<F, Cols>& tile) {
  constexpr int n = F::block_size, along = tile.along_row, step = tile_threads<Cols> / along,
                each = tile_rows / step;
  const int r = static_cast<int>(threadIdx.x) / along, b = static_cast<int>(threadIdx.x) % along;
  const i64 row = place.row() + r, block = i64{place.tile_col} * along + b;
  const auto inside = [&](int k) { return Inside || (block < p.q.blocks() && row + k * step < p.q.rows); };
  const u32 first_row = place.tile_row * tile_rows + static_cast<u32>(r),
            first_block = place.tile_col * along + static_cast<u32>(b);
  u8 const* const from = p.values.at(first_row, first_block * static_cast<u32>(n * sizeof(T)));
  const auto load = [&](int k) -> values<T, n> {
    if constexpr (producer<decltype(p.x)>) {
      return p.x.load(place_in(p.q.blocks(), row + k * step, block));
    } else {
      T const* const first = reinterpret_cast<T const*>(from + static_cast<u64>(k) * p.values.step(step));
      if (Inside || p.wide_values) return values<T, n>::load(first);
      return shifted_values<T, n>(first, p.x.data + p.x.extent()).arrived();
    }
  };
  values<T, n> raw[each];
  FOURSCALE_UNROLL
  for (int k = 0; k < each; ++k) {
    raw[k] = {};
    if (inside(k)) raw[k] = load(k);
  }
  p.find_tensor_scale(tile);
  const tensor_scale<F> tensor = p.q.amax.scale();
  u8* const codes = p.codes.at(first_row, first_block * static_cast<u32>(block_code_bytes<F>));
  const auto store = [&](int k, packed_block<F> const& packed) {
    store_codes<code_word<F>>(packed.codes, codes + static_cast<u64>(k) * p.codes.step(step));
    tile.row_scales[r + k * step][b] = static_cast<u8>(packed.scale.bits);
  };
  bool all_valid = true;
  FOURSCALE_UNROLL
  for (int k = 0; k < each; ++k) {
    const u32 at = tile.word(static_cast<u32>(b * n / 2));
    FOURSCALE_UNROLL
    for (u32 j = 0; j < n / 2; j += 4)
      *reinterpret_cast<vector16*>(&tile.words[r + k * step][at ^ j]) = {
          {raw[k].words[j], raw[k].words[j + 1], raw[k].words[j + 2], raw[k].words[j + 3]}};
  }
  // Half of them at a time takes fewer registers; with a transform of the columns, all at once is faster
  // (H200).
  constexpr int at_once = each > 1 && detail::is_plain<decltype(p.columnwise)> ? each / 2 : each;
  FOURSCALE_UNROLL
  for (int first = 0; first < each; first += at_once) {
    values<T, n> some[at_once];
    FOURSCALE_UNROLL
    for (int i = 0; i < at_once; ++i) some[i] = raw[first + i];
    try_quantize_blocks<F>(
        some, p.rowwise, [&](int) { return tensor; },
        [&](int k) {
          return position{row + (first + k) * step, block * n};
        },
        [&](int k, attempt<F> const& result) {
          if (!inside(first + k)) return;
          store(first + k, result.block);
          all_valid &= result.valid;
        });
  }
  if (all_valid) return;
#pragma unroll 1
  for (int k = 0; k < each; ++k)
    if (inside(k))
      store(k, quantize_by_definition<F>(load(k), p.rowwise, tensor, position{row + k * step, block * n}));
}

/// Quantizes and stores one tile. All threads of a CTA call it.
template <class Copies>
FOURSCALE_D void quantize_tile(Copies const& p, typename Copies::place_of_tile const& place,
                               typename Copies::memory& tile) {
  using T = typename Copies::value;
  using F = typename Copies::format;
  if constexpr (Copies::has_rowwise) {
    if (place.inside && p.wide_values)
      quantize_rows_into_tile<true, T, F>(p, place, tile);
    else
      quantize_rows_into_tile<false, T, F>(p, place, tile);
    __syncthreads();
  } else {
    p.load(place, tile);
  }
  quantize_columns<T, F>(p, place, tile);
  __syncthreads();
  p.store_codes_of_columns(place, tile);
  p.store_scales_of_columns(place, tile);
  if constexpr (Copies::has_rowwise) p.store_scales_of_rows(place, tile);
}

}  // namespace FOURSCALE_NAMESPACE::cta
