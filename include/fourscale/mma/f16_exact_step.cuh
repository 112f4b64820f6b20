// SPDX-License-Identifier: Apache-2.0
// The slow path of f16_tile.cuh: one lane, or four, add a step of 32 values to one output, exactly, whatever
// the data. It follows the adder of kind mxf8f6f4 in floats (add_in_floats), or in the integers of its model
// where floats might not hold the result (add_block_by_model). docs/exact_gemm.md has the reasons.
#pragma once

#include "f16_operand.cuh"

namespace FOURSCALE_NAMESPACE::mma {

/// A stage of an operand in shared memory: rows of 32 fp16, 64 bytes. Their 16-byte chunks are swizzled, so
/// that eight rows of one chunk touch each bank once. A stage begins at a multiple of 128 bytes.
inline constexpr u32 f16_row_bytes = 2 * block_values;
FOURSCALE_HD constexpr u32 f16_chunk_place(u32 row, u32 chunk) {
  return row * f16_row_bytes + (chunk ^ row / 2 % 4) * 16;
}

/// A row of A and a row of B in a step: what one output needs.
struct f16_rows {
  u8 const *a, *b;   ///< stages
  u32 row_a, row_b;  ///< in these stages
  block_numbers of_a, of_b;
  u32 least_a, least_b;  ///< least_field() of the elements
};

namespace detail {

/// Whether an accumulator c, not NaN, keeps all its bits when products are added: whether it is a multiple of
/// 2^-23 `whole`. Bits are compared, as under --use_fast_math a subnormal c is added like 0. It is then not
/// whole, and the model adds to it.
FOURSCALE_D inline bool is_whole(float c, float whole) {
  const float m = fabsf(c);
  return (m >= whole) | (((bit_cast<u32>((m + whole) - whole) ^ bit_cast<u32>(c)) & 0x7fff'ffffu) == 0);
}

/// Whether the adder drops nothing, neither of the products nor of the accumulator c. False for NaN.
FOURSCALE_D inline bool is_kept(block_numbers const& a, block_numbers const& b, float c) {
  const float m = fabsf(c), below = a.below * b.below, whole = a.whole * b.whole;
  return (0.25f * m < below) & (whole < below) & is_whole(c, whole);
}

FOURSCALE_D inline int exponent_field(float x) {
  return static_cast<int>(bit_cast<u32>(x) >> 23 & 0xffu) - 127;
}

/// Joins what `Lanes` neighbouring lanes have. Called by a whole warp.
template <int Lanes, class T, class Function>
FOURSCALE_D T join_lanes(T x, Function const& join) {
  FOURSCALE_UNROLL
  for (int distance = 1; distance < Lanes; distance *= 2) x = join(x, __shfl_xor_sync(~0u, x, distance));
  return x;
}

/// The elements of a row in a step, two fp16 to a word: a lane's share of them, where `Lanes` lanes have an
/// output together.
template <int Lanes>
struct row_words {
  static constexpr u32 chunks = 4 / Lanes;
  uint4 of[chunks];

  FOURSCALE_D row_words(u8 const* stage, u32 row) {
    const u32 first = threadIdx.x % Lanes * chunks;
    FOURSCALE_UNROLL
    for (u32 i = 0; i < chunks; ++i) {
      const uint4 x = *reinterpret_cast<uint4 const*>(stage + f16_chunk_place(row, first + i));
      constexpr u32 elements = reach::elements;
      of[i] = {x.x & elements, x.y & elements, x.z & elements, x.w & elements};
    }
  }
};
/// Calls f(a, b) for each word of both rows, which holds two elements.
template <int Lanes, class Function>
FOURSCALE_D void for_pairs(row_words<Lanes> const& a, row_words<Lanes> const& b, Function const& f) {
  FOURSCALE_UNROLL
  for (u32 i = 0; i < a.chunks; ++i)
    f(a.of[i].x, b.of[i].x), f(a.of[i].y, b.of[i].y), f(a.of[i].z, b.of[i].z), f(a.of[i].w, b.of[i].w);
}

/// 0xffff in each half of a word where neither fp16 is a zero, else 0.
FOURSCALE_D inline u32 both_not_zero(u32 x, u32 y) {
  const auto one_if_some = [](u32 two) { return __vminu2(two & 0x7fff'7fffu, 0x0001'0001u); };
  return (one_if_some(x) & one_if_some(y)) * 0xffffu;
}

/// The largest exponent of a product, plus 30 (twice the bias of fp16); 0 if there is none. A subnormal
/// number counts as the least normal one of its type, whose exponent field is least_a or least_b. So does a
/// zero, or with `Exact` it counts for nothing.
template <bool Exact, int Lanes>
FOURSCALE_D int largest_fields(row_words<Lanes> const& a, row_words<Lanes> const& b, u32 least_a,
                               u32 least_b) {
  constexpr u32 fields = 0x7c00'7c00u, both = 0x0400'0400u;
  u32 most = 0;
  for_pairs(a, b, [&](u32 x, u32 y) {
    u32 sum = __vmaxu2(x & fields, least_a * both) + __vmaxu2(y & fields, least_b * both);
    if constexpr (Exact) sum &= both_not_zero(x, y);
    most = __vmaxu2(most, sum);
  });
  return join_lanes<Lanes>(static_cast<int>(max(most >> 16, most & 0xffffu) >> 10),
                           [](int m, int n) { return max(m, n); });
}

/// The exponent to which the adder aligns the products and an accumulator of this exponent, without scales.
template <int Lanes>
FOURSCALE_D int largest_exponent(f16_rows const& x, row_words<Lanes> const& a, row_words<Lanes> const& b,
                                 int of_c) {
  const int top_a = exponent_field(x.of_a.whole) - exponent_field(x.of_a.scale) + 1,
            top_b = exponent_field(x.of_b.whole) - exponent_field(x.of_b.scale) + 1;
  // Mostly no lane has a product with a larger exponent than its accumulator's.
  if (!__any_sync(~0u, of_c < top_a + top_b)) return of_c;
  int largest = max(of_c, largest_fields<false>(a, b, x.least_a, x.least_b) - 30);
  // The largest exponent that this may have given a product with a zero.
  const int of_zeros =
      max(static_cast<int>(x.least_a) - 15 + top_b, static_cast<int>(x.least_b) - 15 + top_a);
  if (__any_sync(~0u, largest <= of_zeros)) {
    const int fields = largest_fields<true>(a, b, x.least_a, x.least_b);
    largest = fields == 0 ? of_c : max(of_c, fields - 30);
  }
  return largest;
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
  /// The sum of all products, of all lanes that have the output, and the accumulator c, rounded toward zero.
  template <int Lanes>
  FOURSCALE_D float with(float c) const {
    const auto add = [](float m, float n) { return __fadd_rn(m, n); };
    const float x = fabsf(c) < cut_ ? cut(c) : c, y = join_lanes<Lanes>(__fsub_rn(high_, anchor_), add);
    const float sum = __fadd_rn(x, y), part = __fsub_rn(sum, x),
                rest = __fadd_rn(__fsub_rn(x, __fsub_rn(sum, part)), __fsub_rn(y, part));
    return __fadd_rz(sum, __fadd_rn(rest, join_lanes<Lanes>(low_, add)));
  }

 private:
  float cut_, anchor_, high_, low_ = 0.0f;
};

/// Adds the step to c by the adder's rule, in floats and in units of both scales: a warp adds 32 / Lanes
/// outputs. Returns false, and leaves c alone, if floats might not hold the result.
template <int Lanes>
FOURSCALE_D bool add_in_floats(f16_rows const& x, float& c) {
  const float scale = x.of_a.scale * x.of_b.scale;
  // Bits are asked whether c is 0: under --use_fast_math a subnormal number is equal to it.
  const float inverse = bit_cast<float>((254u << 23) - bit_cast<u32>(scale)), own = c * inverse;
  const auto moderate = [](float m) { return m >= 0x1p-100f && m < 0x1p100f; };
  const bool fits = x.of_a.certified() && x.of_b.certified() && !x.of_a.zeros() && !x.of_b.zeros() &&
                    (bit_cast<u32>(c) << 1 == 0 || (moderate(fabsf(c)) && moderate(fabsf(own))));
  const row_words<Lanes> a(x.a, x.row_a), b(x.b, x.row_b);
  kept_sums sums(largest_exponent(x, a, b, max(exponent_field(own), -100)));  // that of 0 is less
  for_pairs(a, b, [&](u32 p, u32 q) { sums.add(p, q); });
  const float sum = sums.with<Lanes>(own) * scale;  // all lanes exchange, also those that do not fit
  if (fits) c = sum;
  return fits;
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
