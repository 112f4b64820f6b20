// SPDX-License-Identifier: Apache-2.0
// When does an ordinary sum in f32 have the bits of a block-scaled MMA? A certificate says so of a step, from
// two bytes for each operand's row that are found while it is decoded. docs/exact_gemm.md derives the bounds.
#pragma once

#include "../formats/convert.hpp"
#include "../ptx/arith.hpp"
#include "block_scaled_dot.hpp"

namespace FOURSCALE_NAMESPACE::model {

/// The formats whose step is 64 values of E2M1: NVFP4 and MXFP4.
template <class F>
inline constexpr bool has_steps_of_64 = same_type<typename F::element, e2m1> &&
                                        ((F::block_size == 16 && same_type<typename F::scale, e4m3>) ||
                                         (F::block_size == 32 && same_type<typename F::scale, e8m0>));

/// What is known of the 64 values of one row of an operand in one step along K, each a code times its scale:
///   width   8 * log2(Euclidean norm / lowest bit that any of them has), rounded up; 0 if all are zero
///   span    how many bits lie between what may be largest in the sum and the lowest bit that must not be
///           lost: of the values, of the accumulator, and of the accumulator among the scales
struct step_bounds {
  u8 width = 0, span = 0;

  /// Makes them hold for both.
  FOURSCALE_HD constexpr void add(step_bounds other) {
    width = other.width > width ? other.width : width;
    span = other.span > span ? other.span : span;
  }
};
inline constexpr u8 unbounded = 255;

/// What says of one output, whose accumulator is at hand, that the MMA drops no bit in a step:
///   span   as that of step_bounds, without what norms say of the accumulator
///   depth  how far the lowest bit of the row's values in the step is below 2^40
struct accumulator_bounds {
  u8 span = 0, depth = 0;
};

/// Every partial sum of the step's 64 products, in any order, is exact in f32.
FOURSCALE_HD constexpr bool sums_are_exact(step_bounds a, step_bounds b) {
  return a.width + b.width < 8 * 24;
}
/// The MMA drops no bit, neither of a product nor of the accumulator; and the sum of four blocks and the
/// accumulator is exact in double.
FOURSCALE_HD constexpr bool nothing_is_dropped(step_bounds a, step_bounds b) { return a.span + b.span <= 35; }

namespace detail {

/// The exponent of x > 0, finite and normal.
FOURSCALE_HD constexpr int exponent_of(float x) { return static_cast<int>(bit_cast<u32>(x) >> 23) - 127; }
/// 4 * log2(x) for x > 0, rounded up. Of x = m * 2^e, 1 <= m < 2, each addition carries to the exponent where
/// m > `limit`.
FOURSCALE_HD constexpr int quarter_log2_up(float x) {
  constexpr float limits[] = {1.0f, 1.1892071f, 1.4142135f, 1.6817928f};
  u32 sum = 0;
  for (const float limit : limits)
    sum += (bit_cast<u32>(x) + (bit_cast<u32>(2.0f) - 1 - bit_cast<u32>(limit))) >> 23;
  return static_cast<int>(sum) - 4 * 127;
}
/// Position of the lowest set bit of x > 0. A float has it in its exponent: GPUs find that faster.
FOURSCALE_HD constexpr int lowest_bit(u32 x) { return exponent_of(static_cast<float>(x & (0u - x))); }
/// Exponent of the lowest bit of a normal float with these bits, but for the sign.
FOURSCALE_HD constexpr int lowest_bit_of_float(u32 bits) {
  return static_cast<int>(bits >> 23) - 127 - 23 + lowest_bit(bits | 0x80'0000u);
}
/// 2^exponent, a normal number.
FOURSCALE_HD constexpr float power_of_two(int exponent) {
  return bit_cast<float>(static_cast<u32>(exponent + 127) << 23);
}

}  // namespace detail

/// Scales alone make the MMA drop no bit, neither of a product nor of the accumulator.
FOURSCALE_HD constexpr bool scales_drop_nothing(u32 spans) { return spans <= 35; }
FOURSCALE_HD constexpr bool scales_drop_nothing(accumulator_bounds a, accumulator_bounds b) {
  return scales_drop_nothing(u32{a.span} + b.span);
}
/// Of a row of A and one of B whose depths have this sum, the limit of accumulators: 2^36 times the products'
/// lowest bit. Where the magnitude is below, and scales drop nothing, the MMA drops nothing: the exponent is
/// at most 35 more than that of the lowest bit.
FOURSCALE_HD constexpr float accumulator_limit(u32 depths) {
  return bit_cast<float>((116u + 127u - depths) << 23);
}
FOURSCALE_HD constexpr float largest_kept(accumulator_bounds a, accumulator_bounds b) {
  return scales_drop_nothing(a, b) ? accumulator_limit(u32{a.depth} + b.depth) : 0.0f;
}

/// What is known of 16 codes of E2M1, in halves: the bits that any magnitude has, and the sum of all squares.
struct code_facts {
  u32 bits = 0, squares = 0;

