// SPDX-License-Identifier: Apache-2.0
// D^T = W * X^T for few rows of X: weights are decoded in registers to 16 bits and are the 16-row operand of
// mma.sync.m16n8k16, rows of X are its eight columns. Here: sizes, and which lane holds what. On Hopper
// weight_only_wgmma.hpp does better.
//
// A sum may take k in any order if both operands take the same. A lane loads 16 bytes of codes at a time, 32
// values of a row under two scales, and these are its own fragments for eight instructions. Four bits and
// the four that lie 16 higher make a register, so that one mask serves both.
//
// Machine code for sm_90a, bf16, 16 rows of X by TMA, instructions of a lane for each weight: 3.6. Codes to
// fragments 2.1 (LOP3 1.0, IMAD 0.5, HMUL2 0.5, SHF 0.1), scales 0.2, X to the order of registers 0.25, HMMA
// 0.25, LDS 0.15, the rest 0.6. LOP3, PRMT and SHF have half the rate of the others. On an H200 two of three
// clocks issue one.
#pragma once

#include "codes_to_bf16.hpp"

namespace FOURSCALE_NAMESPACE::mma::weight_only {

inline constexpr int most_ctas = 8;  ///< of a cluster; they share K
/// Warps of a CTA, at most: fewer where sums fill the registers or, by TMA, rings leave X too little room.
FOURSCALE_HD constexpr int most_warps(int n_tiles, bool by_tma = false) {
  return by_tma ? 8 : n_tiles <= 2 ? 16 : n_tiles <= 4 ? 12 : 8;
}

inline constexpr int warp_rows = 32;  ///< of W, a tile: two instructions of 16
inline constexpr int stage_values = 256, stage_bytes = stage_values / 2, stage_scales = stage_values / 16;
inline constexpr int chunk_values = 32, chunk_bytes = chunk_values / 2;  ///< a lane's load
inline constexpr int halves = 2, lane_rows = 4;  ///< of a stage; of a lane, `stride` apart

// A warp has two rings in shared memory, one for codes and one for scales. By TMA, 2 to 4 stages are in
// flight or in use. Without it 2 to 4 halves are, whose codes lie [row of the lane][lane].
inline constexpr int least_depth = 2, most_depth = 4;
inline constexpr int code_bytes = warp_rows * stage_bytes, half_bytes = code_bytes / halves,
                     scales_bytes = warp_rows * stage_scales;
/// Stages of scales in use while `depth` halves are.
FOURSCALE_HD constexpr int scale_depth(int depth) { return depth / 2 + 1; }

/// Row 8 j + lane_row(lane) of a tile is row j of a lane: three bits in reverse, so that lanes that read
/// together read from different banks under TMA's swizzle.
FOURSCALE_HD constexpr int lane_row(int lane) { return lane / 4 % 2 * 4 + lane / 8 % 2 * 2 + lane / 16 % 2; }
/// Where a stage in shared memory has a word of four scales of a row of the tile. As in memory: 16 bytes are
/// a row's or, in the layout swizzled_128x4, one word of four rows.
FOURSCALE_HD constexpr int scale_offset(bool swizzled, int row, int word) {
  return swizzled ? (word * 8 + row % 8) * 16 + row / 8 * 4 : row * 16 + word * 4;
}

/// Rows of a lane are `stride` apart: in the layout swizzled_128x4 32, so that their scales are neighbours.
FOURSCALE_HD constexpr int row_stride(bool swizzled) { return swizzled ? warp_rows : 8; }
/// Row of W that is a row of a tile. Tiles are neighbours, or four of them are 128 neighbours.
FOURSCALE_HD constexpr i64 row_at(i64 tile, int row, int stride) {
  const int tiles_in_band = stride / 8;
  return tile / tiles_in_band * 4 * stride + tile % tiles_in_band * 8 + row % 8 + row / 8 * stride;
}
/// Row of W that is row `j` of a lane in a tile.
FOURSCALE_HD constexpr i64 row_of(i64 tile, int lane, int j, int stride) {
  return row_at(tile, 8 * j + lane_row(lane), stride);
}
FOURSCALE_HD constexpr int tiles_of(i64 rows, int stride) {
  return static_cast<int>(ceil_div<i64>(rows, 4 * stride)) * (stride / 8);
}

/// Value of a stage, counted along K, that lies in a lane's chunk: element 0 or 1 of register 0 to 3 made
/// from word 0 to 3. Registers 2 p and 2 p + 1 are those of k 0 to 7 and 8 to 15 in instruction p of a word.
FOURSCALE_HD constexpr int value_of(int lane, int half, int word, int reg, int element) {
  return half * 4 * chunk_values + lane % 4 * chunk_values + word * 8 + element * 4 + reg;
}
/// The word and the byte pair of it that hold the two scales of a lane's chunk.
FOURSCALE_HD constexpr int scale_word(int lane, int half) { return 2 * half + lane % 4 / 2; }
FOURSCALE_HD constexpr int scale_pair(int lane) { return lane % 2; }

/// X in shared memory: 16 bytes for each stage, half, word, tile of eight rows and lane. They are eight
/// values, k = value_of(lane, half, word, 0, 0) and on, in the order of registers: 0 4 1 5 2 6 3 7.
FOURSCALE_HD constexpr int x_stage_bytes(int n_tiles) { return n_tiles * 8 * stage_values * 2; }
FOURSCALE_HD constexpr int x_offset(int n_tiles, int half, int word, int tile, int lane) {
  return (((half * 4 + word) * n_tiles + tile) * 32 + lane) * 16;
}

// What TMA writes, under its swizzle of 128 bytes: a row of a stage of codes is 128 bytes, eight chunks; X of
// a stage is four slices of 64 values, 128 bytes a row. A lane's words are in another order in lanes 2 and 3
// of four, for these read X from another slice, and would find its banks taken.
inline constexpr int slice_values = 64, slices = stage_values / slice_values;
FOURSCALE_HD constexpr int slice_bytes(int n_tiles) { return n_tiles * 8 * slice_values * 2; }
/// Word `i` of a lane is this one of its chunk.
FOURSCALE_HD constexpr int word_of(int lane, int i) { return i ^ (lane & 2); }
/// Words 0 and 1 of a lane in a half of a stage, in row lane_row() of its codes. Word 2 is at offset ^ 8.
FOURSCALE_HD constexpr int tma_code_offset(int lane, int half) {
  const int row = lane_row(lane), chunk = half * 4 + lane % 4;
  return row * stage_bytes + (chunk ^ row) * chunk_bytes + word_of(lane, 0) * 4;
}
/// The eight values of X for word `i` of a lane, in tile 0 of a half of a stage; in the order of memory.
FOURSCALE_HD constexpr int tma_x_offset(int n_tiles, int lane, int half, int i) {
  const int row = lane / 4, values = half * 16 + lane % 4 * 4 + word_of(lane, i);
  return values / 8 * slice_bytes(n_tiles) + row * slice_values * 2 + (values % 8 ^ row) * 16;
}
/// For prmt: the two scales of words 0, 1 and 2, 3 of a lane, of a word of four.
FOURSCALE_HD constexpr u32 scale_bytes_of(int lane) {
  const int first = 2 * scale_pair(lane), swap = lane / 2 % 2;
  return static_cast<u32>(first + swap) | static_cast<u32>(first + 1 - swap) << 4;
}

/// Which 16 bytes of X thread i of a copy moves. Eight threads in a row write to different banks, and 16 of
/// them read 256 bytes of a row.
struct x_piece {
  int stage, row, chunk;  ///< chunk: eight values
};
FOURSCALE_HD constexpr x_piece piece_of(int n_tiles, int i) {
  const int t = i % 4, odd = i / 4 % 2, word = i / 8 % 4, half = i / 32 % 2, rest = i / 64;
  const int pairs = 4 * n_tiles;
  return {rest / pairs, rest % pairs * 2 + odd, half * 16 + t * 4 + word};
}
FOURSCALE_HD constexpr int x_offset(int n_tiles, x_piece p) {
  const int lane = p.row % 8 * 4 + p.chunk / 4 % 4;
  return p.stage * x_stage_bytes(n_tiles) + x_offset(n_tiles, p.chunk / 16, p.chunk % 4, p.row / 8, lane);
}

/// Weights carry this factor less than they are worth, so that a code times its scale is a normal number or
/// an exact subnormal one of either type: sums are multiplied by 128, which rounds nothing.
inline constexpr float sum_factor = 128.0f;

}  // namespace FOURSCALE_NAMESPACE::mma::weight_only
