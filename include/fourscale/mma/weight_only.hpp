// SPDX-License-Identifier: Apache-2.0
// The weight-only GEMM by mma.sync, D^T = W * X^T for few rows of X: its sizes, and which lane holds what.
// Weights are decoded in registers to 16 bits and are the 16-row operand of mma.sync.m16n8k16; rows of X are
// its eight columns. The kernel is in weight_only_cta.cuh. On Hopper, weight_only_wgmma.hpp is faster.
//
// A sum may take k in any order, if both operands take the same order. A lane loads a chunk at a time: 16
// bytes of codes, which are 32 values of a row under two scales. They become this lane's own fragments for
// eight instructions, so no lane exchanges them. A code and the code 16 bits higher in the same word share a
// register, so that one mask extracts both.
//
// Cost in machine code (sm_90a, bf16, 16 rows of X by TMA), in instructions of a lane for each weight: 3.6.
// Codes to fragments 2.1 (LOP3 1.0, IMAD 0.5, HMUL2 0.5, SHF 0.1), scales 0.2, X to the order of registers
// 0.25, HMMA 0.25, LDS 0.15, the rest 0.6. LOP3, PRMT and SHF have half the rate of the others. On an H200,
// two of three clocks issue an instruction.
#pragma once

#include "codes_to_bf16.hpp"