  FOURSCALE_HD constexpr void add(u32 code) {
    const u32 magnitude = static_cast<u32>(detail::e2m1_halves(code & 7u));
    bits |= magnitude;
    squares += magnitude * magnitude;
  }
  FOURSCALE_HD constexpr void add(code_facts const& other) {
    bits |= other.bits;
    squares += other.squares;
  }
};

/// A scale as a number without its sign, which the MMA ignores, or 1 if it is far; its exponent in the adder.
struct scale_parts {
  static constexpr int most = 40;  ///< scales from 2^-most to 2^most: nothing over- or underflows
  float value = 0.0f;
  int exponent = detail::zero_exponent;
  bool nan = false, far = false;  ///< far: beyond `most`, as E4M3 never is

  FOURSCALE_HD constexpr explicit scale_parts(e4m3 scale) {
    const u32 magnitude = scale.bits & 0x7fu;
    nan = magnitude == e4m3::nan_bits;
    value = decode(e4m3{static_cast<u8>(magnitude)});
    const int of_value = detail::exponent_of(value), least = 1 - e4m3::bias;
    if (magnitude != 0) exponent = of_value > least ? of_value : least;
  }
  FOURSCALE_HD constexpr explicit scale_parts(e8m0 scale)
      : exponent(static_cast<int>(scale.bits) - e8m0::bias),
        nan(scale.bits == e8m0::nan_bits),
        far(exponent > most || exponent < -most) {
    value = far && !nan ? 1.0f : decode(scale);
  }
};

/// What is known of values of a row under block scales, each a code times its scale: the sum of their
/// squares, the exponent of the lowest bit that one of them has, and the largest exponent of their scales.
/// `squares` is NaN where a scale is, and infinite where one is far from 1 and its codes are not all zero:
/// nothing is then certified.
struct value_facts {
  float squares = 0.0f;
  int lowest = scale_parts::most, largest_scale = detail::zero_exponent;

  FOURSCALE_HD constexpr value_facts() {}
  /// The facts of 16 values under one scale, which is a power of two times at most four bits.
  FOURSCALE_HD constexpr value_facts(code_facts const& codes, scale_parts const& scale) {
    const bool some = codes.bits != 0 && scale.value != 0.0f;
    if (!scale.nan) largest_scale = scale.exponent;
    const float bits = some ? scale.value * static_cast<float>(codes.bits)  // at most eight
                            : detail::power_of_two(scale_parts::most + 1);
    lowest = detail::lowest_bit_of_float(bit_cast<u32>(bits)) - 1;
    const float half = 0.5f * scale.value;
    squares = some && scale.far ? infinite() : static_cast<float>(codes.squares) * (half * half);  // 20 bits
  }
  /// And of other values.
  FOURSCALE_HD constexpr void add(value_facts const& other) {
    squares += other.squares;
    lowest = other.lowest < lowest ? other.lowest : lowest;
    largest_scale = other.largest_scale > largest_scale ? other.largest_scale : largest_scale;
  }
  FOURSCALE_HD static constexpr float infinite() { return bit_cast<float>(float_inf_bits); }
};

/// A closer look at the values of a step, where `width` is too large: for each of its 64 places the largest
/// magnitude there, of rows that share these, over the lowest bit that the row's own values have in the step.
/// Whole numbers in units of 2^magnitude_exponent(), rounded up; the order of places is one's own.
struct alignas(16) step_magnitudes {
  u8 codes[64] = {};
};
/// Of the largest width of the rows: magnitudes are below 2^(width / 8), and so at most 235 units.
FOURSCALE_HD constexpr u32 magnitude_exponent(u32 width) { return width < 64 ? 0 : width / 8 - 7; }

/// The sum over places of the products of two rows' magnitudes bounds every partial sum. Where it is below
/// this, with these exponents, all of these are below 2^24 times the lowest bits, and exact. 0 if a width is
/// `unbounded`.
FOURSCALE_HD constexpr u32 exact_below(u32 exponent_a, u32 exponent_b) {
  return 0xff'ffffu >> exponent_a >> exponent_b;
}
static_assert(exact_below(magnitude_exponent(unbounded), 0) == 0);

/// The same of a sum over places, with the largest widths of both rows' eights.
FOURSCALE_HD constexpr bool sums_are_exact(u32 of_magnitudes, u32 width_a, u32 width_b) {
  return of_magnitudes < exact_below(magnitude_exponent(width_a), magnitude_exponent(width_b));
}
FOURSCALE_HD constexpr bool sums_are_exact(step_magnitudes const& a, u32 width_a, step_magnitudes const& b,
                                           u32 width_b) {
  u32 sum = 0;
  for (int i = 0; i < 64; ++i) sum += u32{a.codes[i]} * b.codes[i];
  return sums_are_exact(sum, width_a, width_b);
}

/// Codes of the eight magnitudes of E2M1 times a scale, in units of 2^unit; a byte each, in the order of
/// E2M1's own. Those of magnitudes beyond 255 units are of no use, and the others are not changed by them.
struct magnitude_codes {
  u32 low = 0, high = 0;

