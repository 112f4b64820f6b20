// SPDX-License-Identifier: Apache-2.0
// The shared-memory descriptor: a 64-bit word that tells tcgen05.mma and tcgen05.cp where and how a matrix
// lies in shared memory (PTX ISA 9.7.16.4.1, table 40). Also the K-major tiles that TMA writes for it. Rows
// of 4-bit data are counted in bytes: 128 bytes hold 256 elements, and one instruction (K = 64) takes 32
// bytes.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

/// The values are those of the descriptor. TMA numbers the swizzles differently: see tma_swizzle().
enum class swizzle : u8 { none = 0, b128_atom_32b = 1, b128 = 2, b64 = 4, b32 = 6 };

/// The bytes of a row within which the swizzle permutes chunks of 16 bytes.
FOURSCALE_HD constexpr int span_bytes(swizzle s) {
  return s == swizzle::none ? 16 : s == swizzle::b32 ? 32 : s == swizzle::b64 ? 64 : 128;
}

/// The bytes after which the pattern repeats: eight rows under a swizzle. Also the alignment of a tile.
FOURSCALE_HD constexpr int pattern_bytes(swizzle s) { return s == swizzle::none ? 16 : 8 * span_bytes(s); }

/// The fields of the descriptor. Addresses and offsets are in bytes, multiples of 16 below 2^18.
struct smem_descriptor_fields {
  u32 start_address = 0;
  u32 leading_byte_offset = 0;
  u32 stride_byte_offset = 0;
  u32 base_offset = 0;            ///< 0 if the tile starts on pattern_bytes(), else (pattern start >> 7) & 7
  bool absolute_leading = false;  ///< sm_103a, K = 96: leading_byte_offset is an address
  swizzle pattern = swizzle::none;

  friend FOURSCALE_H constexpr bool operator==(smem_descriptor_fields const&,
                                               smem_descriptor_fields const&) = default;
};

FOURSCALE_HD constexpr char const* refusal(smem_descriptor_fields const& f) {
  if ((f.start_address | f.leading_byte_offset | f.stride_byte_offset) % 16 != 0)
    return "Addresses and offsets in a shared-memory descriptor are multiples of 16 bytes.";
  if ((f.start_address | f.leading_byte_offset | f.stride_byte_offset) >> 18 != 0)
    return "Addresses and offsets in a shared-memory descriptor are below 2^18 bytes.";
  if (f.base_offset > 7) return "The base offset of a shared-memory descriptor has three bits.";
  const u32 code = static_cast<u32>(f.pattern);
  if (code > 6 || code == 3 || code == 5)
    return "The swizzle of a shared-memory descriptor is 0, 1, 2, 4 or 6.";
  return nullptr;
}

/// The descriptor, unchecked: bits that do not fit are dropped. refusal() reports such fields.
FOURSCALE_HD constexpr u64 smem_descriptor(smem_descriptor_fields const& f) {
  const auto sixteenths = [](u32 bytes) { return u64{bytes >> 4 & 0x3fff}; };
  return sixteenths(f.start_address) | sixteenths(f.leading_byte_offset) << 16 |
         sixteenths(f.stride_byte_offset) << 32 | u64{1} << 46 | u64{f.base_offset & 7} << 49 |
         u64{f.absolute_leading} << 52 | static_cast<u64>(f.pattern) << 61;
}

struct parsed_smem_descriptor {
  smem_descriptor_fields fields;
  char const* refusal;  ///< what is wrong with the word; null: nothing
};

FOURSCALE_HD constexpr parsed_smem_descriptor parse_smem_descriptor(u64 word) {
  const auto bytes = [word](int low) { return static_cast<u32>(word >> low & 0x3fff) << 4; };
  smem_descriptor_fields f;
  f.start_address = bytes(0);
  f.leading_byte_offset = bytes(16);
  f.stride_byte_offset = bytes(32);
  f.base_offset = static_cast<u32>(word >> 49 & 7);
  f.absolute_leading = (word >> 52 & 1) != 0;
  f.pattern = static_cast<swizzle>(word >> 61);
  char const* wrong = refusal(f);
  if ((word >> 14 & 3) != 0 || (word >> 30 & 3) != 0 || (word >> 53 & 0xff) != 0)
    wrong = "A reserved bit (14, 15, 30, 31, 53 to 60) is set.";
  if ((word >> 46 & 7) != 1) wrong = "Bits 48 to 46 are not 0b001: this is not a tcgen05 descriptor.";
  return {f, wrong};
}

/// The descriptor with its start address advanced by `bytes`, to go on along K. The address must stay inside
/// the pattern.
FOURSCALE_HD constexpr u64 advanced(u64 word, u32 bytes) { return word + (bytes >> 4); }

