// SPDX-License-Identifier: Apache-2.0
// Certificates: proofs that an ordinary f32 sum of a step's products has the bits of the block-scaled MMA.
// This file is for steps of 64 (NVFP4 and MXFP4); certificate_8bit.hpp is for steps of 32. A certificate
// compares bounds of a row of A with those of a row of B. The bounds are two bytes for a row and a step,
// found while the operand is decoded. docs/exact_gemm.md derives them.
#pragma once

#include "../formats/convert.hpp"
#include "../ptx/arith.hpp"
#include "block_scaled_dot.hpp"

namespace FOURSCALE_NAMESPACE::model {

/// True for the formats whose step along K is 64 values of E2M1: NVFP4 and MXFP4.
template <class F>
inline constexpr bool has_steps_of_64 = same_type<typename F::element, e2m1> &&
                                        ((F::block_size == 16 && same_type<typename F::scale, e4m3>) ||
                                         (F::block_size == 32 && same_type<typename F::scale, e8m0>));

/// Bounds of the 64 values of one operand row in one step along K. A value is a code times its scale.
///   width   8 * log2(Euclidean norm / lowest bit that any value has), rounded up; 0 if all values are zero
///   span    bits that the adder must keep: the largest distance from the scales to the values' lowest bit,
///           from the accumulator to it, and from the scales to the accumulator's lowest bit
struct step_bounds {
  u8 width = 0, span = 0;

  /// Widens these bounds so that they also hold for the row of `other`.
  FOURSCALE_HD constexpr void add(step_bounds other) {
    width = other.width > width ? other.width : width;
    span = other.span > span ? other.span : span;
  }
};
inline constexpr u8 unbounded = 255;

/// Bounds of an operand row in one step, for a kernel that compares its accumulators with
/// accumulator_limit().
///   span   as step_bounds::span, but without the distance from the accumulator to the values
///   depth  40 - exponent of the lowest bit of the row's values in the step
struct accumulator_bounds {
  u8 span = 0, depth = 0;
};

/// True if every partial sum of the step's 64 products, in any order, is exact in f32.
FOURSCALE_HD constexpr bool sums_are_exact(step_bounds a, step_bounds b) {
  return a.width + b.width < 8 * 24;
}
/// True if the MMA drops no bit of a product or of the accumulator. The sum of four blocks of 16 and the
/// accumulator is then also exact in double.
FOURSCALE_HD constexpr bool nothing_is_dropped(step_bounds a, step_bounds b) { return a.span + b.span <= 35; }

namespace detail {

/// The exponent of x > 0, finite and normal.
FOURSCALE_HD constexpr int exponent_of(float x) { return static_cast<int>(bit_cast<u32>(x) >> 23) - 127; }
/// 4 * log2(x) for x > 0, rounded up. With x = m * 2^e, 1 <= m < 2, each of the four additions carries into
/// the exponent field where m > `limit`.
FOURSCALE_HD constexpr int quarter_log2_up(float x) {
  constexpr float limits[] = {1.0f, 1.1892071f, 1.4142135f, 1.6817928f};
  u32 sum = 0;
  for (const float limit : limits)
    sum += (bit_cast<u32>(x) + (bit_cast<u32>(2.0f) - 1 - bit_cast<u32>(limit))) >> 23;
  return static_cast<int>(sum) - 4 * 127;
}
/// Position of the lowest set bit of x > 0, read from the exponent of a float: GPUs find it faster that way.
FOURSCALE_HD constexpr int lowest_bit(u32 x) { return exponent_of(static_cast<float>(x & (0u - x))); }
/// Exponent of the lowest set bit of the normal float with these bits. The sign bit must be 0.
FOURSCALE_HD constexpr int lowest_bit_of_float(u32 bits) {
  return static_cast<int>(bits >> 23) - 127 - 23 + lowest_bit(bits | 0x80'0000u);
}
/// 2^exponent; the result must be a normal number.
FOURSCALE_HD constexpr float power_of_two(int exponent) {
  return bit_cast<float>(static_cast<u32>(exponent + 127) << 23);
}

}  // namespace detail

/// True if the adder drops no bit of a product or of the accumulator as long as the scales have the largest
/// exponent. `spans` is the sum of accumulator_bounds::span of a row of A and of a row of B.
FOURSCALE_HD constexpr bool scales_drop_nothing(u32 spans) { return spans <= 35; }
FOURSCALE_HD constexpr bool scales_drop_nothing(accumulator_bounds a, accumulator_bounds b) {
  return scales_drop_nothing(u32{a.span} + b.span);
}
/// The limit that an accumulator's magnitude must stay below: 2^36 times the lowest bit of the products of a
/// row of A and a row of B. `depths` is the sum of the two rows' depths. Below the limit the accumulator's
/// exponent is at most 35 above that lowest bit; if also scales_drop_nothing(), the MMA drops nothing.
FOURSCALE_HD constexpr float accumulator_limit(u32 depths) {
  return bit_cast<float>((116u + 127u - depths) << 23);
}
/// The same limit, or 0 where scales_drop_nothing() is false.
FOURSCALE_HD constexpr float largest_kept(accumulator_bounds a, accumulator_bounds b) {
  return scales_drop_nothing(a, b) ? accumulator_limit(u32{a.depth} + b.depth) : 0.0f;
}

/// Facts of 16 codes of E2M1, in units of 1/2: the bits that any magnitude has, and the sum of all squares.
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

/// A block scale taken apart: its magnitude (the MMA ignores the sign), or 1 if the scale is far, and its
/// exponent as the adder sees it.
struct scale_parts {
  static constexpr int most = 40;  ///< from 2^-most to 2^most no value or product over- or underflows
  float value = 0.0f;
  int exponent = detail::zero_exponent;
  bool nan = false, far = false;  ///< far: outside 2^-most .. 2^most; E4M3 never is