  FOURSCALE_HD constexpr magnitude_codes(float scale, int unit) {
    const float half = scale * detail::power_of_two(-unit - 1);
    const auto rounded_up = [&](float halves) {  // in the lowest byte
      return bit_cast<u32>(ptx::fma_rp_f32(halves, half, 0x1p23f));
    };
    const auto pair = [&](float first, float second) {
      return ptx::prmt_b32(rounded_up(first), rounded_up(second), 0x0040u);
    };
    low = ptx::prmt_b32(rounded_up(1) << 8, pair(2, 3), 0x5410u);
    high = ptx::prmt_b32(pair(4, 6), pair(8, 12), 0x5410u);
  }
};

/// No step is certified from this one on: K beyond 2^27.
inline constexpr i64 most_steps = i64{1} << 21;

/// The bounds of a step for outputs whose accumulators are at hand.
FOURSCALE_HD constexpr accumulator_bounds bounds_of_accumulators(value_facts const& step,
                                                                 value_facts const& before) {
  if (!(step.squares + before.squares < value_facts::infinite())) return {unbounded, 0};
  const int largest = step.largest_scale, depth = 40 - step.lowest;
  int span = 0;  // values may all have their lowest bit above the scales' exponents
  if (step.squares > 0.0f && largest - step.lowest > span) span = largest - step.lowest;
  if (before.squares > 0.0f && largest - before.lowest > span) span = largest - before.lowest;
  return {static_cast<u8>(span < unbounded ? span : unbounded), static_cast<u8>(depth > 0 ? depth : 0)};
}

/// step_bounds::width.
FOURSCALE_HD constexpr u8 width_of(value_facts const& step) {
  const int width =
      detail::quarter_log2_up(step.squares * 0x1.00001p0f) - 8 * step.lowest;  // far below 0 for 0
  const bool bounded = step.squares < value_facts::infinite() && width < unbounded;
  return static_cast<u8>(!bounded ? unbounded : width > 0 ? width : 0);
}

/// Both bounds of a step.
struct known_bounds {
  step_bounds step;
  accumulator_bounds of_accumulators;
};

/// The bounds of a step, whose width_of() is `width`, and of all values of the row before it. Sums of squares
/// are rounded to nearest; the bounds have room for that.
FOURSCALE_HD constexpr known_bounds bounds_of_step(value_facts const& step, value_facts const& before,
                                                   u8 width) {
  const accumulator_bounds of_accumulators = bounds_of_accumulators(step, before);
  if (!(step.squares + before.squares < value_facts::infinite()))
    return {{unbounded, unbounded}, of_accumulators};
  int span = of_accumulators.span;
  // The accumulator is at most 4/3 of the product of the norms before this step: an exponent more.
  if (step.squares > 0.0f && before.squares > 0.0f) {
    const int of_accumulator = (detail::exponent_of(before.squares) + 2) / 2 + 1 - step.lowest;
    if (of_accumulator > span) span = of_accumulator;
  }
  return {{width, static_cast<u8>(span < unbounded ? span : unbounded)}, of_accumulators};
}

/// Walks along a row of an operand, and bounds its steps. Rows of NVFP4 and MXFP4.
class row_bounds {
 public:
  /// The next 64 values: four times 16 codes, and the scale of each. A NaN among the scales bounds nothing
  /// from here on; nor do scales that are far from 1.
  FOURSCALE_HD constexpr known_bounds next(code_facts const (&codes)[4], scale_parts const (&scales)[4]) {
    value_facts step;
    for (int group = 0; group < 4; ++group) step.add(value_facts(codes[group], scales[group]));
    if (++steps_ > most_steps) step.squares = value_facts::infinite();
    const known_bounds bounds = bounds_of_step(step, before_, width_of(step));
    before_.add(step);
    return bounds;
  }

 private:
  value_facts before_;
  i64 steps_ = 0;
};

}  // namespace FOURSCALE_NAMESPACE::model
