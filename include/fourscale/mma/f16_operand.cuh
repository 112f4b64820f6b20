// SPDX-License-Identifier: Apache-2.0
// The decoded operand of f16_tile.cuh: MXFP8, MXFP6 or MXFP4 for tensor cores that know fp16. It has the
// elements without their scales, which are exact in fp16, and for each block a word of facts: its scale, and
// the bounds from which certificates are made. docs/exact_gemm.md has the reasons.
#pragma once

#include "../formats/real.hpp"
#include "../model/certificate_8bit.hpp"
#include "../view/block_scaled_view.hpp"

namespace FOURSCALE_NAMESPACE::mma {

inline constexpr int block_values = 32;  ///< along K: a block, and a step of the MMA

/// Elements of E4M3 in A are multiplied in two parts: a multiple of this unit, and the rest, at most half a
/// unit. Each part has so few bits that its sums of products are exact where those of whole elements are not.
inline constexpr float part_unit = 4.0f;
/// x rounded to nearest even in units of part_unit: what fp16 gives for (x + 1536 units) - 1536 units.
FOURSCALE_D inline float high_part(float x) { return rintf(x * (1.0f / part_unit)) * part_unit; }

/// What is known of a row in a step, unpacked for certificates: see model/certificate_8bit.hpp, which defines
/// width, lowest and top. For an output, the numbers of its row and column are multiplied, but limits added.
struct block_numbers {
  float scale;  ///< 2^s; 1 where the block is all zeros or not certified
  u32 limits;   ///< width and top - lowest, biased so that sums which are too large reach bits 31 and 15
  float below;  ///< 2^(lowest + 13); 2^127 if all are zeros, 0 if nothing is certified
  float whole;  ///< 2^(top - 1)

  static constexpr u32 too_wide = 0x8000'0000u, too_far = 0x8000u;
  /// `width`: that of the elements or, if they are multiplied in parts, of the wider part.
  FOURSCALE_D static u32 limits_of(u32 width, int apart) {
    return (width + 0x4000u - 8 * 24 / 2) << 16 | static_cast<u32>(apart + 0x4000 - 26 / 2);
  }
  FOURSCALE_D bool certified() const { return below > 0.0f; }
  FOURSCALE_D bool zeros() const { return below == 0x1p127f; }
};

/// The same in the four bytes of a word, from the lowest: scale; width; lowest and top without the scale.
struct block_word {
  static constexpr u32 of_zeros = 127, uncertified = fourscale::model::unbounded;
  u32 bits;

  FOURSCALE_D block_word(e8m0 scale, fourscale::model::block_bounds of, u32 width) : bits(scale.bits) {
    const int s = static_cast<int>(scale.bits) - e8m0::bias;
    if (of.width == uncertified)
      bits |= uncertified << 8;
    else if (of.lowest == fourscale::model::element_facts::no_bit)
      bits |= of_zeros << 16;
    else
      bits |=
          width << 8 | (static_cast<u32>(of.lowest - s) & 0xffu) << 16 | static_cast<u32>(of.top - s) << 24;
  }
  FOURSCALE_D explicit block_word(u32 word) : bits(word) {}

  FOURSCALE_D e8m0 scale() const { return {static_cast<u8>(bits)}; }
  FOURSCALE_D block_numbers numbers() const {
    const auto power = fourscale::model::detail::power_of_two;
    const int s = static_cast<int>(bits & 0xffu) - e8m0::bias, lowest = static_cast<signed char>(bits >> 16),
              top = static_cast<signed char>(bits >> 24);
    const u32 width = bits >> 8 & 0xffu;
    if (width == uncertified) return {1.0f, 0u, 0.0f, 0.0f};
    // Zeros have no lowest bit, so `below` is very large. `whole` is at least 2^-120, even where 2^(top - 1)
    // is less: that keeps fewer accumulators, never more.
    if (lowest == of_zeros)
      return {1.0f, block_numbers::limits_of(0, -32), 0x1p127f, power(max(s - 127, -120))};
    return {power(s), block_numbers::limits_of(width, top - lowest), power(lowest + s + 13),
            power(top + s - 1)};
  }
};

/// rows x k in device memory, k a multiple of 32. Each array starts at a multiple of 256 bytes. It takes no
/// more bytes than a decoded_operand of this size.
struct f16_operand {
  fp16* values = nullptr;  ///< [row][k]
  u32* facts = nullptr;    ///< [step][row], block_word
  i64 rows = 0, steps = 0;
  u8 const* codes = nullptr;  ///< the packed codes of the caller, which the model reads
  fourscale::model::element_type type = fourscale::model::element_type::e4m3;

  static constexpr i64 alignment = 256;
  FOURSCALE_HD constexpr i64 padded_k() const { return steps * block_values; }
  FOURSCALE_HD constexpr i64 value_bytes() const {
    return round_up<i64>(rows * padded_k() * i64{sizeof(fp16)}, alignment);
  }
  FOURSCALE_HD constexpr i64 bytes() const {
    return value_bytes() + round_up<i64>(rows * steps * i64{sizeof(u32)}, alignment);
  }
  FOURSCALE_H static f16_operand in(u8* at, i64 rows, i64 k) {
    f16_operand x;
    x.rows = rows, x.steps = k / block_values;
    x.values = reinterpret_cast<fp16*>(at);
    x.facts = reinterpret_cast<u32*>(at + x.value_bytes());
    return x;
  }
};

/// Bits of an element in memory.
FOURSCALE_HD constexpr int width_of(fourscale::model::element_type type) {
  using enum fourscale::model::element_type;
  return type == e4m3 || type == e5m2 ? 8 : type == e2m1 ? 4 : 6;
}
/// The least exponent that the adder gives an element other than zero, as an exponent field of fp16.
FOURSCALE_HD constexpr u32 least_field(fourscale::model::element_type type) {
  using enum fourscale::model::element_type;
  return type == e4m3 ? 9u : type == e5m2 ? 1u : type == e3m2 ? 13u : 15u;
}

}  // namespace FOURSCALE_NAMESPACE::mma
