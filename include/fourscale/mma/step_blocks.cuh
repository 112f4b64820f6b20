// SPDX-License-Identifier: Apache-2.0
// The four blocks of 16 values of a step of K = 64: where its rows lie in shared memory, how a warp loads
// them as fragments, and the sum of products of each block, by mma.sync from zero, which is exact in f32 for
// any data.
#pragma once

#include "../ptx/ldmatrix.cuh"
#include "../ptx/mma_sync_f16.cuh"
#include "decoded_operand.cuh"

namespace FOURSCALE_NAMESPACE::mma {

/// A stage of an operand in shared memory: rows of 64 bf16, 128 bytes, whose 16-byte chunks are permuted by
/// the 128-byte swizzle of TMA, as chunk_place() has them. It begins at a multiple of 1024 bytes.
inline constexpr int decoded_row_bytes = 2 * decoded_step;
FOURSCALE_HD constexpr u32 chunk_place(u32 row, u32 chunk) {
  return row * decoded_row_bytes + (chunk ^ row % 8) * 16;
}

/// Offset from the address of 16 rows of A to the row that this lane gives to ldmatrix for their first block.
FOURSCALE_D inline u32 place_in_a() { return chunk_place(threadIdx.x % 16, threadIdx.x % 32 / 16); }
/// Loads the four blocks of 16 rows of A. `place`: their address, of 1024-byte alignment, plus place_in_a().
FOURSCALE_D inline void load_step_a(u32 place, u32 (&a)[4][4]) {
  FOURSCALE_UNROLL
  for (u32 block = 0; block < 4; ++block) ptx::ldmatrix_m8n8_x4_b16(a[block], place ^ 32 * block);
}

/// The same for 8 rows of B, of which one ldmatrix loads two blocks. In the second and the fourth block, rows
/// 2 i and 2 i + 1 are swapped, and so are the columns of their products. Two sums that are added to each
/// other are then in an even and an odd register: two even or two odd ones take twice as long to read.
FOURSCALE_D inline u32 place_in_b() {
  const u32 lane = threadIdx.x % 32;
  return chunk_place(lane % 8 ^ lane / 16, lane / 8);
}
/// Rows of B in a step. `place`: their address, of 1024-byte alignment, plus place_in_b(); `other`: the same
/// of the last two blocks.
struct rows_of_step_b {
  u32 place, other;
  FOURSCALE_D rows_of_step_b(u32 first_place) : place(first_place), other(first_place ^ 64) {}
  /// Loads the four blocks of `Groups` groups of 8 rows, from group `first` on.
  template <int Groups>
  FOURSCALE_D void load(int first, u32 (&b)[Groups][4][2]) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < Groups; ++i) {
      const u32 behind = static_cast<u32>((first + i) * bounds_rows * decoded_row_bytes);
      u32 r[4];
      ptx::ldmatrix_m8n8_x4_b16(r, place + behind);
      b[i][0][0] = r[0], b[i][0][1] = r[1], b[i][1][0] = r[2], b[i][1][1] = r[3];
      ptx::ldmatrix_m8n8_x4_b16(r, other + behind);
      b[i][2][0] = r[0], b[i][2][1] = r[1], b[i][3][0] = r[2], b[i][3][1] = r[3];
    }
  }
};

/// The sums of the four blocks of a step, for a warp's 16 rows by `Groups` times eight columns. Each is an
/// mma.sync of K = 16 from zero, and exact.
template <int Groups>
struct batch_of_blocks {
  static constexpr int outputs = 4 * Groups;  ///< of a lane, in the order of mma.sync's accumulators
  float sums[4][outputs];

  /// Fragments of the rows of A and of B. A whole warp.
  FOURSCALE_D void multiply(u32 const (&a)[4][4], u32 const (&b)[Groups][4][2]) {
    FOURSCALE_UNROLL
    for (int group = 0; group < Groups; ++group) FOURSCALE_UNROLL
    for (int block = 0; block < 4; ++block) {
      float d[4];
      ptx::mma_sync_m16n8k16_bf16(d, a[block], b[group][block], {});
      FOURSCALE_UNROLL
      for (int i = 0; i < 4; ++i) sums[block][4 * group + (i ^ block % 2)] = d[i];  // see place_in_b()
    }
  }
  FOURSCALE_D float4 of(int i) const { return {sums[0][i], sums[1][i], sums[2][i], sums[3][i]}; }
};
/// Loads and multiplies 16 rows of A and the first groups of columns at these addresses. A whole warp.
template <int Groups>
FOURSCALE_D batch_of_blocks<Groups> multiply_blocks(u32 stage_a, u32 stage_b) {
  u32 a[4][4], b[Groups][4][2];
  load_step_a(stage_a + place_in_a(), a);
  rows_of_step_b(stage_b + place_in_b()).load(0, b);
  batch_of_blocks<Groups> blocks;
  blocks.multiply(a, b);
  return blocks;
}

}  // namespace FOURSCALE_NAMESPACE::mma
