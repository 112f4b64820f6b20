// SPDX-License-Identifier: Apache-2.0
// Tensor memory, 128 lanes x 512 columns of 32 bits, and the maps of what lies where in it: accumulators,
// scales and the A operand of tcgen05.mma, the fragments of tcgen05.ld and .st, the copies of tcgen05.cp. PTX
// ISA 9.7.16.1 and 9.7.16.2.
#pragma once

#include "shared_memory.hpp"

namespace FOURSCALE_NAMESPACE::model {

inline constexpr u32 tensor_lanes = 128, tensor_columns = 512;
inline constexpr u32 tensor_words = tensor_lanes * tensor_columns;

/// The tensor memory of one CTA, in tensor_words words that the caller owns.
struct tensor_memory {
  u32* words = nullptr;
  FOURSCALE_HD constexpr u32& at(u32 lane, u32 column) const { return words[lane * tensor_columns + column]; }
  FOURSCALE_HD constexpr u32& at(tensor_address a) const { return at(a.lane, a.column); }
};

// ---------------------------------------------------------------- tcgen05.ld, tcgen05.st

enum class ld_shape : u8 { s32x32b, s16x64b, s16x128b, s16x256b, s16x32bx2 };

/// Lanes that a warp accesses, and columns (32 bits each) for .x1.
FOURSCALE_HD constexpr u32 ld_lanes(ld_shape s) { return s == ld_shape::s32x32b ? 32 : 16; }
FOURSCALE_HD constexpr u32 ld_columns(ld_shape s) {
  return s == ld_shape::s16x256b ? 8 : s == ld_shape::s16x128b ? 4 : s == ld_shape::s16x64b ? 2 : 1;
}

/// Registers of a thread for .x`num`: PTX table 49.
FOURSCALE_HD constexpr u32 ld_registers(ld_shape s, u32 num) {
  return num * (s == ld_shape::s16x256b ? 4 : s == ld_shape::s16x128b ? 2 : 1);
}

/// The repeat factors that exist: powers of two with at most 128 registers.
FOURSCALE_HD constexpr bool valid_repeat(ld_shape s, u32 num) {
  return num != 0 && (num & (num - 1)) == 0 && ld_registers(s, num) <= 128;
}

/// The cell of register `reg` of thread `lane_id`, relative to the address of the instruction. `half` is the
/// immediate operand of 16x32bx2: the number of columns between its two accesses.
FOURSCALE_HD constexpr tensor_address ld_cell(ld_shape s, u32 lane_id, u32 reg, u32 half = 0) {
  const u32 quad = lane_id / 4, in_quad = lane_id % 4;
  switch (s) {
    case ld_shape::s32x32b:
      return {lane_id, reg};
    case ld_shape::s16x64b:
      return {quad + 8 * (in_quad % 2), in_quad / 2 + 2 * reg};
    case ld_shape::s16x128b:
      return {quad + 8 * (reg % 2), in_quad + 4 * (reg / 2)};
    case ld_shape::s16x256b:
      return {quad + 8 * (reg / 2 % 2), 2 * in_quad + reg % 2 + 8 * (reg / 4)};
    default:
      return {lane_id % 16, reg + lane_id / 16 * half};
  }
}

// ---------------------------------------------------------------- tcgen05.cp

enum class cp_shape : u8 { s128x256b, s4x256b, s128x128b, s64x128b_02_13, s64x128b_01_23, s32x128b_warpx4 };

/// Of the matrix in shared memory: its rows, the bytes of a row, and the number of lanes that each row is
/// copied to.
FOURSCALE_HD constexpr u32 cp_rows(cp_shape s) {
  switch (s) {
    case cp_shape::s4x256b:
      return 4;
    case cp_shape::s64x128b_02_13:
    case cp_shape::s64x128b_01_23:
      return 64;
    case cp_shape::s32x128b_warpx4:
      return 32;
    default:
      return 128;
  }
}
FOURSCALE_HD constexpr u32 cp_row_bytes(cp_shape s) {
  return s == cp_shape::s128x256b || s == cp_shape::s4x256b ? 32 : 16;
}
FOURSCALE_HD constexpr u32 cp_copies(cp_shape s) { return s == cp_shape::s4x256b ? 1 : 128 / cp_rows(s); }

/// The lane, relative to the address of the instruction, that copy `copy` of row `row` goes to.
FOURSCALE_HD constexpr u32 cp_lane(cp_shape s, u32 row, u32 copy) {
  switch (s) {
    case cp_shape::s4x256b:  // one row for each quarter
      return 32 * row;
    case cp_shape::s64x128b_02_13:
      return row + 64 * copy;
    case cp_shape::s64x128b_01_23:
      return row % 32 + row / 32 * 64 + 32 * copy;
    default:
      return row + 32 * copy;
  }
}

// ---------------------------------------------------------------- operands of tcgen05.mma

/// The shape of one mma and how its M x N outputs spread over one or two CTAs. `m` and `n` are those of the
/// instruction.
struct mma_shape {
  u32 m = 128, n = 128, ctas = 1;

