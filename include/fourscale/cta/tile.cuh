// SPDX-License-Identifier: Apache-2.0
// A tile of a matrix in shared memory, for kernels that go through it by columns (quantize_tile.cuh,
// quantize_squares.cuh). Codes and scales of the columns are gathered in it, too, so that whole sectors are
// written. Values have 16 bits, and a word has those of two columns; codes have four or eight bits. Tiles are
// small, so that an SM has several: some load while others compute.
#pragma once

#include "../ptx/cp_async.cuh"
#include "quantize_block.cuh"
#include "sink.cuh"

namespace FOURSCALE_NAMESPACE::cta {

inline constexpr int tile_rows = 128;
inline constexpr int group_rows = 32;  // rows that a thread takes of two columns
inline constexpr int warp_cols = 64;   // columns that a warp takes
/// Threads of a CTA that takes a tile of Cols columns.
template <int Cols>
inline constexpr int tile_threads = Cols / 2 * (tile_rows / group_rows);
/// CTAs per SM: fewer on GPUs without FP8 conversions, where E2M1 takes more registers.
template <int Cols>
inline constexpr int tile_ctas =
    (FOURSCALE_DEVICE_PASS > 0 && !arch::has_cvt_fp8 ? 768 : 1024) / tile_threads<Cols>;

/// A tensor scale in shared memory, where no variable may have a constructor.
template <class F>
struct shared_tensor_value {
  alignas(8) unsigned char bytes[sizeof(tensor_scale<F>)];

  FOURSCALE_D operator tensor_scale<F>() const { return reinterpret_cast<tensor_scale<F> const&>(bytes); }
  FOURSCALE_D void operator=(tensor_scale<F> const& t) { reinterpret_cast<tensor_scale<F>&>(bytes) = t; }
};

template <class F, int Cols>
struct tile_memory {
  static constexpr int along_row = Cols / F::block_size, along_column = tile_rows / F::block_size;
  static constexpr int column_bytes = tile_rows * F::element::width / 8;
  alignas(16) u32 words[tile_rows][Cols / 2];      ///< values, at the index that word() gives
  alignas(16) u8 codes[Cols][column_bytes + 16];   ///< of each column; 16 bytes more, against bank conflicts
  alignas(8) u8 scales[Cols][along_column];        ///< of each column
  alignas(8) u8 row_scales[tile_rows][along_row];  ///< of each row, if the rowwise copy is wanted
  shared_tensor_value<F> tensor;                   ///< see find_tensor_scale()

  /// The index of word w of a row. Of the 64 words of a wide tile, those in the upper half have the two
  /// halves of every 32 bytes swapped, so that eight threads that each store 16 of their 32 bytes store to
  /// different banks.
  static FOURSCALE_D u32 word(u32 w) { return Cols == 128 ? w ^ (w / 32 % 2 * 4) : w; }
  /// Where the 4-bit rowwise codes of 64 columns of row r are gathered, if they are: over the values of these
  /// columns, of which they take a quarter. Neighbouring rows use different quarters, against bank conflicts.
  FOURSCALE_D u32* row_codes(u32 r, u32 columns) {
    return &words[r][columns * 32 + (r / 2 + r % 2 * 2 + columns) % 4 * 8];
  }
  /// &codes[column][0], without the 64-bit arithmetic of signed indices.
  FOURSCALE_D u8* codes_of(u32 column) { return &codes[0][0] + column * u32{sizeof codes[0]}; }
};

/// A matrix of bytes: fewer than 2^32 rows of fewer than 2^32 bytes, so that addresses take few instructions.
template <class Byte>
struct byte_rows {
  Byte* data = nullptr;
  u32 row_bytes = 0;

  FOURSCALE_D Byte* at(u32 row, u32 byte) const { return data + u64{row} * row_bytes + byte; }
  /// The bytes from a row to the one `rows` below it.
  FOURSCALE_D u64 step(u32 rows) const { return u64{rows} * row_bytes; }
};

/// The place of a tile, counted in tiles. `inside`: all of it is in the matrix. The grid begins at the end of
/// the matrix, see cta_from_end(). CTAs take tiles in columns of `Down`: tiles below each other share lines
/// of the columnwise copy, and so write them at nearly the same time.
template <int Cols, u32 Down>
struct tile_place {
  static constexpr u32 down = Down;
  u32 tile_row, tile_col;
  bool inside;

