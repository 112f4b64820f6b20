// SPDX-License-Identifier: Apache-2.0
// An operand of a GEMM with Blackwell's bits, decoded for tensor cores that know bf16 only. Its values, codes
// times their block scales without the tensor scale, are exact in bf16. With them go bounds, which prove that
// a sum of products is exact and that Blackwell's adder drops nothing. docs/exact_gemm.md has the reasons.
#pragma once

#include "../formats/real.hpp"
#include "../model/certificate.hpp"
#include "../view/block_scaled_view.hpp"

namespace FOURSCALE_NAMESPACE::mma {

inline constexpr int decoded_step = 64;  ///< values along K that one step of the MMA takes
inline constexpr int bounds_rows = 8;    ///< rows of an operand that share their bounds
inline constexpr int bounds_chunk = 8;   ///< groups of rows whose bounds of a step lie in one 16-byte chunk
inline constexpr int group_values = 16;  ///< values along K that share one exponent in the adder

/// Exponent of a scale, as a byte. The adder gives a group of 16 products the sum of both scales' exponents.
/// A scale beyond 2^-40 .. 2^40 is not multiplied into the values, which bf16 might not hold: only the
/// exponent has it. A NaN scale makes its values NaN.
using group_exponent = signed char;
inline constexpr group_exponent nan_exponent = -128;
/// Whether a scale with this exponent is multiplied into the values. False for nan_exponent.
FOURSCALE_HD constexpr bool is_in_values(int exponent) {
  return exponent <= fourscale::model::scale_parts::most && exponent >= -fourscale::model::scale_parts::most;
}

/// The maximum of N words, byte by byte.
template <int N>
FOURSCALE_D u32 largest_bytes(u32 const (&x)[N]) {
  constexpr u32 lower = 0x00ff'00ffu;
  u32 even = x[0] & lower, odd = x[0];  // the upper bytes decide, the others are masked off below
  FOURSCALE_UNROLL
  for (int i = 1; i + 1 < N; i += 2) {  // three at a time, which is one instruction from sm_90 on
    even = __vimax3_u16x2(even, x[i] & lower, x[i + 1] & lower);
    odd = __vimax3_u16x2(odd, x[i], x[i + 1]);
  }
  if constexpr (N % 2 == 0) {
    even = __vmaxu2(even, x[N - 1] & lower);
    odd = __vmaxu2(odd, x[N - 1]);
  }
  return (odd & ~lower) | even;
}
/// The largest width and the largest span of 2 N groups of rows. A word has the bounds of two groups.
template <int N>
FOURSCALE_D fourscale::model::step_bounds largest_bounds(u32 const (&two)[N]) {
  const u32 x = largest_bytes(two);
  return {static_cast<u8>(max(x & 0xff, x >> 16 & 0xff)), static_cast<u8>(max(x >> 8 & 0xff, x >> 24))};
}

/// A byte for each of eight rows in a step, such as the row's depth or width.
struct alignas(8) bytes_of_eight {
  u8 of_row[bounds_rows] = {};

  FOURSCALE_D u8 largest() const {
    constexpr u32 even = 0x00ff'00ffu;
    const uint2 all = *reinterpret_cast<uint2 const*>(of_row);  // in two words, not byte by byte
    const u32 two = __vmaxu2(__vmaxu2(all.x & even, all.y & even), __vmaxu2(all.x, all.y) >> 8 & even);
    return static_cast<u8>(max(two & 0xffffu, two >> 16));
  }
};

/// rows x k in device memory, k padded with zeros to whole steps. Each array starts at a multiple of 256
/// bytes. Each eight values along K lie in the order 0 4 1 5 2 6 3 7, that of codes_to_bf16: sums of products
/// do not depend on it. Eight rows, a group, share their bounds, which are the largest of the eight.
struct decoded_operand {
  bf16* values = nullptr;                           ///< [row][padded_k], each a code times its block scale
  group_exponent* exponents = nullptr;              ///< [row][padded_k / 16]
  fourscale::model::step_bounds* bounds = nullptr;  ///< of each group, at bounds_at()
  fourscale::model::accumulator_bounds* of_accumulators = nullptr;  ///< the same
  /// model::accumulator_bounds::depth of each row, [step][row_groups()]. Each row has its own, since rows
  /// differ in size, and so do their accumulators.
  bytes_of_eight* depths = nullptr;
  fourscale::model::step_magnitudes* magnitudes = nullptr;  ///< of each group, [step][row_groups()]
  i64 rows = 0, steps = 0;

  FOURSCALE_HD constexpr i64 padded_k() const { return steps * decoded_step; }
  FOURSCALE_HD constexpr i64 row_exponents() const { return steps * (decoded_step / group_values); }
  /// How many groups of eight rows there are, rounded up to whole chunks. The bounds of the groups behind the
  /// last row are zeros.
  template <class N>
  FOURSCALE_HD static constexpr N groups_of(N rows) {
    return round_up<N>(ceil_div<N>(rows, N{bounds_rows}), N{bounds_chunk});
  }
  FOURSCALE_HD constexpr i64 row_groups() const {
    return static_cast<i64>(groups_of<u64>(static_cast<u64>(rows)));  // unsigned, so by shifts
  }

