// SPDX-License-Identifier: Apache-2.0
// A warp's 64 x 64 outputs of bf16_tile.cuh: where its rows and columns lie in a stage, and how a step is
// added: for each 16 x 8 outputs a chain of four mma.sync (K = 16) that starts from zero, then one addition
// to the accumulators, rounded toward zero.
#pragma once

#include "bf16_certify.cuh"

namespace FOURSCALE_NAMESPACE::mma::bf16_tile {

inline constexpr u32 row_block_bytes = 16 * decoded_row_bytes, col_block_bytes = 8 * decoded_row_bytes;
inline constexpr u32 all_cols = (1u << col_blocks) - 1;

/// A lane's sums: for each 16 rows, in the order of mma.sync and output_store.
using accumulators = float[row_blocks][warp_cols / 2];
FOURSCALE_D inline void copy_sums(accumulators const& from, accumulators& to) {
  FOURSCALE_UNROLL
  for (int i = 0; i < row_blocks; ++i) FOURSCALE_UNROLL
  for (int j = 0; j < warp_cols / 2; ++j) to[i][j] = from[i][j];
}
/// The A fragments of a step: [block of 16 along K][16 rows][register].
using fragments_a = u32[4][row_blocks][4];

/// The bits by which addresses of block `block` along K (16 values, two chunks) differ from those of block 0.
FOURSCALE_HD constexpr u32 block_bits(int block) { return static_cast<u32>(block) * 32; }

/// Loads a block of A. `rows`: the lane's ldmatrix address in block 0, first 16 rows. A whole warp, as below.
FOURSCALE_D inline void load_a(u32 rows, int block, fragments_a& a) {
  FOURSCALE_UNROLL
  for (int i = 0; i < row_blocks; ++i)
    ptx::ldmatrix_m8n8_x4_b16(a[block][i],
                              (rows ^ block_bits(block)) + static_cast<u32>(i) * row_block_bytes);
}
/// Loads `block` and the next block of B for eight columns, number `group`. `cols`: as `rows` above.
FOURSCALE_D inline void load_b(u32 cols, int block, int group, u32 (&b)[2][2]) {
  u32 r[4];
  ptx::ldmatrix_m8n8_x4_b16(r, (cols ^ block_bits(block)) + static_cast<u32>(group) * col_block_bytes);
  b[0][0] = r[0], b[0][1] = r[1], b[1][0] = r[2], b[1][1] = r[3];
}

/// Adds a step, eight columns at a time, to the 16 x 8 outputs for which `takes(bit)` holds; `bit` counts as
/// in certificates. `low`: on entry, blocks 0 and 1 of the first eight columns. Between MMAs it calls
/// slot(n), n = 0 to 15, and reload(block) once the last columns have taken this block of A.
template <class Takes, class Slot, class Reload>
FOURSCALE_D void add_step(fragments_a& a, u32 cols, u32 (&low)[2][2], accumulators& sums, Takes const& takes,
                          Slot const& slot, Reload const& reload) {
  constexpr float zero[4] = {};
  u32 high[2][2];
  FOURSCALE_UNROLL
  for (int j = 0; j < col_blocks; ++j) {
    const bool last = j + 1 == col_blocks;
    float chain[row_blocks][4];
    load_b(cols, 2, j, high);
    FOURSCALE_UNROLL
    for (int i = 0; i < row_blocks; ++i) ptx::mma_sync_m16n8k16_bf16(chain[i], a[0][i], low[0], zero);
    slot(2 * j);
    if (last) reload(0);
    FOURSCALE_UNROLL
    for (int i = 0; i < row_blocks; ++i) ptx::mma_sync_m16n8k16_bf16(chain[i], a[1][i], low[1], chain[i]);
    if (last)
      reload(1);
    else
      load_b(cols, 0, j + 1, low);
    FOURSCALE_UNROLL
    for (int i = 0; i < row_blocks; ++i) ptx::mma_sync_m16n8k16_bf16(chain[i], a[2][i], high[0], chain[i]);
    slot(2 * j + 1);
    if (last) reload(2);
    FOURSCALE_UNROLL
    for (int i = 0; i < row_blocks; ++i) ptx::mma_sync_m16n8k16_bf16(chain[i], a[3][i], high[1], chain[i]);
    if (last) reload(3);
    FOURSCALE_UNROLL
    for (int i = 0; i < 4 * row_blocks; ++i) {
      float& sum = sums[i / 4][4 * j + i % 4];
      if (takes(col_blocks * (i / 4) + j)) sum = __fadd_rz(sum, chain[i / 4][i % 4]);
    }
  }
}

/// A warp's part of the tile at (row, col) of D, and the thread's share of the CTA's copies.
struct warp_part {
  stage_memory memory;
  int row, col;  ///< of the tile
  stage_copies copies;
  u32 rows, cols;  ///< offsets in a stage of the lane's ldmatrix rows of A and B, block 0

  template <class P>
  FOURSCALE_D warp_part(P const& p, stage_memory m, int r, int c)
      : memory(m), row(r), col(c), copies(p.a, p.b, r, c) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    rows = stage_of_rows() + chunk_place(lane % 16, lane / 16);
    cols = stage_of_cols() + chunk_place(lane % 8, lane / 8);
  }
  FOURSCALE_D static int down() { return static_cast<int>(threadIdx.x) / 32 / warps_across; }
  FOURSCALE_D static int across() { return static_cast<int>(threadIdx.x) / 32 % warps_across; }
  /// Bytes from the start of a stage to the warp's first row of A; below, to that of B.
  FOURSCALE_D static u32 stage_of_rows() { return static_cast<u32>(down() * warp_rows * decoded_row_bytes); }
  FOURSCALE_D static u32 stage_of_cols() {
    return static_cast<u32>(a_bytes + across() * warp_cols * decoded_row_bytes);
  }
  FOURSCALE_D exact_place place(int step, u32 stage) const {
    return {row + down() * warp_rows, col + across() * warp_cols, step, stage + stage_of_rows(),
            stage + stage_of_cols()};
  }
};

/// Loads what add_step() begins with from this stage: all of A, and `low`.
FOURSCALE_D inline void load_step(warp_part const& w, u32 stage, fragments_a& a, u32 (&low)[2][2]) {
  load_b(stage + w.cols, 0, 0, low);
  FOURSCALE_UNROLL
  for (int block = 0; block < 4; ++block) load_a(stage + w.rows, block, a);
}

/// Starts copies of the tile's first `ahead` steps, a group each.
FOURSCALE_D inline void start_steps(warp_part& w, int steps, int ahead) {
  for (int i = 0; i < ahead; ++i) {
    w.copies.start_all(w.memory.stage(i));
    w.copies.next(i + 1 < steps);
  }
}
/// Waits until the first of these steps has landed.
FOURSCALE_D inline void wait_for_first(warp_part const& w, int ahead) {
  if (ahead > 1)
    arrive<1>(w.memory.barrier(0));
  else
    arrive<0>(w.memory.barrier(0));
  ptx::mbarrier_wait(w.memory.barrier(0), 0);
}

}  // namespace FOURSCALE_NAMESPACE::mma::bf16_tile
