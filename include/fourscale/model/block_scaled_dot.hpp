// SPDX-License-Identifier: Apache-2.0
// Model of one output of Blackwell's block-scaled MMA, bit for bit, in integer arithmetic: mma.sync and
// tcgen05.mma of kinds mxf4nvf4, mxf4 and mxf8f6f4. block_scaled_dot() is the definition; the exact GEMMs and
// the instruction models of this folder are built on it. model/model.hpp says which parts are vendor text,
// which are measured by others, and which are inferred.
#pragma once

#include "../formats/e2m1.hpp"
#include "../formats/e2m3.hpp"
#include "../formats/e3m2.hpp"
#include "../formats/e4m3.hpp"
#include "../formats/e5m2.hpp"
#include "../formats/e8m0.hpp"
#include "../ptx/instruction_descriptor.hpp"

namespace FOURSCALE_NAMESPACE::model {

// Kinds and types have the names of ptx/; descriptor_fields.hpp decodes the descriptor words with code of its
// own.
using ptx::mma_kind, ptx::scale_type, ptx::element_type;

/// The operand types of one instruction.
struct mma_format {
  mma_kind kind = mma_kind::mxf4nvf4;
  int block = 16;  ///< elements under one scale
  scale_type scale = scale_type::ue4m3;
  element_type a = element_type::e2m1, b = element_type::e2m1;
  bool negate = false;  ///< exactly one of A and B is negated, so each product changes its sign

  /// Elements along K of one instruction (they fill 32 bytes), and scales for these elements.
  FOURSCALE_HD constexpr int k() const { return kind == mma_kind::mxf8f6f4 ? 32 : 64; }
  FOURSCALE_HD constexpr int scales() const { return k() / block; }

