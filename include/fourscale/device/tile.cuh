// SPDX-License-Identifier: Apache-2.0
// A tile of a matrix in shared memory, for kernels that walk it by columns, and what becomes of its columns,
// gathered there so that whole sectors are written. Values are 16 bits wide, two columns to a word; codes are
// four bits wide. Tiles are small, so that an SM has several: some load while others compute.
#pragma once

#include "../ptx/cp_async.cuh"
#include "columns.cuh"
#include "divisor.cuh"
#include "quantize_raw.cuh"
#include "store.cuh"

namespace fourscale::device::detail {

inline constexpr int tile_rows = 128;
inline constexpr int group_rows = 32;  // that a thread takes of two columns
template <int Cols>
inline constexpr int tile_threads = Cols / 2 * (tile_rows / group_rows);
template <int Cols>
inline constexpr int tile_ctas = 1024 / tile_threads<Cols>;  // that an SM has

/// A tensor scale in shared memory, where nothing may have a constructor.
template <class F>
struct shared_tensor_value {
  alignas(8) unsigned char bytes[sizeof(tensor_scale<F>)];

  FOURSCALE_D operator tensor_scale<F>() const { return reinterpret_cast<tensor_scale<F> const&>(bytes); }
  FOURSCALE_D void operator=(tensor_scale<F> const& t) { reinterpret_cast<tensor_scale<F>&>(bytes) = t; }
};

template <class F, int Cols>
struct tile_memory {
  static constexpr int along_row = Cols / F::block_size, along_column = tile_rows / F::block_size;
  static constexpr int column_bytes = tile_rows / 2;
  alignas(16) u32 words[tile_rows][Cols / 2];
  alignas(16) u8 codes[Cols][column_bytes + 16];  ///< of each column; 16 more, for the banks
  alignas(8) u8 scales[Cols][along_column];       ///< of each column
  shared_tensor_value<F> tensor;                  ///< of the columns
};

/// Where a tile is; `inside`: all of it is in the matrix.
template <int Cols>
struct tile_place {
  i64 row, col;
  bool inside;

