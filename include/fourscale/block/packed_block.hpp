// SPDX-License-Identifier: Apache-2.0
// A quantized block as a value: its scale and its packed codes.
#pragma once

#include "../formats/block_formats.hpp"
#include "../formats/packed.hpp"

namespace FOURSCALE_NAMESPACE {

/// The scale of one block, and its codes in the order of memory (formats/packed.hpp).
template <block_format F>
struct packed_block {
  using element = typename F::element;

  typename F::scale scale;
  u8 codes[block_code_bytes<F>];

  /// Element i, 0 <= i < F::block_size.
  FOURSCALE_HD constexpr element get(int i) const {
    const int bit = i * element::width, byte = bit / 8;
    u32 word = codes[byte];
    if (8 % element::width != 0 && byte + 1 < block_code_bytes<F>) word |= u32{codes[byte + 1]} << 8;
    return {static_cast<u8>((word >> (bit % 8)) & ((1u << element::width) - 1))};
  }

  FOURSCALE_HD constexpr void set(int i, element value) {
    const int bit = i * element::width, byte = bit / 8;
    const u32 mask = ((1u << element::width) - 1) << (bit % 8), bits = u32{value.bits} << (bit % 8);
    codes[byte] = static_cast<u8>((codes[byte] & ~mask) | bits);
    if (8 % element::width != 0 && byte + 1 < block_code_bytes<F>)
      codes[byte + 1] = static_cast<u8>((codes[byte + 1] & ~(mask >> 8)) | bits >> 8);
  }

  friend FOURSCALE_H constexpr bool operator==(packed_block const&, packed_block const&) = default;
};

}  // namespace FOURSCALE_NAMESPACE