  /// True for the combinations of kind, types and block size in PTX ISA 9.7.16.10.7.1.
  FOURSCALE_HD constexpr bool valid() const {
    if (kind == mma_kind::mxf8f6f4) return block == 32 && scale == scale_type::ue8m0;
    if (a != element_type::e2m1 || b != element_type::e2m1) return false;
    if (kind == mma_kind::mxf4 || block == 32) return block == 32 && scale == scale_type::ue8m0;
    return block == 16;
  }
  friend FOURSCALE_H constexpr bool operator==(mma_format const&, mma_format const&) = default;
};

inline constexpr mma_format nvfp4_mma{};
inline constexpr mma_format mxfp4_mma{mma_kind::mxf4nvf4, 32, scale_type::ue8m0};
inline constexpr mma_format mxfp8_mma{mma_kind::mxf8f6f4, 32, scale_type::ue8m0, element_type::e4m3,
                                      element_type::e4m3};

/// The operand data of one instruction for a row of A or a column of B: 32 bytes along K as they lie in
/// memory, and their scales. Byte j of `scales` is the scale of block j. Kinds mxf4nvf4 and mxf4: 64 nibbles.
/// Kind mxf8f6f4: 32 containers of 8 bits; E2M1 takes bits 5:2 of a container, a 6-bit element bits 5:0.
struct operand_row {
  u64 words[4] = {};
  u32 scales = 0;
};

/// The bits of every NaN result.
inline constexpr u32 mma_nan_bits = 0x7fff'ffff;

namespace detail {

/// The number m * 2^(exponent - fraction bits), as the adder sees it: subnormals are not normalised. A zero
/// has the exponent of the smallest normal f32.
struct factor {
  i32 m;
  int exponent;
};
inline constexpr int zero_exponent = -126;

template <format F>
FOURSCALE_HD constexpr factor split(u32 code) {
  const u32 magnitude = code & magnitude_mask<F>, field = magnitude >> F::mantissa_bits;
  if (magnitude == 0) return {0, zero_exponent};
  const u32 fraction = magnitude & ((1u << F::mantissa_bits) - 1);
  const i32 m = static_cast<i32>(field ? fraction | 1u << F::mantissa_bits : fraction);
  return {code >> (F::width - 1) & 1u ? -m : m, static_cast<int>(field ? field : 1) - F::bias};
}

FOURSCALE_HD constexpr factor split_scale(scale_type type, u32 code) {
  if (type == scale_type::ue8m0) return {1, static_cast<int>(code) - e8m0::bias};
  return split<e4m3>(code & 0x7fu);  // the hardware ignores the sign bit
}
FOURSCALE_HD constexpr bool is_nan_scale(scale_type type, u32 code) {
  return type == scale_type::ue8m0 ? code == e8m0::nan_bits : (code & 0x7fu) == e4m3::nan_bits;
}
FOURSCALE_HD constexpr u32 byte_of(u32 word, int i) { return word >> (8 * i) & 0xffu; }

/// One summand of the adder: m * 2^(exponent - fraction).
struct term {
  i64 m;
  int fraction, exponent;
};

FOURSCALE_HD constexpr term accumulator_term(float c) {
  const u32 bits = bit_cast<u32>(c), field = bits >> 23 & 0xffu;
  const i64 m = static_cast<i64>((bits & 0x7f'ffffu) | (field ? 0x80'0000u : 0u));
  return {bits >> 31 ? -m : m, 23, field ? static_cast<int>(field) - 127 : zero_exponent};
}

/// Position of the highest set bit of x > 0.
FOURSCALE_HD constexpr int highest_bit(u64 x) {
#if FOURSCALE_DEVICE_PASS
  if (!is_constant_evaluated()) return 63 - __clzll(static_cast<long long>(x));
#endif
  int position = 0;
  for (int step = 32; step > 0; step /= 2)
    if (x >> step != 0) x >>= step, position += step;
  return position;
}

/// sum * 2^unit as f32, rounded toward zero. Overflow gives infinity, not the largest finite number; zero is
/// +0.
FOURSCALE_HD constexpr float to_f32_toward_zero(i64 sum, int unit) {
  if (sum == 0) return 0.0f;
  const u32 sign = sum < 0 ? 0x8000'0000u : 0u;
  const u64 magnitude = static_cast<u64>(sum < 0 ? -sum : sum);
  const int exponent = highest_bit(magnitude) + unit;
  if (exponent > 127) return bit_cast<float>(sign | float_inf_bits);
  const int floor = exponent < -126 ? -126 : exponent, shift = unit - floor + 23;
  const u64 m = shift >= 0 ? magnitude << shift : (shift < -63 ? 0 : magnitude >> -shift);
  if (m == 0) return 0.0f;
  const u32 field = exponent < -126 ? 0u : static_cast<u32>(floor + 127) << 23;
  return bit_cast<float>(sign | field | (static_cast<u32>(m) & 0x7f'ffffu));
}

/// The adder: aligns all terms to the largest exponent, truncates each toward zero `kept` bits below it, sums
/// them exactly, and rounds the sum toward zero to f32. A term's exponent is the sum of its factors'
/// exponents, so a term that cancelled to zero still takes part in the maximum.
template <int N>
FOURSCALE_HD constexpr float fused_sum(term const (&terms)[N], int kept) {
  int largest = terms[0].exponent;
  for (int i = 1; i < N; ++i) largest = terms[i].exponent > largest ? terms[i].exponent : largest;
  i64 sum = 0;
  for (int i = 0; i < N; ++i) {
    const int shift = kept - terms[i].fraction + terms[i].exponent - largest;
    const i64 magnitude = terms[i].m < 0 ? -terms[i].m : terms[i].m;
    const i64 aligned = shift >= 0 ? magnitude << shift : (shift < -62 ? 0 : magnitude >> -shift);
    sum += terms[i].m < 0 ? -aligned : aligned;
  }
  return to_f32_toward_zero(sum, largest - kept);
}

/// The value of an E2M1 code, in units of 1/2.
FOURSCALE_HD constexpr i32 e2m1_halves(u32 code) {
  const i32 magnitude = static_cast<i32>(0xc864'3210u >> (4 * (code & 7u)) & 15u);
  return code & 8u ? -magnitude : magnitude;
}

/// The exact sum of 16 products of E2M1, in units of 1/4.
FOURSCALE_HD constexpr i32 sum_of_16(u64 a, u64 b) {
  i32 sum = 0;
  for (int i = 0; i < 16; ++i)
    sum +=
        e2m1_halves(static_cast<u32>(a >> (4 * i)) & 15u) * e2m1_halves(static_cast<u32>(b >> (4 * i)) & 15u);
  return sum;
}

/// Kinds mxf4nvf4 and mxf4. The adder takes five terms: the exact sums of four groups of 16 products,
/// whatever the block size, and the accumulator.
FOURSCALE_HD constexpr float dot_4bit(mma_format const& f, operand_row const& a, operand_row const& b,
                                      float c) {
  term terms[5] = {};
  const int fraction = f.scale == scale_type::ue4m3 ? 2 + 2 * e4m3::mantissa_bits : 2;
  for (int group = 0; group < 4; ++group) {
    const int j = group * 16 / f.block;
    const factor x = split_scale(f.scale, byte_of(a.scales, j)),
                 y = split_scale(f.scale, byte_of(b.scales, j));
    const i64 m = i64{sum_of_16(a.words[group], b.words[group])} * (x.m * y.m);
    terms[group] = {f.negate ? -m : m, fraction, x.exponent + y.exponent};
  }
  terms[4] = accumulator_term(c);
  return fused_sum(terms, 35);
}

/// An element of kind mxf8f6f4, taken out of its container.
struct element {
  factor value;
  int fraction;
  bool nan, infinite;
};
FOURSCALE_HD constexpr element read_element(element_type type, u32 container) {
  switch (type) {
    case element_type::e4m3:
      return {split<e4m3>(container), e4m3::mantissa_bits, (container & 0x7fu) == 0x7fu, false};
    case element_type::e5m2:
      return {split<e5m2>(container), e5m2::mantissa_bits, (container & 0x7fu) > 0x7cu,
              (container & 0x7fu) == 0x7cu};
    case element_type::e2m3:
      return {split<e2m3>(container & 0x3fu), e2m3::mantissa_bits, false, false};
    case element_type::e3m2:
      return {split<e3m2>(container & 0x3fu), e3m2::mantissa_bits, false, false};
    default:
      return {split<e2m1>(container >> 2 & 15u), e2m1::mantissa_bits, false, false};
  }
}

/// Kind mxf8f6f4. The adder takes 33 terms: each of the 32 products, and the accumulator. NaN and infinite
/// elements, and an infinite C, follow IEEE rules.
FOURSCALE_HD constexpr float dot_8bit(mma_format const& f, operand_row const& a, operand_row const& b,
                                      float c) {
  term terms[33] = {};
  const int scale = split_scale(f.scale, byte_of(a.scales, 0)).exponent +
                    split_scale(f.scale, byte_of(b.scales, 0)).exponent;
  const u32 c_bits = bit_cast<u32>(c);
  bool plus = c_bits == float_inf_bits, minus = c_bits == (float_inf_bits | 0x8000'0000u);
  for (int k = 0; k < 32; ++k) {
    const int at = 8 * (k % 8);
    const element x = read_element(f.a, static_cast<u32>(a.words[k / 8] >> at) & 0xffu),
                  y = read_element(f.b, static_cast<u32>(b.words[k / 8] >> at) & 0xffu);
    const bool x_zero = x.value.m == 0, y_zero = y.value.m == 0;
    if (x.nan || y.nan || (x.infinite && y_zero) || (y.infinite && x_zero))
      return bit_cast<float>(mma_nan_bits);
    const bool negative = ((x.value.m < 0) != (y.value.m < 0)) != f.negate;
    if (x.infinite || y.infinite) (negative ? minus : plus) = true;
    const i64 m = i64{x.value.m} * y.value.m;
    terms[k] = {f.negate ? -m : m, x.fraction + y.fraction, x.value.exponent + y.value.exponent + scale};
  }
  if (plus && minus) return bit_cast<float>(mma_nan_bits);
  if (plus || minus) return bit_cast<float>(float_inf_bits | (minus ? 0x8000'0000u : 0u));
  terms[32] = accumulator_term(c);
  return fused_sum(terms, 25);
}

}  // namespace detail

/// D = sum of (A * scale_A)(B * scale_B) + C over the K of one instruction. `f` must be valid(). A NaN among
/// the scales or in C gives 0x7FFFFFFF. An infinite C comes back unchanged under the 4-bit kinds; under
/// mxf8f6f4 IEEE rules hold.
FOURSCALE_HD constexpr float block_scaled_dot(mma_format const& f, operand_row const& a, operand_row const& b,
                                              float c) {
  const u32 c_magnitude = bit_cast<u32>(c) & 0x7fff'ffffu;
  bool nan = c_magnitude > float_inf_bits;
  for (int j = 0; j < f.scales(); ++j)
    nan = nan || detail::is_nan_scale(f.scale, detail::byte_of(a.scales, j)) ||
          detail::is_nan_scale(f.scale, detail::byte_of(b.scales, j));
  if (nan) return bit_cast<float>(mma_nan_bits);
  if (f.kind == mma_kind::mxf8f6f4) return detail::dot_8bit(f, a, b, c);
  if (c_magnitude == float_inf_bits) return c;
  return detail::dot_4bit(f, a, b, c);
}

}  // namespace FOURSCALE_NAMESPACE::model
