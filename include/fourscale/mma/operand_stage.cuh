// SPDX-License-Identifier: Apache-2.0
// One pipeline stage of an operand in the GEMM by block-scaled mma.sync (cta_tile.cuh), and the copies that
// fill it: 128 rows of 64 bytes of codes along K, two steps, and their scales. Codes and scales outside the
// matrix are zero, whatever the padding of a layout holds. All 128 threads of a CTA call start_codes(),
// load_scales() and store_scales().
#pragma once

#include "../ptx/cp_async.cuh"
#include "../view/block_scaled_view.hpp"

namespace FOURSCALE_NAMESPACE::mma {

inline constexpr int cta_threads = 128, tile_rows = 128;  // a thread copies the scales of a row
inline constexpr int step_bytes = 32, stage_steps = 2, stage_bytes = step_bytes * stage_steps;
inline constexpr int chunk_bytes = 16, chunks = stage_bytes / chunk_bytes;

template <block_format F>
inline constexpr int step_elements = step_bytes * 8 / F::element::width;
/// Scales of one row that an instruction uses: 4 of NVFP4, 2 of MXFP4, 1 of MXFP8.
template <block_format F>
inline constexpr int step_scales = step_elements<F> / F::block_size;
template <block_format F>
inline constexpr int stage_scales = step_scales<F>* stage_steps;
/// A word is four scales, the first of them at a multiple of four along the row. MXFP8 has two stages in one.
template <block_format F>
inline constexpr int scale_words = stage_scales<F> < 4 ? 1 : stage_scales<F> / 4;

/// Instructions along K; the last one may be padded with zeros.
template <block_format F>
FOURSCALE_HD constexpr i64 steps_along(i64 k) {
  return ceil_div<i64>(k, step_elements<F>);
}

template <block_format F>
struct operand_stage {
  alignas(16) u8 codes[tile_rows][stage_bytes];  ///< chunk c of row r at place_of(r, c)
  u32 scales[scale_words<F>][tile_rows];
};

/// The swizzle: where a chunk lies in its row, in bytes. Eight rows of one chunk touch each bank once.
FOURSCALE_HD constexpr int place_of(int row, int chunk) { return chunk_bytes * (chunk ^ (row / 2 % chunks)); }

/// The rows of A or B that a CTA works on. `wide`: every row begins at a multiple of 16 bytes.
template <block_format F, scale_layout Layout>
struct operand_rows {
  block_scaled_view<F, Layout, u8 const> matrix;
  i64 first_row;
  bool wide;
};

namespace detail {

/// Copies `bytes` bytes to shared memory, and zeros behind them up to 16; by cp.async only if `wide`.
FOURSCALE_D inline void start_copy(u8 const* from, int bytes, bool wide, u8* to) {
  if (wide) {
    ptx::cp_async_cg_16(ptx::shared_address(to), from, bytes);
  } else {
#pragma unroll 1
    for (int i = 0; i < chunk_bytes; ++i) to[i] = i < bytes ? from[i] : u8{0};
  }
}

/// Scales `first` to first + 3 of a row, as a word; zero where the matrix has none.
template <class F, class Layout>
FOURSCALE_D u32 load_scale_word(block_scaled_view<F, Layout, u8 const> const& q, i64 row, i64 first) {
  const i64 left = row < q.rows ? q.blocks() - first : 0;
  if (left <= 0) return 0;
  const i64 at = q.scale_offset(row, first);
  u8 const* const from = q.scales + at;
  if (left >= 4 && q.scale_offset(row, first + 3) == at + 3 && reinterpret_cast<u64>(from) % 4 == 0)
    return *reinterpret_cast<u32 const*>(from);
  u32 word = 0;
  for (int i = 0; i < 4; ++i)
    if (i < left) word |= u32{q.load_scale(row, first + i).bits} << (8 * i);
  return word;
}

}  // namespace detail

/// Starts the copies of a stage's codes. All threads see them after ptx::cp_async_wait_all() and a barrier.
template <class F, class Layout>
FOURSCALE_D void start_codes(operand_rows<F, Layout> const& x, i64 stage, operand_stage<F>& to) {
  const i64 row_bytes = x.matrix.cols * F::element::width / 8;
  FOURSCALE_UNROLL
  for (int i = 0; i < tile_rows * chunks / cta_threads; ++i) {
    const int piece = i * cta_threads + static_cast<int>(threadIdx.x), r = piece / chunks,
              chunk = piece % chunks;
    const i64 row = x.first_row + r, at = stage * stage_bytes + chunk * chunk_bytes;
    const i64 left = row < x.matrix.rows ? row_bytes - at : 0;
    const int bytes = left <= 0 ? 0 : left < chunk_bytes ? static_cast<int>(left) : chunk_bytes;
    u8 const* const from = bytes > 0 ? x.matrix.codes + row * row_bytes + at : x.matrix.codes;
    detail::start_copy(from, bytes, x.wide, &to.codes[r][place_of(r, chunk)]);
  }
}

/// Loads a stage's scales into registers, thread i those of row i. store_scales() puts them into the stage.
template <class F, class Layout>
FOURSCALE_D void load_scales(operand_rows<F, Layout> const& x, i64 stage, u32 (&words)[scale_words<F>]) {
  FOURSCALE_UNROLL
  for (int i = 0; i < scale_words<F>; ++i)
    words[i] =
        detail::load_scale_word(x.matrix, x.first_row + threadIdx.x, stage * stage_scales<F> / 4 * 4 + 4 * i);
}
template <class F>
FOURSCALE_D void store_scales(u32 const (&words)[scale_words<F>], operand_stage<F>& to) {
  FOURSCALE_UNROLL
  for (int i = 0; i < scale_words<F>; ++i) to.scales[i][threadIdx.x] = words[i];
}

}  // namespace FOURSCALE_NAMESPACE::mma
