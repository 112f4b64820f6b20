// SPDX-License-Identifier: Apache-2.0
// D^T = W * X^T for few rows of X: weights are decoded in registers to 16 bits and are the 16-row operand of
// mma.sync.m16n8k16, rows of X are its eight columns. Here: sizes, and which lane holds what.
//
// A sum may take k in any order if both operands take the same. A lane loads 16 bytes of codes at a time, 32
// values of a row under two scales, and these are its own fragments for eight instructions. Four bits and
// the four that lie 16 higher make a register, so that one mask serves both.
//
// Machine code for sm_90a, bf16, 16 rows of X, instructions of a lane for each weight: 3.0. Codes to
// fragments 2.1 (LOP3 1.0, IMAD 0.5, HMUL2 0.5, SHF 0.1), scales 0.25, HMMA 0.25, copies 0.25, LDS 0.1.
// At 4.8 TB/s an H200 (132 SMs, 1.7 GHz) has issue slots for 3.4, and for 1.7 of LOP3, SHF and the like.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::mma::weight_only {

// What may be tuned, all of it. A warp keeps `depth` stages of its rows in flight or in use.
inline constexpr int depth = 2;
inline constexpr int most_ctas = 8;             ///< of a cluster; they share K
inline constexpr int line_bytes_from_l2 = 128;  ///< 0, 128 or 256: what L2 fetches when 16 bytes are missed
/// Launched while the kernel before still runs, and then waits for its end: hides part of a launch's latency.
inline constexpr bool programmatic_launch = false;
/// Warps of a CTA, at most: half as many where sums fill the registers.
FOURSCALE_HD constexpr int most_warps(int n_tiles) { return n_tiles <= 2 ? 16 : 8; }

inline constexpr int most_rows_of_x = 64;  ///< in one launch
inline constexpr int warp_rows = 32;       ///< of W: two instructions of 16
inline constexpr int stage_values = 256, stage_bytes = stage_values / 2, stage_scales = stage_values / 16;
inline constexpr int chunk_values = 32, chunk_bytes = chunk_values / 2;  ///< a lane's load
inline constexpr int halves = 2, lane_rows = 4;  ///< of a stage; of a lane, eight lanes apart

/// A stage of a warp in shared memory: codes[half][row of the lane][lane], scales[word][lane / 4][row].
struct warp_stage {
  alignas(16) u8 codes[halves][lane_rows][32][chunk_bytes];
  alignas(16) u32 scales[stage_scales / 4][8][lane_rows];
};

/// Row of a unit that is row `j` of a lane. Rows of a lane are `stride` apart: 32 where a unit has 128 rows
/// or more, so that their scales are neighbours in the layout swizzled_128x4.
FOURSCALE_HD constexpr int row_stride(int unit_rows) {
  return unit_rows < 4 * warp_rows ? unit_rows / 4 : warp_rows;
}
FOURSCALE_HD constexpr int row_of(int row_warp, int lane, int j, int stride) {
  const int warps_in_band = stride / 8;
  return row_warp / warps_in_band * 4 * stride + row_warp % warps_in_band * 8 + lane / 4 + j * stride;
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

/// Eight codes to four registers of two, register r from codes r and r + 4, as numbers of bf16 that are 2^126
/// times too small: sign to sign, two bits of exponent and one of significand to the lowest of an exponent
/// and the highest of a significand. A product with two powers of two brings both to their places.
FOURSCALE_HD constexpr void codes_to_bf16(u32 codes, u32 (&r)[4]) {
  constexpr u32 low = 0x000f'000fu, high = 0x00f0'00f0u, places = 0x81c0'81c0u;
  const u32 upper = codes >> 8;
  r[0] = ((codes & low) * 0x1040u) & places;
  r[1] = ((codes & high) * 0x104u) & places;
  r[2] = ((upper & low) * 0x1040u) & places;
  r[3] = ((upper & high) * 0x104u) & places;
}

}  // namespace FOURSCALE_NAMESPACE::mma::weight_only
