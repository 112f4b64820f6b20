// SPDX-License-Identifier: Apache-2.0
// The slow path of f16_tile.cuh: one thread adds a step of 32 values to one output, exactly, whatever the
// data. It follows the adder of kind mxf8f6f4 in floats (add_in_floats), or in the integers of its model
// where floats might not hold the result (add_block_by_model). docs/exact_gemm.md has the reasons.
#pragma once

#include "f16_operand.cuh"

namespace FOURSCALE_NAMESPACE::mma {

/// A stage of an operand in shared memory: rows of 32 fp16, 64 bytes. Their 16-byte chunks are swizzled, so
/// that eight rows of one chunk touch each bank once. A stage begins at a multiple of 128 bytes.
inline constexpr int f16_row_bytes = 2 * block_values;
FOURSCALE_HD constexpr u32 f16_chunk_place(int row, int chunk) {
  return static_cast<u32>(row * f16_row_bytes + (chunk ^ row / 2 % 4) * 16);
}

/// A row of A and a row of B in a step: what one output needs.
struct f16_rows {
  u8 const *a, *b;   ///< stages
  int row_a, row_b;  ///< in these stages
  block_numbers of_a, of_b;
  u32 least_a, least_b;  ///< least_field() of the elements
};

namespace detail {

/// Whether the adder drops nothing, neither of the products nor of the accumulator c. `limits`: too_far, or
/// with too_wide also whether the f32 sum of the products is exact. No branches. False for NaN.
FOURSCALE_D inline bool is_kept(block_numbers const& a, block_numbers const& b, float c,
                                u32 limits = block_numbers::too_far) {
  const float m = fabsf(c), below = a.below * b.below, whole = a.whole * b.whole;
  return (((a.limits + b.limits) & limits) == 0) & (m < below) & ((m >= whole) | ((m + whole) - whole == m));
}

FOURSCALE_D inline int exponent_field(float x) {
  return static_cast<int>(bit_cast<u32>(x) >> 23 & 0xffu) - 127;
}

/// The 32 elements of a row in a step, two fp16 to a word.
struct row_words {
  uint4 of[4];

  FOURSCALE_D row_words(u8 const* stage, int row) {
    FOURSCALE_UNROLL
    for (int i = 0; i < 4; ++i) of[i] = *reinterpret_cast<uint4 const*>(stage + f16_chunk_place(row, i));
  }
};
/// Calls f(a, b) for each word of both rows, which holds two elements.
template <class Function>
FOURSCALE_D void for_pairs(row_words const& a, row_words const& b, Function const& f) {
  FOURSCALE_UNROLL
  for (int i = 0; i < 4; ++i)
    f(a.of[i].x, b.of[i].x), f(a.of[i].y, b.of[i].y), f(a.of[i].z, b.of[i].z), f(a.of[i].w, b.of[i].w);
}

/// The largest exponent of a product, plus 30 (twice the bias of fp16). A zero counts as the least normal
/// number of its type, whose exponent field is least_a or least_b.
FOURSCALE_D inline int largest_fields(row_words const& a, row_words const& b, u32 least_a, u32 least_b) {
  constexpr u32 fields = 0x7c00'7c00u, both = 0x0400'0400u;
  u32 most = 0;
  for_pairs(a, b, [&](u32 x, u32 y) {
    most = __vmaxu2(most, __vmaxu2(x & fields, least_a * both) + __vmaxu2(y & fields, least_b * both));
  });
  return static_cast<int>(max(most >> 16, most & 0xffffu) >> 10);
}

/// The exact sum of what the adder keeps of 32 products, as two floats: a high part, a multiple of 2^14 units
/// of the last bit that is kept, and a low part.
class kept_sums {
 public:
  /// `largest`: the exponent to which the adder aligns.
  FOURSCALE_D explicit kept_sums(int largest)
      : cut_(fourscale::model::detail::power_of_two(largest - 2)),
        anchor_(1.5f * fourscale::model::detail::power_of_two(largest + 12)),
        high_(anchor_) {}

