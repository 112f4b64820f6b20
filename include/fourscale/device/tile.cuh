// SPDX-License-Identifier: Apache-2.0
// A tile of a matrix in shared memory, for kernels that walk it by columns, and what becomes of its columns,
// gathered there so that whole sectors are written. Values are 16 bits wide, two columns to a word; codes are
// four bits wide. Tiles are small, so that an SM has eight: some load while others compute.
#pragma once

#include "quantize_raw.cuh"
#include "store.cuh"

namespace fourscale::device::detail {

inline constexpr int tile_rows = 64, tile_cols = 128;
inline constexpr int group_rows = 32;  // that a thread takes of two columns
inline constexpr int tile_threads = tile_cols / 2 * (tile_rows / group_rows);

/// The tensor scales of both copies, found by one thread each while the tile is on its way.
template <class F>
struct shared_tensor_scales {
  alignas(8) unsigned char bytes[2][sizeof(tensor_scale<F>)];
  FOURSCALE_D tensor_scale<F>& operator[](int which) {
    return reinterpret_cast<tensor_scale<F>&>(bytes[which]);
  }
};

template <class F>
struct tile_memory {
  static constexpr int along_row = tile_cols / F::block_size, along_column = tile_rows / F::block_size;
  static constexpr int column_bytes = tile_rows / 2;
  alignas(16) u32 words[tile_rows][tile_cols / 2];
  alignas(16) u8 codes[tile_cols][column_bytes + 16];  ///< of each column; 16 more, for the banks
  alignas(8) u8 scales[tile_cols][along_column];       ///< of each column
  shared_tensor_scales<F> tensor;                      ///< of the rowwise copy, of the columnwise one
};

/// Starts copying a tile; what lies outside the matrix becomes 0. Ends with finish_tile().
template <class T>
FOURSCALE_D void start_tile(matrix_view<T const> const& x, i64 row, i64 col,
                            u32 (&words)[tile_rows][tile_cols / 2]) {
  constexpr int chunk = 16 / static_cast<int>(sizeof(T)), chunks = tile_cols / chunk,
                step = tile_threads / chunks;
  constexpr u32 step_bytes = step * tile_cols * sizeof(T);
  const int c = static_cast<int>(threadIdx.x) % chunks * chunk,
            first = static_cast<int>(threadIdx.x) / chunks;
  u32 to = static_cast<u32>(__cvta_generic_to_shared(&words[first][c / 2]));
  T const* from = x.data + (row + first) * x.ld + (col + c);
  if (row + tile_rows <= x.rows && col + tile_cols <= x.cols) {
    FOURSCALE_UNROLL
    for (int r = 0; r < tile_rows; r += step, from += step * x.ld, to += step_bytes)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  } else {
    const i64 left = x.cols - (col + c);
    const int columns = left < 0 ? 0 : left < chunk ? static_cast<int>(left) : chunk;
#pragma unroll 1
    for (int r = 0; r < tile_rows; r += step, from += step * x.ld, to += step_bytes) {
      const int bytes = row + first + r < x.rows ? columns * static_cast<int>(sizeof(T)) : 0;
      T const* const source = bytes > 0 ? from : x.data;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(source), "r"(bytes)
                   : "memory");
    }
  }
}
FOURSCALE_D inline void finish_tile() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}

/// Block `block` of two neighbouring columns of a tile: N words that hold a value of each.
template <class T, int N>
struct column_pair {
  u32 words[N];

  FOURSCALE_D column_pair(u32 const (&tile)[tile_rows][tile_cols / 2], int block, int pair) {
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) words[i] = tile[block * N + i][pair];
  }
};

/// One of them; as raw_block, which costs an instruction for two values.
template <class T, int N>
struct column_block {
  column_pair<T, N> const& pair;
  int which;

  FOURSCALE_D T get(int i) const { return bit_cast<T>(static_cast<u16>(pair.words[i] >> (16 * which))); }
  FOURSCALE_D raw_block<T, N> raw() const {
    raw_block<T, N> c;
    FOURSCALE_UNROLL
    for (int i = 0; i < N; i += 2)
      c.w[i / 2] = __byte_perm(pair.words[i], pair.words[i + 1], which == 0 ? 0x5410 : 0x7632);
    return c;
  }
};

/// Scales of N rows to memory, `Along` of each from first_block on; those of the padding as 0.
template <class F, class Layout, int N, int Along>
FOURSCALE_D void store_scales(block_scaled_view<F, Layout> const& q, i64 row, i64 first_block,
                              u8 const (&scales)[N][Along]) {
  const i64 left = q.blocks() - first_block;
  for (int r = static_cast<int>(threadIdx.x); r < N; r += tile_threads) {
    u8* const to = q.scales + q.scale_offset(row + r, first_block);
    if (!Layout::has_padding && left >= Along && row + r < q.rows && reinterpret_cast<u64>(to) % Along == 0) {
      if constexpr (Along == 8)
        *reinterpret_cast<u64*>(to) = *reinterpret_cast<u64 const*>(scales[r]);
      else if constexpr (Along == 4)
        *reinterpret_cast<u32*>(to) = *reinterpret_cast<u32 const*>(scales[r]);
      else
        *reinterpret_cast<u16*>(to) = *reinterpret_cast<u16 const*>(scales[r]);
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

/// The gathered codes and scales of the columns to memory. `wide`: rows of qt's codes begin at multiples of
/// 16 bytes.
template <class F, class Layout>
FOURSCALE_D void store_columns(block_scaled_view<F, Layout> const& qt, bool wide, i64 row, i64 col,
                               tile_memory<F> const& tile) {
  constexpr int along = tile.along_column, bytes = block_code_bytes<F>, chunks = tile.column_bytes / 16,
                step = tile_threads / chunks;
  const i64 first_block = row / F::block_size, left = qt.blocks() - first_block;
  const int valid = left < along ? static_cast<int>(left) * bytes : tile.column_bytes;
  const int at = static_cast<int>(threadIdx.x) % chunks * 16, first = static_cast<int>(threadIdx.x) / chunks;
  const bool whole = wide && valid == tile.column_bytes && col + tile_cols <= qt.rows;
  u8* to = qt.codes + qt.code_offset(col + first, first_block) + at;
  const i64 stride = step * qt.code_offset(1, 0);
  FOURSCALE_UNROLL
  for (int c = first; c < tile_cols; c += step, to += stride) {
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

/// True if tiles will do: 16-bit values in rows that are vectors, 4-bit codes at a multiple of eight bytes,
/// one tensor scale.
template <class T, class F, class Layout>
bool fits_tiles(matrix_view<T> const& x, block_scaled_view<F, Layout> const& q) {
  return rows_are_vectors(x) && reinterpret_cast<u64>(q.codes) % code_word<F> == 0 && q.row_amax == nullptr;
}
template <class T, class F>
inline constexpr bool has_tiles = is_short<T>&& F::block_size <= 32 && F::element::width == 4;

}  // namespace fourscale::device::detail
