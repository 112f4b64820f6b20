// SPDX-License-Identifier: Apache-2.0
// Model of mma.sync with block_scale: m16n8k64 (kinds mxf4nvf4 and mxf4) and m16n8k32 (mxf8f6f4). It has the
// fragment maps, which say what each lane and register holds, and the result. PTX ISA 9.7.14.5.
#pragma once

#include "block_scaled_dot.hpp"
#include "tensor_memory.hpp"

namespace FOURSCALE_NAMESPACE::model {

/// The matrix element that a fragment element is: row and k of A, k and column of B, row and column of C and
/// D.
struct matrix_place {
  u32 row, column;
  friend FOURSCALE_H constexpr bool operator==(matrix_place, matrix_place) = default;
};

/// Elements in a register: 8 nibbles or 4 containers of 8 bits, the first in the lowest bits.
FOURSCALE_HD constexpr u32 elements_per_register(mma_kind kind) { return kind == mma_kind::mxf8f6f4 ? 4 : 8; }

/// The place of element i of the four registers of A in lane `lane`.
FOURSCALE_HD constexpr matrix_place fragment_a(mma_kind kind, u32 lane, u32 i) {
  const u32 each = elements_per_register(kind), reg = i / each;
  return {lane / 4 + 8 * (reg % 2), each * (lane % 4) + i % each + 4 * each * (reg / 2)};
}
/// The place of element i of the two registers of B in lane `lane`.
FOURSCALE_HD constexpr matrix_place fragment_b(mma_kind kind, u32 lane, u32 i) {
  const u32 each = elements_per_register(kind);
  return {each * (lane % 4) + i % each + 4 * each * (i / each), lane / 4};
}
/// The place of value i of the four of C and D in lane `lane`.
FOURSCALE_HD constexpr matrix_place fragment_c(u32 lane, u32 i) {
  return {lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2};
}

/// The operands {byte-id, thread-id} that follow a scale register.
struct scale_selector {
  u32 byte_id = 0, thread_id = 0;
};
/// The lane whose scale register has the scales of row `row` of A, or of column `column` of B.
FOURSCALE_HD constexpr u32 scale_lane_a(u32 row, u32 thread_id) {
  return row % 8 * 4 + 2 * thread_id + row / 8;
}
FOURSCALE_HD constexpr u32 scale_lane_b(u32 column, u32 thread_id) { return 4 * column + thread_id; }

FOURSCALE_HD constexpr bool valid_selectors(mma_format const& f, scale_selector a, scale_selector b) {
  return valid_scale_id(f.scales(), a.byte_id) && valid_scale_id(f.scales(), b.byte_id) && a.thread_id < 2 &&
         b.thread_id < 4;
}

/// The operand registers of a warp, indexed by lane. In a kernel this lies in shared memory: each lane fills
/// its own entries, then all call __syncwarp.
struct warp_registers {
  u32 a[32][4], b[32][2];
  float c[32][4];
  u32 scale_a[32], scale_b[32];
};

/// Row `row` of A, or column `column` of B, gathered from the lanes' fragments.
FOURSCALE_HD constexpr operand_row gather_a(warp_registers const& w, u32 row, scale_selector s) {
  operand_row x;
  for (u32 word = 0; word < 8; ++word)
    x.words[word / 2] |= u64{w.a[row % 8 * 4 + word % 4][word / 4 * 2 + row / 8]} << (32 * (word % 2));
  x.scales = select_scales(w.scale_a[scale_lane_a(row, s.thread_id)], s.byte_id);
  return x;
}
FOURSCALE_HD constexpr operand_row gather_b(warp_registers const& w, u32 column, scale_selector s) {
  operand_row x;
  for (u32 word = 0; word < 8; ++word)
    x.words[word / 2] |= u64{w.b[column * 4 + word % 4][word / 4]} << (32 * (word % 2));
  x.scales = select_scales(w.scale_b[scale_lane_b(column, s.thread_id)], s.byte_id);
  return x;
}

/// Value i of D in lane `lane`. `f` must be valid() and the selectors valid_selectors(): on hardware, other
/// selectors are undefined.
FOURSCALE_HD constexpr float mma_sync(mma_format const& f, warp_registers const& w, scale_selector a,
                                      scale_selector b, u32 lane, u32 i) {
  const matrix_place at = fragment_c(lane, i);
  return block_scaled_dot(f, gather_a(w, at.row, a), gather_b(w, at.column, b), w.c[lane][i]);
}

}  // namespace FOURSCALE_NAMESPACE::model