  template <class T>
  FOURSCALE_D tile_place(matrix_view<T> const& x, divisor tiles_along) {
    const u32 tile = cta_from_end(), tile_row = tiles_along.quotient(tile);
    row = i64{tile_row} * tile_rows;
    col = i64{tile - tile_row * tiles_along.d} * Cols;
    inside = row + tile_rows <= x.rows && col + Cols <= x.cols;
  }
};

/// Starts copying a tile; what lies outside the matrix becomes 0. Ends with finish_tile().
template <int Cols, class T>
FOURSCALE_D void start_tile(matrix_view<T const> const& x, tile_place<Cols> const& place,
                            u32 (&words)[tile_rows][Cols / 2]) {
  constexpr int chunk = 16 / static_cast<int>(sizeof(T)), chunks = Cols / chunk,
                step = tile_threads<Cols> / chunks;
  constexpr u32 step_bytes = step * Cols * sizeof(T);
  const u32 c = threadIdx.x % chunks * chunk, first = threadIdx.x / chunks;
  u32 to = ptx::shared_address(&words[first][c / 2]);
  T const* from = x.data + (place.row * x.ld + place.col) + (first * x.ld + c);
  if (place.inside) {
    FOURSCALE_UNROLL
    for (int r = 0; r < tile_rows; r += step, from += step * x.ld, to += step_bytes)
      ptx::cp_async_cg_16(to, from);
  } else {
    const i64 left = x.cols - (place.col + c);
    const int columns = left < 0 ? 0 : left < chunk ? static_cast<int>(left) : chunk;
#pragma unroll 1
    for (int r = 0; r < tile_rows; r += step, from += step * x.ld, to += step_bytes) {
      const int bytes = place.row + first + r < x.rows ? columns * static_cast<int>(sizeof(T)) : 0;
      T const* const source = bytes > 0 ? from : x.data;
      ptx::cp_async_cg_16(to, source, bytes);
    }
  }
}
FOURSCALE_D inline void finish_tile() {
  ptx::cp_async_wait_all();
  __syncthreads();
}

/// Scales of N rows to memory, `Along` of each from first_block on; those of the padding as 0. `whole`: there
/// is no padding, all are in the matrix, and they begin at a multiple of Along.
template <int Threads, class F, class Layout, int N, int Along>
FOURSCALE_D void store_scales(block_scaled_view<F, Layout> const& q, bool whole, i64 row, i64 first_block,
                              u8 const (&scales)[N][Along]) {
  if (whole) {
    u8* to = q.scales + q.scale_offset(row + threadIdx.x, first_block);
    FOURSCALE_UNROLL
    for (u32 r = threadIdx.x; r < N; r += Threads, to += Threads * q.blocks()) {
      if constexpr (Along == 8)
        *reinterpret_cast<u64*>(to) = *reinterpret_cast<u64 const*>(scales[r]);
      else if constexpr (Along == 4)
        *reinterpret_cast<u32*>(to) = *reinterpret_cast<u32 const*>(scales[r]);
      else
        *reinterpret_cast<u16*>(to) = *reinterpret_cast<u16 const*>(scales[r]);
    }
    return;
  }
#pragma unroll 1
  for (u32 i = threadIdx.x; i < N * Along; i += Threads) {
    const u32 r = i / Along, b = i % Along;
    const bool inside = row + r < q.rows && first_block + b < q.blocks();
    if (inside ||
        (row + r < Layout::padded_rows(q.rows) && first_block + b < Layout::padded_blocks(q.blocks())))
      q.store_scale(row + r, first_block + b, {inside ? scales[r][b] : u8{0}});
  }
}

/// The gathered codes of the columns to memory. `whole`: all are in the matrix, and rows of qt's codes begin
/// at multiples of 16 bytes.
template <class F, class Layout, int Cols>
FOURSCALE_D void store_column_codes(block_scaled_view<F, Layout> const& qt, bool whole,
                                    tile_place<Cols> const& place, tile_memory<F, Cols> const& tile) {
  constexpr u32 bytes = block_code_bytes<F>, chunks = tile.column_bytes / 16,
                step = tile_threads<Cols> / chunks;
  const i64 first_block = place.row / F::block_size;
  const u32 at = threadIdx.x % chunks * 16, first = threadIdx.x / chunks;
  u8* to = qt.codes + qt.code_offset(place.col + first, first_block) + at;
  const i64 stride = step * qt.code_offset(1, 0);
  if (whole) {
    FOURSCALE_UNROLL
    for (u32 c = first; c < Cols; c += step, to += stride)
      *reinterpret_cast<vector16*>(to) = *reinterpret_cast<vector16 const*>(&tile.codes[c][at]);
    return;
  }
#pragma unroll 1
  for (u32 c = first; c < Cols; c += step, to += stride) {
    FOURSCALE_UNROLL
    for (u32 i = 0; i < 16; i += 8)
      if (place.col + c < qt.rows && first_block + (at + i) / bytes < qt.blocks())
        *reinterpret_cast<u64*>(to + i) = *reinterpret_cast<u64 const*>(&tile.codes[c][at + i]);
  }
}

/// True if every Along scales begin at a multiple of their number.
template <int Along, class F, class Layout>
bool scales_are_vectors(block_scaled_view<F, Layout> const& q) {
  return !Layout::has_padding && reinterpret_cast<u64>(q.scales) % Along == 0 && q.blocks() % Along == 0;
}

/// True if tiles will do: 16-bit values in rows that are vectors, 4-bit codes at a multiple of eight bytes,
/// one tensor scale.
template <class T, class F, class Layout>
bool fits_tiles(matrix_view<T> const& x, block_scaled_view<F, Layout> const& q) {
  return rows_are_vectors(x) && reinterpret_cast<u64>(q.codes) % code_word<F> == 0 && q.row_amax == nullptr;
}
template <class T, class F>
inline constexpr bool has_tiles = is_short<T>&& F::block_size <= 32 && F::element::width == 4;

}  // namespace fourscale::device::detail