  /// Index of the bounds of a group in a step. The bounds of eight groups in a step are 16 bytes, and those
  /// of the next step follow them. So a warp whose lanes load one step each reads contiguous memory.
  FOURSCALE_HD constexpr i64 bounds_at(i64 group, i64 step) const {
    return (group / bounds_chunk * steps + step) * bounds_chunk + group % bounds_chunk;
  }

  static constexpr i64 alignment = 256;
  FOURSCALE_HD constexpr i64 value_bytes() const { return rows * padded_k() * i64{sizeof(bf16)}; }
  FOURSCALE_HD constexpr i64 exponent_bytes() const {
    return round_up<i64>(rows * padded_k() / group_values, alignment);
  }
  FOURSCALE_HD constexpr i64 bounds_bytes() const {
    return round_up<i64>(steps * row_groups() * i64{sizeof(fourscale::model::step_bounds)}, alignment);
  }
  FOURSCALE_HD constexpr i64 accumulator_bytes() const {
    return round_up<i64>(steps * row_groups() * i64{sizeof(fourscale::model::accumulator_bounds)}, alignment);
  }
  FOURSCALE_HD constexpr i64 depth_bytes() const {
    return round_up<i64>(steps * row_groups() * i64{sizeof(bytes_of_eight)}, alignment);
  }
  FOURSCALE_HD constexpr i64 magnitude_bytes() const {
    return round_up<i64>(steps * row_groups() * i64{sizeof(fourscale::model::step_magnitudes)}, alignment);
  }
  FOURSCALE_HD constexpr i64 bytes() const {
    return round_up<i64>(value_bytes(), alignment) + exponent_bytes() + bounds_bytes() + accumulator_bytes() +
           depth_bytes() + magnitude_bytes();
  }
  /// The operand of this many rows and values along K, in bytes() from `at` on, a multiple of 256.
  FOURSCALE_H static decoded_operand in(u8* at, i64 rows, i64 k) {
    decoded_operand d;
    d.rows = rows;
    d.steps = ceil_div<i64>(k, decoded_step);
    d.values = reinterpret_cast<bf16*>(at);
    u8* behind = at + round_up<i64>(d.value_bytes(), alignment);
    d.exponents = reinterpret_cast<group_exponent*>(behind);
    behind += d.exponent_bytes();
    d.bounds = reinterpret_cast<fourscale::model::step_bounds*>(behind);
    behind += d.bounds_bytes();
    d.of_accumulators = reinterpret_cast<fourscale::model::accumulator_bounds*>(behind);
    behind += d.accumulator_bytes();
    d.depths = reinterpret_cast<bytes_of_eight*>(behind);
    behind += d.depth_bytes();
    d.magnitudes = reinterpret_cast<fourscale::model::step_magnitudes*>(behind);
    return d;
  }
};

/// One of several operands in one decoded operand, such as those of the GEMMs of a launch. They follow each
/// other along rows, each from a multiple of `row_unit` on, or along K. The part has its own `rows` and
/// `steps`, and the strides of the whole; so it is no decoded_operand, which has those of its own size.
struct decoded_part : private decoded_operand {
  using decoded_operand::of_accumulators, decoded_operand::depths, decoded_operand::magnitudes;
  using decoded_operand::rows, decoded_operand::steps;
  using decoded_operand::values, decoded_operand::exponents, decoded_operand::bounds;
  static constexpr i64 row_unit = bounds_rows * bounds_chunk;  ///< rows whose bounds of a step are one chunk
  i64 steps_of_all, groups_of_all;

  FOURSCALE_HD decoded_part(decoded_operand const& all, i64 first_row, i64 of_rows, i64 first_step,
                            i64 of_steps)
      : decoded_operand(all), steps_of_all(all.steps), groups_of_all(all.row_groups()) {
    rows = of_rows, steps = of_steps;
    values += first_row * padded_k() + first_step * decoded_step;
    exponents += first_row * row_exponents() + first_step * (decoded_step / group_values);
    const i64 bounds_first = bounds_at(first_row / bounds_rows, first_step);
    bounds += bounds_first, of_accumulators += bounds_first;
    const i64 first = first_step * row_groups() + first_row / bounds_rows;
    depths += first, magnitudes += first;
  }
  FOURSCALE_HD constexpr i64 padded_k() const { return steps_of_all * decoded_step; }
  FOURSCALE_HD constexpr i64 row_exponents() const { return steps_of_all * (decoded_step / group_values); }
  FOURSCALE_HD constexpr i64 row_groups() const { return groups_of_all; }
  FOURSCALE_HD constexpr i64 bounds_at(i64 group, i64 step) const {
    return (group / bounds_chunk * steps_of_all + step) * bounds_chunk + group % bounds_chunk;
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma
