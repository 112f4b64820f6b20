// SPDX-License-Identifier: Apache-2.0
// Addresses in tensor memory (PTX ISA 9.7.16.1). An SM has 128 lanes x 512 columns of 32 bits. An address is
// lane << 16 | column; whole columns are allocated. Also the numbers of columns that the accumulator and the
// scales of an MMA take.
#pragma once

#include "instruction_descriptor.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

inline constexpr int tmem_lanes = 128;
inline constexpr int tmem_columns = 512;

struct tmem_location {
  int lane = 0;
  int column = 0;

  friend FOURSCALE_H constexpr bool operator==(tmem_location const&, tmem_location const&) = default;
};

FOURSCALE_HD constexpr u32 tmem_address(tmem_location at) {
  return static_cast<u32>(at.lane) << 16 | static_cast<u32>(at.column);
}
FOURSCALE_HD constexpr tmem_location parse_tmem_address(u32 address) {
  return {static_cast<int>(address >> 16), static_cast<int>(address & 0xffff)};
}

/// The address of a lane and column of an allocation. `base` is the address that tcgen05.alloc wrote. Warp w
/// of a warpgroup reaches only lanes 32 w to 32 w + 31.
FOURSCALE_HD constexpr u32 tmem_offset(u32 base, int lane, int column) {
  return base + tmem_address({lane, column});
}

FOURSCALE_HD constexpr char const* refusal(tmem_location at) {
  if (at.lane < 0 || at.lane >= tmem_lanes) return "Tensor memory has lanes 0 to 127.";
  if (at.column < 0 || at.column >= tmem_columns) return "Tensor memory has columns 0 to 511.";
  return nullptr;
}

/// True for the numbers of columns that tcgen05.alloc and dealloc take.
FOURSCALE_HD constexpr bool can_allocate(int columns) {
  return columns >= 32 && columns <= tmem_columns && (columns & (columns - 1)) == 0;
}

/// The number of columns for tcgen05.alloc, checked at compile time.
template <int Columns>
FOURSCALE_HD constexpr u32 allocation() {
  static_assert(can_allocate(Columns), "tcgen05.alloc takes 32, 64, 128, 256 or 512 columns.");
  return Columns;
}

/// The smallest number that tcgen05.alloc takes and that is not below `Needed`.
template <int Needed>
FOURSCALE_HD constexpr u32 allocation_for() {
  static_assert(Needed > 0 && Needed <= tmem_columns, "Tensor memory has 512 columns, and this needs more.");
  u32 columns = 32;
  while (columns < Needed) columns *= 2;
  return columns;
}

/// Columns of the f32 accumulator in each CTA. With M = 128 over two CTAs, each CTA has 64 rows, and its
/// upper lanes hold the right half of N.
FOURSCALE_HD constexpr int accumulator_columns(block_scaled_mma const& s) {
  return s.cta_group == 2 && s.m == 128 ? s.n / 2 : s.n;
}

/// Columns of one copy of A's scales in each CTA: one 128 x 4 tile, for 4 / scales_per_row()
/// steps along K. This does not hold for K = 96, where a row has 6 or 3 scales, and the manual shows their
/// cells in figures only.
FOURSCALE_HD constexpr int sfa_columns(block_scaled_mma const&) { return 4; }

/// Columns of one copy of B's scales in each CTA: whole tiles of 128 rows of B.
FOURSCALE_HD constexpr int sfb_columns(block_scaled_mma const& s) { return 4 * ceil_div(s.n, 128); }

}  // namespace FOURSCALE_NAMESPACE::ptx
