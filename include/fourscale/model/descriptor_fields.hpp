// SPDX-License-Identifier: Apache-2.0
// Decoders of the three descriptor words of tcgen05: instruction descriptor, shared-memory descriptor,
// tensor-memory address. PTX ISA 9.7.16.1.1 and 9.7.16.4, tables 40, 43 and 44. These tables are read here a
// second time, on purpose: the file shares the enums of ptx/ but none of the code that builds descriptors.
#pragma once

#include "../ptx/smem_descriptor.hpp"
#include "block_scaled_dot.hpp"

namespace FOURSCALE_NAMESPACE::model {

/// Bits `low` to `high` of a word.
FOURSCALE_HD constexpr u32 bit_field(u64 word, int high, int low) {
  return static_cast<u32>(word >> low) & ((2u << (high - low)) - 1);
}

/// The fields of an instruction descriptor of the block-scaled kinds, as found: check_instruction() tests
/// them.
struct instruction_fields {
  u32 m, n, type_a, type_b, scale_id_a, scale_id_b, reserved;
  scale_type scale;
  bool sparse, negate_a, negate_b, transpose_a, transpose_b, k96;
};

FOURSCALE_HD constexpr instruction_fields decode_instruction(u32 word, mma_kind kind) {
  const bool wide = kind == mma_kind::mxf8f6f4;
  const u32 reserved = wide ? 0x8700'004bu : 0x0700'104bu;
  return {.m = bit_field(word, 28, 27) * 128,
          .n = bit_field(word, 22, 17) * 8,
          .type_a = bit_field(word, 9, 7),
          .type_b = bit_field(word, wide ? 12 : 11, 10),
          .scale_id_a = bit_field(word, 30, 29),
          .scale_id_b = bit_field(word, 5, 4),
          .reserved = word & reserved,
          .scale = static_cast<scale_type>(bit_field(word, 23, 23)),
          .sparse = bit_field(word, 2, 2) != 0,
          .negate_a = bit_field(word, 13, 13) != 0,
          .negate_b = bit_field(word, 14, 14) != 0,
          .transpose_a = bit_field(word, 15, 15) != 0,
          .transpose_b = bit_field(word, 16, 16) != 0,
          .k96 = !wide && bit_field(word, 31, 31) != 0};
}

/// The permutation of 16-byte chunks in shared memory: bits 63:61 of the shared-memory descriptor.
using ptx::swizzle;

/// The fields of a shared-memory descriptor. Addresses and offsets are in bytes.
struct shared_fields {
  u32 start, leading, stride, base_offset;
  u32 constant;  ///< bits 48:46, must be 1
  u32 zero;      ///< bits 60:53 and the gaps of two bits, must be 0
  u32 swizzle_code;
  bool absolute;  ///< the leading dimension is an address: sm_103a, K = 96

  FOURSCALE_HD constexpr swizzle mode() const { return static_cast<swizzle>(swizzle_code); }
};

FOURSCALE_HD constexpr shared_fields decode_shared(u64 word) {
  return {.start = bit_field(word, 13, 0) << 4,
          .leading = bit_field(word, 29, 16) << 4,
          .stride = bit_field(word, 45, 32) << 4,
          .base_offset = bit_field(word, 51, 49),
          .constant = bit_field(word, 48, 46),
          .zero = bit_field(word, 60, 53) | bit_field(word, 15, 14) | bit_field(word, 31, 30),
          .swizzle_code = bit_field(word, 63, 61),
          .absolute = bit_field(word, 52, 52) != 0};
}

/// A tensor-memory address: lane in bits 31:16, column in bits 15:0 of the word.
struct tensor_address {
  u32 lane = 0, column = 0;
  FOURSCALE_HD constexpr u32 word() const { return lane << 16 | column; }
  FOURSCALE_HD constexpr tensor_address plus(u32 lanes, u32 columns) const {
    return {lane + lanes, column + columns};
  }
  friend FOURSCALE_H constexpr bool operator==(tensor_address, tensor_address) = default;
};
FOURSCALE_HD constexpr tensor_address decode_tensor_address(u32 word) { return {word >> 16, word & 0xffffu}; }

}  // namespace FOURSCALE_NAMESPACE::model
