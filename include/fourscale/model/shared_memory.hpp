// SPDX-License-Identifier: Apache-2.0
// Shared memory as tcgen05 reads it: address maps of K-major tiles, under the 32, 64 and 128 byte swizzles or
// without one, and loads of operand rows. PTX ISA 9.7.16.10.6, tables 41 and 55.
#pragma once

#include "descriptor_fields.hpp"

namespace FOURSCALE_NAMESPACE::model {

/// The shared memory of one CTA: `data[i]` is the byte at shared address `first + i`. Both `data` and `first`
/// must be aligned to 16 bytes.
struct shared_memory {
  u8* data = nullptr;
  u32 first = 0, size = 0;
  FOURSCALE_HD constexpr bool holds(u32 address, u32 bytes) const {
    return address >= first && bytes <= size && address - first <= size - bytes;
  }
};

/// Bytes of a row inside the swizzle atom: 16 without a swizzle.
FOURSCALE_HD constexpr u32 swizzle_width(swizzle s) {
  switch (s) {
    case swizzle::b128:
      return 128;
    case swizzle::b64:
      return 64;
    case swizzle::b32:
      return 32;
    default:
      return 16;
  }
}

/// The swizzled address of the byte at `address` of the plain layout: the index of its 16-byte chunk in the
/// row of the atom is XORed with the index of its 128-byte line, counted from the start of the pattern.
FOURSCALE_HD constexpr u32 swizzled(swizzle s, u32 address, u32 base_offset = 0) {
  const u32 mask = swizzle_width(s) / 16 - 1;
  return address ^ ((((address >> 7) - base_offset) & mask) << 4);
}

/// The address of byte `byte` (along K) of row `row` of a K-major matrix.
FOURSCALE_HD constexpr u32 operand_address(shared_fields const& d, u32 row, u32 byte) {
  const u32 group = d.start + row / 8 * d.stride;
  if (d.mode() == swizzle::none) return group + row % 8 * 16 + byte / 16 * d.leading + byte % 16;
  return swizzled(d.mode(), group + row % 8 * swizzle_width(d.mode()) + byte, d.base_offset);
}

/// The bytes that an operand covers: `count` runs of `bytes` bytes, `stride` apart.
struct strided_range {
  u32 first = 0, bytes = 0, stride = 0, count = 0;

  /// True if a byte of [begin, end) is in one of the runs.
  FOURSCALE_HD constexpr bool meets(u32 begin, u32 end) const {
    for (u32 i = 0; i < count; ++i) {
      const u32 at = first + i * stride;
      if (at < end && begin < at + bytes) return true;
    }
    return false;
  }
  friend FOURSCALE_H constexpr bool operator==(strided_range const&, strided_range const&) = default;
  FOURSCALE_HD constexpr u32 end() const { return count == 0 ? first : first + (count - 1) * stride + bytes; }
};

/// The bytes of `rows` rows in chunk column `chunk` (16 bytes along K). Under a swizzle: all bytes of the
/// atoms.
FOURSCALE_HD constexpr strided_range operand_range(shared_fields const& d, u32 rows, u32 chunk) {
  const u32 groups = (rows + 7) / 8, in_group = rows < 8 ? rows : 8;
  if (d.mode() == swizzle::none) return {d.start + chunk * d.leading, in_group * 16, d.stride, groups};
  const u32 width = swizzle_width(d.mode());
  return {d.start - d.start % width, in_group * width, d.stride, groups};
}

namespace detail {

FOURSCALE_HD constexpr u64 load_u64(u8 const* p) {
  u64 word = 0;
  if (is_constant_evaluated()) {
    for (int i = 0; i < 8; ++i) word |= u64{p[i]} << (8 * i);
  } else {
    __builtin_memcpy(&word, __builtin_assume_aligned(p, 8), 8);
  }
  return word;
}

/// Unpacks 16 elements of kind mxf8f6f4 from a 16-byte chunk of shared memory to containers of 8 bits. In the
/// chunk, E2M1 takes the first 8 bytes and 6-bit elements the first 12; the rest is padding.
FOURSCALE_HD constexpr void expand_chunk(element_type type, u64 low, u64 high, u64 (&out)[2]) {
  if (type == element_type::e4m3 || type == element_type::e5m2) {
    out[0] = low, out[1] = high;
    return;
  }
  out[0] = out[1] = 0;
  for (int i = 0; i < 16; ++i) {
    u64 container = (low >> (4 * i) & 15u) << 2;
    if (type != element_type::e2m1) {
      const int at = 6 * i;
      container = at < 64 ? low >> at : high >> (at - 64);
      if (at == 60) container |= high << 4;
      container &= 63u;
    }
    out[i / 8] |= container << (i % 8 * 8);
  }
}

}  // namespace detail

/// The data that one instruction reads of a row of A, or of a column of B; the scales are left 0.
FOURSCALE_HD constexpr operand_row load_row(shared_memory const& memory, shared_fields const& d, u32 row,
                                            mma_kind kind, element_type type) {
  operand_row x;
  for (u32 chunk = 0; chunk < 2; ++chunk) {
    u8 const* p = memory.data + (operand_address(d, row, 16 * chunk) - memory.first);
    u64 words[2] = {detail::load_u64(p), detail::load_u64(p + 8)};
    if (kind == mma_kind::mxf8f6f4) detail::expand_chunk(type, words[0], words[1], words);
    x.words[2 * chunk] = words[0], x.words[2 * chunk + 1] = words[1];
  }
  return x;
}

}  // namespace FOURSCALE_NAMESPACE::model