  /// True for layout B: each CTA has 64 rows, and its lanes 64 to 127 hold the second half of N.
  FOURSCALE_HD constexpr bool two_by_two() const { return ctas == 2 && m == 128; }
  FOURSCALE_HD constexpr u32 rows_per_cta() const { return m / ctas; }
  FOURSCALE_HD constexpr u32 columns_per_cta() const { return two_by_two() ? n / 2 : n; }
  /// Rows of B in the shared memory of each CTA.
  FOURSCALE_HD constexpr u32 b_rows_per_cta() const { return n / ctas; }

  /// The cell of an output (row of this CTA, column), relative to the address of D: layouts A, B and D.
  FOURSCALE_HD constexpr tensor_address output(u32 row, u32 column) const {
    if (two_by_two()) return {row + column / (n / 2) * 64, column % (n / 2)};
    return {row, column};
  }

  /// The cell whose bytes are the scales of row `row` of A (of this CTA), or of column `row` of B. Copies are
  /// 32 lanes apart.
  ///
  /// Unverified: with two_by_two() and N no multiple of 128, the scales of B lie as in CUTLASS's layout,
  /// which rounds N up to 128 before it halves it. So with N = 16, lanes 64 to 127 compute column 8 from a
  /// scale in lane 8. PTX has figures only, and this project ran no such instruction.
  FOURSCALE_HD constexpr tensor_address scale_a(u32 row) const { return {row % 32, row / 32}; }
  FOURSCALE_HD constexpr tensor_address scale_b(u32 row) const {
    if (!two_by_two()) return {row % 32, row / 32};
    return {row / scale_b_half() * 64 + row % 32, row % scale_b_half() / 32};
  }
  /// With two_by_two(): the number of columns of B whose scales lie in lanes 0 to 63. The rest lie in lanes
  /// 64 to 127.
  FOURSCALE_HD constexpr u32 scale_b_half() const { return round_up(n, 128u) / 2; }
  FOURSCALE_HD constexpr u32 scale_a_copies() const { return 4; }
  FOURSCALE_HD constexpr u32 scale_b_copies() const { return two_by_two() ? 2 : 4; }
  FOURSCALE_HD constexpr u32 scale_a_columns() const { return ceil_div(rows_per_cta(), 32u); }
  FOURSCALE_HD constexpr u32 scale_b_columns() const {
    return ceil_div(two_by_two() && n > scale_b_half() ? scale_b_half() : n, 32u);
  }
};

/// Columns that the A operand of one instruction takes in tensor memory: 32 bytes a lane.
inline constexpr u32 tensor_a_columns = 8;

/// The 32 bytes of row `row` of an A operand at `base`; the scales are left 0. With two_by_two(), lanes 64 to
/// 127 hold the same rows once more, for the second half of N.
FOURSCALE_HD constexpr operand_row load_tensor_row(tensor_memory const& memory, tensor_address base,
                                                   u32 row) {
  operand_row x;
  for (u32 i = 0; i < tensor_a_columns; ++i)
    x.words[i / 2] |= u64{memory.at(base.plus(row, i))} << (32 * (i % 2));
  return x;
}

/// The scales that an instruction uses of a 32-bit word: the bytes from byte `id` on, shifted down.
FOURSCALE_HD constexpr u32 select_scales(u32 word, u32 id) { return word >> (8 * id); }

/// True if the scale id is allowed: 0 for four scales a row, 0 or 2 for two, 0 to 3 for one.
FOURSCALE_HD constexpr bool valid_scale_id(int scales, u32 id) {
  return scales == 4 ? id == 0 : scales == 2 ? id % 2 == 0 && id < 4 : id < 4;
}

}  // namespace FOURSCALE_NAMESPACE::model