namespace FOURSCALE_NAMESPACE::mma::weight_only {

inline constexpr int most_ctas = 8;  ///< CTAs of a cluster, at most; they split K
/// Warps of a CTA, at most: fewer where accumulators fill the registers or, with TMA, where the rings would
/// leave too little shared memory for X. `n_tiles`: tiles of eight rows of X.
FOURSCALE_HD constexpr int most_warps(int n_tiles, bool by_tma = false) {
  return by_tma ? 8 : n_tiles <= 2 ? 16 : n_tiles <= 4 ? 12 : 8;
}

inline constexpr int warp_rows = 32;  ///< rows of W in a tile: two instructions of 16 rows
/// A pipeline stage of a tile: 256 values along K of each row, as bytes of codes and as scales.
inline constexpr int stage_values = 256, stage_bytes = stage_values / 2, stage_scales = stage_values / 16;
inline constexpr int chunk_values = 32, chunk_bytes = chunk_values / 2;  ///< what a lane loads at a time
inline constexpr int halves = 2, lane_rows = 4;  ///< halves of a stage; rows of W of a lane

// A warp has two rings in shared memory, one for codes and one for scales. With TMA, both have 2 to 4 slots
// of a stage. Without TMA, the ring of codes has 2 to 4 slots of half a stage, each [row of the lane][lane].
inline constexpr int least_depth = 2, most_depth = 4;
inline constexpr int code_bytes = warp_rows * stage_bytes, half_bytes = code_bytes / halves,
                     scales_bytes = warp_rows * stage_scales;
/// Without TMA, the slots of the ring of scales: the stages that `depth` halves may belong to.
FOURSCALE_HD constexpr int scale_depth(int depth) { return depth / 2 + 1; }

/// Row j of a lane is row 8 j + lane_row(lane) of its tile. This reverses the upper three bits of the lane,
/// so that lanes that read together read from different banks under TMA's swizzle.
FOURSCALE_HD constexpr int lane_row(int lane) { return lane / 4 % 2 * 4 + lane / 8 % 2 * 2 + lane / 16 % 2; }
/// The byte offset of a word of four scales of a row of the tile, in a stage of scales in shared memory. The
/// order is that of global memory: 16 bytes are the scales of one row or, in the layout swizzled_128x4, one
/// word of each of four rows.
FOURSCALE_HD constexpr int scale_offset(bool swizzled, int row, int word) {
  return swizzled ? (word * 8 + row % 8) * 16 + row / 8 * 4 : row * 16 + word * 4;
}

/// How far apart in W a lane's rows are: 32 in the layout swizzled_128x4, so that their scales adjoin.
FOURSCALE_HD constexpr int row_stride(bool swizzled) { return swizzled ? warp_rows : 8; }
/// The row of W that is row `row` of tile `tile`. With stride 8, a tile is 32 consecutive rows. With stride
/// 32, four tiles are 128 consecutive rows, and each has eight of every 32.
FOURSCALE_HD constexpr i64 row_at(i64 tile, int row, int stride) {
  const int tiles_in_band = stride / 8;
  return tile / tiles_in_band * 4 * stride + tile % tiles_in_band * 8 + row % 8 + row / 8 * stride;
}
/// The row of W that is row `j` of a lane in a tile.
FOURSCALE_HD constexpr i64 row_of(i64 tile, int lane, int j, int stride) {
  return row_at(tile, 8 * j + lane_row(lane), stride);
}
/// How many tiles cover `rows` rows of W.
FOURSCALE_HD constexpr int tiles_of(i64 rows, int stride) {
  return static_cast<int>(ceil_div<i64>(rows, 4 * stride)) * (stride / 8);
}

/// Which value of a stage, counted along K, a lane has in element 0 or 1 of register 0 to 3, made from word 0
/// to 3 of its chunk. Instruction p (0 or 1) of a word takes registers 2 p and 2 p + 1 as the fragments of
/// k 0 to 7 and of k 8 to 15.
FOURSCALE_HD constexpr int value_of(int lane, int half, int word, int reg, int element) {
  return half * 4 * chunk_values + lane % 4 * chunk_values + word * 8 + element * 4 + reg;
}
/// The word of four scales that has the two scales of a lane's chunk, and which pair of its bytes they are.
FOURSCALE_HD constexpr int scale_word(int lane, int half) { return 2 * half + lane % 4 / 2; }
FOURSCALE_HD constexpr int scale_pair(int lane) { return lane % 2; }

/// X in shared memory without TMA: 16 bytes for each stage, half, word, tile of eight rows and lane. They are
/// eight values from k = value_of(lane, half, word, 0, 0) on, in the order of registers: 0 4 1 5 2 6 3 7.
FOURSCALE_HD constexpr int x_stage_bytes(int n_tiles) { return n_tiles * 8 * stage_values * 2; }
FOURSCALE_HD constexpr int x_offset(int n_tiles, int half, int word, int tile, int lane) {
  return (((half * 4 + word) * n_tiles + tile) * 32 + lane) * 16;
}

// With TMA, codes and X lie in shared memory under the 128-byte swizzle. A row of a stage of codes is 128
// bytes, eight chunks. A stage of X is four slices of 64 values, 128 bytes a row. Lanes 2 and 3 of each four
// take their words in another order: they read X from another slice than lanes 0 and 1, and in the same order
// both would use the same banks.
inline constexpr int slice_values = 64, slices = stage_values / slice_values;
FOURSCALE_HD constexpr int slice_bytes(int n_tiles) { return n_tiles * 8 * slice_values * 2; }
/// The word of the chunk that a lane takes as its word `i`.
FOURSCALE_HD constexpr int word_of(int lane, int i) { return i ^ (lane & 2); }
/// Where a stage of codes has a lane's words 0 and 1 of row lane_row(lane). Words 2 and 3 are at offset ^ 8.
FOURSCALE_HD constexpr int tma_code_offset(int lane, int half) {
  const int row = lane_row(lane), chunk = half * 4 + lane % 4;
  return row * stage_bytes + (chunk ^ row) * chunk_bytes + word_of(lane, 0) * 4;
}
/// Where a stage of X has the eight values for word `i` of a lane, in tile 0, in the order of memory.
FOURSCALE_HD constexpr int tma_x_offset(int n_tiles, int lane, int half, int i) {
  const int row = lane / 4, values = half * 16 + lane % 4 * 4 + word_of(lane, i);
  return values / 8 * slice_bytes(n_tiles) + row * slice_values * 2 + (values % 8 ^ row) * 16;
}
/// prmt's selector of two bytes of a word of four scales: for a lane's words 0 and 1, then for 2 and 3.
FOURSCALE_HD constexpr u32 scale_bytes_of(int lane) {
  const int first = 2 * scale_pair(lane), swap = lane / 2 % 2;
  return static_cast<u32>(first + swap) | static_cast<u32>(first + 1 - swap) << 4;
}

/// Which 16 bytes of X thread i of a copy moves. Eight consecutive threads write to different banks, and 16
/// threads of a warp read 256 consecutive bytes of a row.
struct x_piece {
  int stage, row, chunk;  ///< chunk: eight values
};
FOURSCALE_HD constexpr x_piece piece_of(int n_tiles, int i) {
  const int t = i % 4, odd = i / 4 % 2, word = i / 8 % 4, half = i / 32 % 2, rest = i / 64;
  const int pairs = 4 * n_tiles;
  return {rest / pairs, rest % pairs * 2 + odd, half * 16 + t * 4 + word};
}
/// Where these 16 bytes go in shared memory.
FOURSCALE_HD constexpr int x_offset(int n_tiles, x_piece p) {
  const int lane = p.row % 8 * 4 + p.chunk / 4 % 4;
  return p.stage * x_stage_bytes(n_tiles) + x_offset(n_tiles, p.chunk / 16, p.chunk % 4, p.row / 8, lane);
}

/// Decoded weights are 1 / 128 of their true values, so that in bf16 and in fp16 a code times its scale is a
/// normal number or an exact subnormal one. The epilogue multiplies sums by 128, which rounds nothing.
inline constexpr float sum_factor = 128.0f;

}  // namespace FOURSCALE_NAMESPACE::mma::weight_only