/// An operand tile in shared memory with K contiguous: `k` elements of each of `rows` rows. The tile is cut
/// along K into columns, which lie one after the other. A column has one swizzle span of every row; one TMA
/// box fills it. For kind::mxf8f6f4, 6- and 4-bit elements take a byte each (TMA pads them so), and `bits`
/// is 8.
struct k_major_tile {
  int rows = 128;
  int k = 256;
  int bits = 4;
  swizzle pattern = swizzle::b128;

  FOURSCALE_HD constexpr int row_bytes() const { return k * bits / 8; }
  FOURSCALE_HD constexpr int size_bytes() const { return rows * row_bytes(); }
  FOURSCALE_HD constexpr int column_bytes() const { return rows * span_bytes(pattern); }
  /// The tile's address must be a multiple of this.
  FOURSCALE_HD constexpr int alignment() const { return pattern_bytes(pattern); }
  /// The number of MMA instructions along K. Each takes 32 bytes of a row.
  FOURSCALE_HD constexpr int k_steps() const { return row_bytes() / 32; }

  /// The offset of byte `b` of row `r` from the tile's address. The swizzle permutes the 16-byte chunks of a
  /// span by XOR with bits of the row.
  FOURSCALE_HD constexpr int offset(int r, int b) const {
    const int span = span_bytes(pattern);
    const int linear = b / span * column_bytes() + r * span + b % span;
    return linear ^ ((linear >> 7 & (span / 16 - 1)) << 4);
  }
};

namespace detail {
FOURSCALE_HD constexpr bool whole_spans(k_major_tile const& t) {
  return t.k * t.bits % (8 * span_bytes(t.pattern)) == 0 && t.row_bytes() % 32 == 0;
}
}  // namespace detail

#define FOURSCALE_DETAIL_TILE_RULES(RULE, t)                                                                 \
  RULE((t).bits == 4 || (t).bits == 8, "An element takes 4 bits in shared memory, or 8 (also if padded).")   \
  RULE((t).rows >= 8 && (t).rows <= 256 && (t).rows % 8 == 0,                                                \
       "Rows of an operand in shared memory come in groups of eight, 8 to 256 of them.")                     \
  RULE((t).pattern != swizzle::b128_atom_32b,                                                                \
       "The 128-byte swizzle of 32-byte atoms is not for K-major tiles.")                                    \
  RULE((t).k > 0 && i64{(t).k} * (t).bits * (t).rows <= i64{1} << 21,                                        \
       "A tile has at least one element in a row, and at most the 2^18 bytes that shared memory addresses.") \
  RULE(detail::whole_spans(t),                                                                               \
       "K of a tile in shared memory is a whole number of swizzle spans and of instructions: 32, 64 or "     \
       "128 bytes.")

FOURSCALE_HD constexpr char const* refusal(k_major_tile const& t) {
#define FOURSCALE_DETAIL_RULE(holds, sentence) \
  if (!(holds)) return sentence;
  FOURSCALE_DETAIL_TILE_RULES(FOURSCALE_DETAIL_RULE, t)
#undef FOURSCALE_DETAIL_RULE
  return nullptr;
}

/// The descriptor for instruction `step` along K of the tile at `address`, a multiple of Tile.alignment().
/// The stride offset leads to the next eight rows, one pattern on. The leading offset counts only without a
/// swizzle: it leads to the next column, where the second 16 bytes of the instruction's K lie.
template <k_major_tile Tile>
FOURSCALE_HD constexpr u64 smem_descriptor(u32 address, int step = 0) {
#define FOURSCALE_DETAIL_RULE(holds, sentence) static_assert(holds, sentence);
  FOURSCALE_DETAIL_TILE_RULES(FOURSCALE_DETAIL_RULE, Tile)
#undef FOURSCALE_DETAIL_RULE
  constexpr int span = span_bytes(Tile.pattern);
  const int start = 32 * step / span * Tile.column_bytes() + 32 * step % span;
  smem_descriptor_fields f;
  f.start_address = address + static_cast<u32>(start);
  f.leading_byte_offset = Tile.pattern == swizzle::none ? static_cast<u32>(Tile.column_bytes()) : 16;
  f.stride_byte_offset = static_cast<u32>(8 * span);
  f.pattern = Tile.pattern;
  return smem_descriptor(f);
}
#undef FOURSCALE_DETAIL_TILE_RULES

/// The source descriptor of tcgen05.cp.32x128b.warpx4 for one 128 x 4 tile of scales: 512 bytes in the order
/// of swizzled_128x4 (scale_layout.hpp). `address` is a multiple of 16.
FOURSCALE_HD constexpr u64 scale_tile_descriptor(u32 address) {
  smem_descriptor_fields f;
  f.start_address = address;
  f.stride_byte_offset = 128;
  return smem_descriptor(f);
}

}  // namespace FOURSCALE_NAMESPACE::ptx