  FOURSCALE_HD constexpr explicit scale_parts(e4m3 scale)
      : scale_parts(scale, decode(e4m3{static_cast<u8>(scale.bits & 0x7fu)})) {}
  /// The same where the scale's magnitude is already decoded.
  FOURSCALE_HD constexpr scale_parts(e4m3 scale, float of_magnitude) : value(of_magnitude) {
    const u32 magnitude = scale.bits & 0x7fu;
    nan = magnitude == e4m3::nan_bits;
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

/// Facts of some values of a row, each a code times its block scale: the sum of their squares, the exponent
/// of the lowest bit that any of them has, and the largest exponent of their scales. `squares` is not finite,
/// and nothing is certified, if a scale is NaN, or far from 1 with codes that are not all zero.
struct value_facts {
  float squares = 0.0f;
  int lowest = scale_parts::most, largest_scale = detail::zero_exponent;

  FOURSCALE_HD constexpr value_facts() {}
  /// The facts of 16 values under one scale, which is a power of two times at most four bits.
  FOURSCALE_HD constexpr value_facts(code_facts const& codes, scale_parts const& scale) {
    const bool some = codes.bits != 0 && scale.value != 0.0f;
    if (!scale.nan) largest_scale = scale.exponent;
    const float bits = some ? scale.value * static_cast<float>(codes.bits)  // at most eight significant bits
                            : detail::power_of_two(scale_parts::most + 1);
    lowest = detail::lowest_bit_of_float(bit_cast<u32>(bits)) - 1;
    const float half = 0.5f * scale.value;
    squares = some && scale.far ? infinite() : static_cast<float>(codes.squares) * (half * half);  // 20 bits
  }
  /// Adds the facts of other values of the row. The sum of squares is rounded to nearest.
  FOURSCALE_HD constexpr void add(value_facts const& other) {
    squares += other.squares;
    lowest = other.lowest < lowest ? other.lowest : lowest;
    largest_scale = other.largest_scale > largest_scale ? other.largest_scale : largest_scale;
  }
  FOURSCALE_HD static constexpr float infinite() { return bit_cast<float>(float_inf_bits); }
};

/// A finer certificate for steps where `width` is too large: for each of the 64 places along K the largest
/// magnitude there among the rows that share this struct, over the lowest bit that the row's own values have
/// in the step. Whole numbers of 2^magnitude_exponent(), rounded up. Any order of the places, the same for A
/// and B.
struct alignas(16) step_magnitudes {
  u8 codes[64] = {};
};
/// The exponent of that unit, from the largest width of the rows. Magnitudes are at most 2^(width / 8), and
/// so at most 235 units.
FOURSCALE_HD constexpr u32 magnitude_exponent(u32 width) { return width < 64 ? 0 : width / 8 - 7; }

/// The sum over places of the products of two rows' magnitude codes bounds every partial sum. If it is below
/// this limit, all partial sums are below 2^24 times the lowest bits, and exact in f32. The arguments are the
/// magnitude_exponent() of both sides. The limit is 0 if a width is `unbounded`.
FOURSCALE_HD constexpr u32 exact_below(u32 exponent_a, u32 exponent_b) {
  return 0xff'ffffu >> exponent_a >> exponent_b;
}
static_assert(exact_below(magnitude_exponent(unbounded), 0) == 0);

/// True if the step's sums are exact: `of_magnitudes` is that sum over places, `width_a` and `width_b` are
/// the largest widths of the rows that share each side's codes.
FOURSCALE_HD constexpr bool sums_are_exact(u32 of_magnitudes, u32 width_a, u32 width_b) {
  return of_magnitudes < exact_below(magnitude_exponent(width_a), magnitude_exponent(width_b));
}
FOURSCALE_HD constexpr bool sums_are_exact(step_magnitudes const& a, u32 width_a, step_magnitudes const& b,
                                           u32 width_b) {
  u32 sum = 0;
  for (int i = 0; i < 64; ++i) sum += u32{a.codes[i]} * b.codes[i];
  return sums_are_exact(sum, width_a, width_b);
}

/// The finest certificate: of one row of A by one row of B, from the magnitudes of its own 64 products and
/// from the lowest bits that these may have. block_floors has lower bounds of the exponents of the lowest
/// bits of a row's values, one for each block of 16: 64 + the exponent in 16 bits, two in a word.
struct block_floors {
  u32 first = 0, last = 0;

  FOURSCALE_HD constexpr u32 of_block(int block) const {
    return (block < 2 ? first : last) >> (block % 2 * 16) & 0xffffu;
  }
};
/// `exponents`: those of the four scales, a byte each, at most 40 unless the block is all zeros; `lowest`:
/// the exponent of the lowest bit of all 64 values. A code is a multiple of 1/2, and a scale of 2^-3 times
/// the power of two of its exponent.
FOURSCALE_HD constexpr block_floors floors_of_blocks(u32 exponents, int lowest) {
  u32 floors[4] = {};
  for (int block = 0; block < 4; ++block) {
    const int of_scale = static_cast<signed char>(exponents >> (8 * block) & 0xffu) - 4,
              floor = of_scale > lowest ? of_scale : lowest;
    floors[block] = static_cast<u32>(64 + (floor < scale_parts::most ? floor : scale_parts::most));
  }
  return {floors[0] | floors[1] << 16, floors[2] | floors[3] << 16};
}
/// The bits of the float 2^(24 + least - 128) * (1 - 2^-12), for a sum `least` of two floors.
FOURSCALE_HD constexpr u32 bits_of_exact_sum(u32 least) { return (least + 22) << 23 | 0x7f'f000u; }
/// True if every partial sum of the step's products, in any order, is exact in f32. `sum`: the sum of their
/// magnitudes, too low by less than 2^-12 of it. False for NaN.
FOURSCALE_HD constexpr bool products_are_exact(float sum, block_floors const& a, block_floors const& b) {
  const block_floors floors{a.first + b.first, a.last + b.last};
  u32 least = floors.of_block(0);
  for (int block = 1; block < 4; ++block)
    least = floors.of_block(block) < least ? floors.of_block(block) : least;
  return bit_cast<u32>(sum) < bits_of_exact_sum(least);
}

/// The codes of the eight E2M1 magnitudes under one scale, in units of 2^unit, rounded up: one byte each, in
/// the order of E2M1's own. A magnitude beyond 255 units gives a useless byte and leaves the others intact.
struct magnitude_codes {
  u32 low = 0, high = 0;

  FOURSCALE_HD constexpr magnitude_codes(float scale, int unit) {
    const float half = scale * detail::power_of_two(-unit - 1);
    const auto rounded_up = [&](float halves) {  // the code is the lowest byte
      return bit_cast<u32>(ptx::fma_rp_f32(halves, half, 0x1p23f));
    };
    const auto pair = [&](float first, float second) {
      return ptx::prmt_b32(rounded_up(first), rounded_up(second), 0x0040u);
    };
    low = ptx::prmt_b32(rounded_up(1) << 8, pair(2, 3), 0x5410u);
    high = ptx::prmt_b32(pair(4, 6), pair(8, 12), 0x5410u);
  }
};

/// Steps from this index on (K beyond 2^27) have no certificate.
inline constexpr i64 most_steps = i64{1} << 21;

/// The accumulator_bounds of a step. `before` has the facts of the row's values in all earlier steps.
FOURSCALE_HD constexpr accumulator_bounds bounds_of_accumulators(value_facts const& step,
                                                                 value_facts const& before) {
  if (!(step.squares + before.squares < value_facts::infinite())) return {unbounded, 0};
  const int largest = step.largest_scale, depth = 40 - step.lowest;
  int span = 0;  // the values' lowest bits may all lie above the scales' exponents
  if (step.squares > 0.0f && largest - step.lowest > span) span = largest - step.lowest;
  if (before.squares > 0.0f && largest - before.lowest > span) span = largest - before.lowest;
  return {static_cast<u8>(span < unbounded ? span : unbounded), static_cast<u8>(depth > 0 ? depth : 0)};
}

/// The step_bounds::width of a step.
FOURSCALE_HD constexpr u8 width_of(value_facts const& step) {
  const int width =
      detail::quarter_log2_up(step.squares * 0x1.00001p0f) - 8 * step.lowest;  // far below 0 if squares = 0
  const bool bounded = step.squares < value_facts::infinite() && width < unbounded;
  return static_cast<u8>(!bounded ? unbounded : width > 0 ? width : 0);
}

/// The bounds of a step for both certificates: with and without a look at the accumulators.
struct known_bounds {
  step_bounds step;
  accumulator_bounds of_accumulators;
};

/// The bounds of a step from its facts, the facts of all values of the row before it, and its width_of().
/// Sums of squares are rounded to nearest; the bounds leave room for that error.
FOURSCALE_HD constexpr known_bounds bounds_of_step(value_facts const& step, value_facts const& before,
                                                   u8 width) {
  const accumulator_bounds of_accumulators = bounds_of_accumulators(step, before);
  if (!(step.squares + before.squares < value_facts::infinite()))
    return {{unbounded, unbounded}, of_accumulators};
  int span = of_accumulators.span;
  // The accumulator is at most 4/3 of the product of the norms before this step: one exponent more.
  if (step.squares > 0.0f && before.squares > 0.0f) {
    const int of_accumulator = (detail::exponent_of(before.squares) + 2) / 2 + 1 - step.lowest;
    if (of_accumulator > span) span = of_accumulator;
  }
  return {{width, static_cast<u8>(span < unbounded ? span : unbounded)}, of_accumulators};
}

/// Walks along one row of an NVFP4 or MXFP4 operand and gives the bounds of each step. One object for a row;
/// call next() for the steps in order.
class row_bounds {
 public:
  /// The bounds of the next 64 values: four groups of 16 codes and the scale of each. From a NaN scale on, or
  /// a scale far from 1 with codes that are not all zero, no step of the row has bounds.
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
