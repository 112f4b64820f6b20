// SPDX-License-Identifier: Apache-2.0
// The decoded operand of f16_tile.cuh: MXFP8, MXFP6 or MXFP4 for tensor cores that know fp16. It has the
// elements without their scales, which are exact in fp16, and with each its reach; and for each block a word
// of facts: its scale, and the bounds from which certificates are made. docs/exact_gemm.md has the reasons.
#pragma once

#include "../formats/real.hpp"
#include "../model/certificate_8bit.hpp"
#include "../ptx/arith.hpp"
#include "../ptx/mma_sync_f16.cuh"
#include "../view/block_scaled_view.hpp"

namespace FOURSCALE_NAMESPACE::mma {

inline constexpr int block_values = 32;  ///< along K: a block, and a step of the MMA

/// How the elements of B are multiplied: whole, or in two parts, each with so few bits that its sums of
/// products are exact where those of whole elements are not. The first part of an element of E4M3 is the
/// nearest multiple of 4, that of E3M2 the nearest whole number, that of E5M2 the element itself if its
/// magnitude is 2048 or more, else 0. The second part is the rest.
enum class parts { none, of_e3m2, of_e4m3, of_e5m2 };
/// How B's elements, of type E, are multiplied by A's. They stay whole where sums of most data are exact so:
/// if one side is E2M1 or E2M3, or both have 6 bits.
template <class OfA, class E>
FOURSCALE_HD constexpr parts parts_of() {
  if constexpr (same_type<OfA, e2m1> || same_type<OfA, e2m3> || (OfA::width == 6 && E::width == 6))
    return parts::none;
  if constexpr (same_type<E, e3m2>) return parts::of_e3m2;
  if constexpr (same_type<E, e4m3>) return parts::of_e4m3;
  if constexpr (same_type<E, e5m2>) return parts::of_e5m2;
  return parts::none;
}
/// The first parts of two elements.
template <parts Parts>
FOURSCALE_D u32 first_parts(u32 two) {
  static_assert(Parts != parts::none);
  if constexpr (Parts == parts::of_e5m2) return two & ptx::set_ge_abs_f16x2(two, 0x6800'6800u);  // 2048
  // 6144 or 1536: numbers of fp16 are 4 apart between 4096 and 8192, and 1 apart between 1024 and 2048.
  constexpr u32 anchor = Parts == parts::of_e4m3 ? 0x6e00'6e00u : 0x6600'6600u;
  return ptx::sub_rn_f16x2(ptx::add_rn_f16x2(two, anchor), anchor);
}

/// Reaches (model::reach) of two elements, in the lowest seven bits of each fp16: there no element has bits.
struct reach : fourscale::model::reach {
  static constexpr u32 elements = 0xff80'ff80u;  ///< the bits of two elements in a word

  /// The bytes of two words.
  FOURSCALE_D static u32 bytes(u32 x, u32 y) { return ptx::prmt_b32(x, y, 0x6420u) & 0x7f7f'7f7fu; }

  /// Sums of products of bytes begin from the bits of this float, so that their bits are those of floats.
  static constexpr float none = 0x1p23f;
  /// The sum of the products of reaches, from such a float; 1 if it is more.
  FOURSCALE_D static float of_products(float sum) {
    constexpr float unit = 1.0f / (1 << 2 * most_apart);
    return __saturatef(fmaf(sum, unit, -none * unit));
  }
};

/// What is known of a row in a step, unpacked for certificates: see model/certificate_8bit.hpp, which defines
/// width, lowest and top. For an output, the numbers of its row and column are multiplied.
struct block_numbers {
  float scale;  ///< 2^s; 1 where the block is all zeros or not certified
  int width;  ///< in eighths of a bit, of A minus 12 bits, of B 12 bits minus it: sums of products are exact
              ///< where that of A is less than that of B
  float below;  ///< 2^(lowest + 12); 2^127 if all are zeros, 0 if nothing is certified
  float whole;  ///< 2^(top - 1)

  FOURSCALE_D bool certified() const { return below > 0.0f; }
  FOURSCALE_D bool zeros() const { return below == 0x1p127f; }
};

/// The same in the four bytes of a word, from the lowest: scale; width; lowest and top without the scale.
struct block_word {
  static constexpr int of_zeros = 127, uncertified = fourscale::model::unbounded;
  u32 bits;

  FOURSCALE_D block_word(e8m0 scale, fourscale::model::block_bounds of, u32 width) : bits(scale.bits) {
    const int s = static_cast<int>(scale.bits) - e8m0::bias;
    if (of.width == uncertified)
      bits |= u32{uncertified} << 8;
    else if (of.lowest == fourscale::model::element_facts::no_bit)
      bits |= u32{of_zeros} << 16;
    else
      bits |=
          width << 8 | (static_cast<u32>(of.lowest - s) & 0xffu) << 16 | static_cast<u32>(of.top - s) << 24;
  }
  FOURSCALE_D explicit block_word(u32 word) : bits(word) {}

  FOURSCALE_D e8m0 scale() const { return {static_cast<u8>(bits)}; }
  FOURSCALE_D block_numbers numbers(bool of_a) const {
    const auto power = fourscale::model::detail::power_of_two;
    const int s = static_cast<int>(bits & 0xffu) - e8m0::bias, lowest = static_cast<signed char>(bits >> 16),
              top = static_cast<signed char>(bits >> 24);
    const int width = static_cast<int>(bits >> 8 & 0xffu);
    if (width == uncertified) return {1.0f, 0, 0.0f, 0.0f};
    const int from_half = of_a ? width - 8 * 12 : 8 * 12 - width;
    // Zeros have no lowest bit, so `below` is very large. `whole` is at least 2^-120, even where 2^(top - 1)
    // is less: that keeps fewer accumulators, never more.
    if (lowest == of_zeros) return {1.0f, from_half, 0x1p127f, power(max(s - 127, -120))};
    return {power(s), from_half, power(lowest + s + 12), power(top + s - 1)};
  }
};

/// rows x k in device memory, k a multiple of 32. Each array starts at a multiple of 256 bytes. It takes no
/// more bytes than a decoded_operand of this size.
struct f16_operand {
  fp16* values = nullptr;  ///< [row][k], with reaches
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