  /// x truncated at 2^-23 cut_. x must have at most 8 significant bits, or be less than cut_ in magnitude.
  FOURSCALE_D float cut(float x) const {
    const float c = bit_cast<float>((bit_cast<u32>(x) & 0x8000'0000u) | bit_cast<u32>(cut_));
    return __fsub_rn(__fadd_rz(x, c), c);
  }
  /// Adds two products, of the lower and of the upper fp16 of a and b.
  FOURSCALE_D void add(u32 a, u32 b) {
    FOURSCALE_UNROLL
    for (u32 shift = 0; shift < 32; shift += 16) {
      const float kept = cut(__fmul_rn(to_float(fp16{static_cast<u16>(a >> shift)}),
                                       to_float(fp16{static_cast<u16>(b >> shift)}))),
                  high = __fadd_rn(high_, kept);
      low_ = __fadd_rn(low_, __fsub_rn(kept, __fsub_rn(high, high_)));
      high_ = high;
    }
  }
  /// The sum of all products and the accumulator c, rounded toward zero.
  FOURSCALE_D float with(float c) const {
    const float x = fabsf(c) < cut_ ? cut(c) : c, y = __fsub_rn(high_, anchor_);
    const float sum = __fadd_rn(x, y), part = __fsub_rn(sum, x),
                rest = __fadd_rn(__fsub_rn(x, __fsub_rn(sum, part)), __fsub_rn(y, part));
    return __fadd_rz(sum, __fadd_rn(rest, low_));
  }

 private:
  float cut_, anchor_, high_, low_ = 0.0f;
};

/// Adds the step to c by the adder's rule, in floats and in units of both scales. Returns false, and leaves c
/// alone, if floats might not hold the result, or zeros hide the exponent to which the adder aligns.
FOURSCALE_D inline bool add_in_floats(f16_rows const& x, float& c) {
  if (!x.of_a.certified() || !x.of_b.certified() || x.of_a.zeros() || x.of_b.zeros()) return false;
  const float scale = x.of_a.scale * x.of_b.scale;
  const float inverse = bit_cast<float>((254u << 23) - bit_cast<u32>(scale)), own = c * inverse;
  const auto moderate = [](float m) { return m >= 0x1p-100f && m < 0x1p100f; };
  if (c != 0.0f && !(moderate(fabsf(c)) && moderate(fabsf(own)))) return false;
  const row_words a(x.a, x.row_a), b(x.b, x.row_b);
  const int of_c = exponent_field(own);
  const int top_a = exponent_field(x.of_a.whole) - exponent_field(x.of_a.scale) + 1,
            top_b = exponent_field(x.of_b.whole) - exponent_field(x.of_b.scale) + 1;
  int largest = of_c;
  if (of_c < top_a + top_b) {  // else no product has a larger exponent
    largest = max(of_c, largest_fields(a, b, x.least_a, x.least_b) - 30);
    // The largest exponent that largest_fields() may have given a product with a zero.
    const int of_zeros =
        max(static_cast<int>(x.least_a) - 15 + top_b, static_cast<int>(x.least_b) - 15 + top_a);
    if (largest <= of_zeros) return false;
  }
  kept_sums sums(largest);
  for_pairs(a, b, [&](u32 p, u32 q) { sums.add(p, q); });
  c = sums.with(own) * scale;
  return true;
}

/// Reads the codes and the scale of a block into the model's form. (To memory of the caller: if the block is
/// returned by value, nvcc 13.0 lets the terms of the model's sum overwrite it.)
FOURSCALE_D inline void read_block(f16_operand const& x, i64 row, i64 step,
                                   fourscale::model::operand_row& to) {
  const int width = width_of(x.type), shift = width == 4 ? 2 : 0;
  u8 const* const from = x.codes + (row * x.steps + step) * (block_values / 8) * width;
  to.scales = block_word(x.facts[step * x.rows + row]).scale().bits;
  FOURSCALE_UNROLL
  for (int word = 0; word < 4; ++word) {
    u64 elements = 0;
#pragma unroll 1
    for (int i = 0; i < 8; ++i) {
      const int bit = (8 * word + i) * width;
      u32 code = u32{from[bit / 8]} >> (bit % 8);
      if (bit % 8 + width > 8) code |= u32{from[bit / 8 + 1]} << (8 - bit % 8);
      elements |= u64{(code & ((1u << width) - 1)) << shift} << (8 * i);
    }
    to.words[word] = elements;
  }
}

/// The accumulator after the step, by the integers of the model, for any codes, scales and c.
FOURSCALE_D inline float add_block_by_model(f16_operand const& a, f16_operand const& b, i64 row, i64 col,
                                            i64 step, float c) {
  constexpr auto fp8 = fourscale::model::mxfp8_mma;
  const fourscale::model::mma_format format{fp8.kind, fp8.block, fp8.scale, a.type, b.type};
  fourscale::model::operand_row x, y;
  read_block(a, row, step, x);
  read_block(b, col, step, y);
  return block_scaled_dot(format, x, y, c);
}

/// The same as a function that is called, which keeps the code before it fast. Not if arch::is_relocatable.
__noinline__ FOURSCALE_D inline float add_block_by_model_apart(f16_operand const& a, f16_operand const& b,
                                                               i64 row, i64 col, i64 step, float c) {
  return add_block_by_model(a, b, row, col, step, c);
}

}  // namespace detail

}  // namespace FOURSCALE_NAMESPACE::mma