  struct row_and_col {
    u32 row, col;
  };
  FOURSCALE_D tile_place(u32 rows_inside, u32 cols_inside, u32 first_tile_row)
      : tile_place(rows_inside, cols_inside,
                   {(gridDim.y - 1 - blockIdx.y) * Down + blockIdx.x % Down + first_tile_row,
                    (gridDim.x - 1 - blockIdx.x) / Down}) {}
  FOURSCALE_D tile_place(u32 rows_inside, u32 cols_inside, row_and_col at)
      : tile_row(at.row), tile_col(at.col), inside(tile_row < rows_inside && tile_col < cols_inside) {}
  FOURSCALE_D i64 row() const { return i64{tile_row} * tile_rows; }
  FOURSCALE_D i64 col() const { return i64{tile_col} * Cols; }
};

/// Starts to copy a tile by cp.async. Each warp copies the 64 columns of 32 rows that it takes itself, so
/// that it need not wait for others. What lies outside the matrix becomes 0. Rows of x are aligned to 16
/// bytes. All threads of a CTA call it, then finish_tile().
template <class T, class F, int Cols, u32 Down>
FOURSCALE_D void start_tile(matrix_view<T const> const& x, byte_rows<u8 const> const& bytes,
                            tile_place<Cols, Down> const& place, tile_memory<F, Cols>& tile) {
  constexpr u32 chunk = 16 / sizeof(T), chunks = warp_cols / chunk, step = 32 / chunks;
  constexpr u32 step_bytes = step * Cols * sizeof(T);
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const u32 c = warp % (Cols / warp_cols) * warp_cols + lane % chunks * chunk,
            first = warp / (Cols / warp_cols) * group_rows + lane / chunks;
  u32 to = ptx::shared_address(&tile.words[first][tile.word(c / 2)]);
  u8 const* from =
      bytes.at(place.tile_row * tile_rows + first, (place.tile_col * Cols + c) * static_cast<u32>(sizeof(T)));
  if (place.inside) {
    FOURSCALE_UNROLL
    for (u32 r = 0; r < group_rows; r += step, from += bytes.step(step), to += step_bytes)
      ptx::cp_async_cg_16(to, from);
  } else {
    const i64 left = x.cols - (place.col() + c);
    const int columns = left < 0 ? 0 : left < chunk ? static_cast<int>(left) : static_cast<int>(chunk);
#pragma unroll 1
    for (u32 r = 0; r < group_rows; r += step, from += bytes.step(step), to += step_bytes) {
      const int count = place.row() + first + r < x.rows ? columns * static_cast<int>(sizeof(T)) : 0;
      ptx::cp_async_cg_16(to, count > 0 ? from : reinterpret_cast<u8 const*>(x.data), count);
    }
  }
}
/// Waits until the warp has its part of the tile. Also a barrier of the CTA, after which all see what its
/// threads stored before.
FOURSCALE_D inline void finish_tile() {
  __syncthreads();
  ptx::cp_async_wait_all();
  __syncwarp();
}

/// The same for rows that begin anywhere, through registers. A lane loads an aligned vector of each of eight
/// rows, and gets the vector behind it from its neighbour by a shuffle. Needs no finish_tile(), but a barrier
/// of the CTA.
template <class T, class F, int Cols, u32 Down>
FOURSCALE_D void copy_tile(matrix_view<T const> const& x, tile_place<Cols, Down> const& place,
                           tile_memory<F, Cols>& tile) {
  constexpr u32 chunk = 16 / sizeof(T), chunks = warp_cols / chunk, step = 32 / chunks,
                steps = group_rows / step;
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = lane / chunks;
  const u32 c = warp % (Cols / warp_cols) * warp_cols, first = warp / (Cols / warp_cols) * group_rows;
  const i64 row = place.row() + first, col = place.col() + c, left = x.cols - col - lane % chunks * chunk;
  T const *const begin = x.data + row * x.ld + col, *const end = x.data + x.extent();
  const auto load = [&](u32 of_row, u32 vector) -> vector16 {
    T const* const from = begin + of_row * x.ld;
    u8 const* const aligned =
        reinterpret_cast<u8 const*>(from) - reinterpret_cast<u64>(from) % 16 + 16 * vector;
    return row + of_row < x.rows ? load_before(aligned, reinterpret_cast<u8 const*>(end)) : vector16{};
  };
  vector16 v[steps];
  FOURSCALE_UNROLL
  for (u32 s = 0; s < steps; ++s) v[s] = load(r + s * step, lane % chunks);
  const vector16 last = load(lane, chunks);  // the last vector of row `lane`
  FOURSCALE_UNROLL
  for (u32 s = 0; s < steps; ++s) {
    const u32 offset = static_cast<u32>(reinterpret_cast<u64>(begin + (r + s * step) * x.ld)) % 16;
    u32 w[8], shifted[4];
    FOURSCALE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const u32 next = __shfl_down_sync(0xffff'ffffu, v[s].words[i], 1),
                of_last = __shfl_sync(0xffff'ffffu, last.words[i], static_cast<int>(r + s * step));
      w[i] = v[s].words[i];
      w[4 + i] = lane % chunks == chunks - 1 ? of_last : next;
    }
    shift_words(w, offset, shifted);
    if (!place.inside) {
      FOURSCALE_UNROLL
      for (int i = 0; i < 4; ++i) shifted[i] &= left >= 2 * i + 2 ? ~0u : left == 2 * i + 1 ? 0xffffu : 0u;
    }
    *reinterpret_cast<vector16*>(&tile.words[first + r + s * step][tile.word(c / 2 + lane % chunks * 4)]) = {
        {shifted[0], shifted[1], shifted[2], shifted[3]}};
  }
}

/// Stores N rows of `Along` scales each, all of which are in the matrix, in whole words; see
/// store_tile_scales(). This one is for linear scales: a thread stores a row.
template <u32 N, u32 Along>
FOURSCALE_D void store_whole_scales(linear, byte_rows<u8> const& bytes, u32 i, u32 j,
                                    u8 const (&scales)[N][Along]) {
  if (threadIdx.x >= N) return;
  using word = uint_t<8 * static_cast<int>(Along)>;
  *reinterpret_cast<word*>(bytes.at(i * N + threadIdx.x, j * Along)) =
      *reinterpret_cast<word const*>(scales[threadIdx.x]);
}
/// The same for swizzled scales, in the order of memory. Every word has four blocks of a row, or what there
/// is of them; the words of all rows of the same blocks are together. bytes.row_bytes is the number of blocks
/// in a row, as if scales were linear.
template <u32 N, u32 Along>
FOURSCALE_D void store_whole_scales(swizzled_128x4, byte_rows<u8> const& bytes, u32 i, u32 j,
                                    u8 const (&scales)[N][Along]) {
  constexpr u32 bands = N / 32, in_word = Along < 4 ? Along : 4;  // bands of 32 rows
  using word = uint_t<8 * static_cast<int>(in_word)>;
  u8* const to = bytes.data + swizzled_128x4::offset(i64{i} * N, i64{j} * Along, bytes.row_bytes);
  const u32 w = threadIdx.x % N, r = w % bands * 32 + w / bands, b = threadIdx.x / N * in_word;
  if (b < Along)
    *reinterpret_cast<word*>(to + swizzled_128x4::offset(r, b, in_word == 4 ? Along : 4)) =
        *reinterpret_cast<word const*>(&scales[r][b]);
}

/// Stores the scales of a tile, N rows of `Along` each: those of tile i down, j along. Scales of the padding
/// become 0. `whole`: all are in the matrix, and may be stored in whole words. All threads of a CTA call it.
template <u32 Threads, class F, class Layout, u32 N, u32 Along>
FOURSCALE_D void store_tile_scales(block_scaled_view<F, Layout> const& q, byte_rows<u8> const& bytes,
                                   bool whole, u32 i, u32 j, u8 const (&scales)[N][Along]) {
  static_assert(N * (Along < 4 ? 1 : Along / 4) <= Threads);
  if (whole) return store_whole_scales(Layout{}, bytes, i, j, scales);
  const i64 row = i64{i} * N, first_block = i64{j} * Along;
#pragma unroll 1
  for (u32 k = threadIdx.x; k < N * Along; k += Threads) {
    const u32 r = k / Along, b = k % Along;
    const bool inside = row + r < q.rows && first_block + b < q.blocks();
    if (inside ||
        (row + r < Layout::padded_rows(q.rows) && first_block + b < Layout::padded_blocks(q.blocks())))
      q.store_scale(row + r, first_block + b, {inside ? scales[r][b] : u8{0}});
  }
}

/// Stores the gathered codes of a tile, N rows of `Bytes` each: those of tile i down, j along. `whole`: all
/// are in the matrix, and rows of q's codes are aligned to 16 bytes. get(r, at) is the address of the 16
/// bytes of row r from byte `at` on. All threads of a CTA call it.
template <u32 Threads, u32 N, u32 Bytes, class F, class Layout, class Get>
FOURSCALE_D void store_tile_codes(block_scaled_view<F, Layout> const& q, byte_rows<u8> const& rows,
                                  bool whole, u32 i, u32 j, Get get) {
  constexpr u32 chunks = Bytes / 16, step = Threads / chunks;
  static_assert(N % step == 0);
  const u32 at = threadIdx.x % chunks * 16, first = threadIdx.x / chunks;
  u8* to = rows.at(i * N + first, j * Bytes + at);
  if (whole) {
    FOURSCALE_UNROLL
    for (u32 r = 0; r < N; r += step, to += rows.step(step))
      *reinterpret_cast<vector16*>(to) = *static_cast<vector16 const*>(get(first + r, at));
    return;
  }
  const i64 row = i64{i} * N + first, block = i64{j} * (Bytes / block_code_bytes<F>);
#pragma unroll 1
  for (u32 r = 0; r < N; r += step, to += rows.step(step)) {
    u64 const* const from = static_cast<u64 const*>(get(first + r, at));
    FOURSCALE_UNROLL
    for (u32 k = 0; k < 2; ++k)
      if (row + r < q.rows && block + (at + 8 * k) / block_code_bytes<F> < q.blocks())
        reinterpret_cast<u64*>(to)[k] = from[k];
  }
}

}  // namespace FOURSCALE_NAMESPACE::cta
