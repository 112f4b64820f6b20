// SPDX-License-Identifier: Apache-2.0
// When does an ordinary sum in f32 have the bits of a block-scaled MMA? A certificate says so of a step, from
// two bytes for each operand's row that are found while it is decoded. docs/exact_gemm.md derives the bounds.
#pragma once

#include "block_scaled_dot.hpp"

namespace FOURSCALE_NAMESPACE::model {

/// Of one row of an operand and the 64 values of one step along K, each a code times its scale:
///   width   8 * log2(Euclidean norm / lowest bit that any of them has), rounded up; 0 if all are zero
///   span    how many bits lie between what may be largest in the sum and the lowest bit that must not be
///           lost: of the values, of the accumulator, and of the accumulator among the scales
struct step_bounds {
  u8 width = 0, span = 0;
};
inline constexpr u8 unbounded = 255;

/// Every partial sum of the step's 64 products, in any order, is exact in f32.
FOURSCALE_HD constexpr bool sums_are_exact(step_bounds a, step_bounds b) {
  return a.width + b.width < 8 * 24;
}
/// The MMA drops no bit, neither of a product nor of the accumulator; and the sum of four blocks and the
/// accumulator is exact in double.
FOURSCALE_HD constexpr bool nothing_is_dropped(step_bounds a, step_bounds b) { return a.span + b.span <= 35; }

namespace detail {

/// The exponent of x > 0, finite and normal.
FOURSCALE_HD constexpr int exponent_of(double x) {
  return static_cast<int>(bit_cast<u64>(x) >> 52 & 0x7ffu) - 1023;
}
/// 4 * log2(x) for x > 0, rounded up.
FOURSCALE_HD constexpr int quarter_log2_up(double x) {
  const int exponent = exponent_of(x);
  const double m =
      bit_cast<double>((bit_cast<u64>(x) & 0xf'ffff'ffff'ffffu) | u64{1023} << 52);  // 1 <= m < 2
  return 4 * exponent + (m > 1.0) + (m > 1.1892071150027210) + (m > 1.4142135623730950) +
         (m > 1.6817928305074290);
}

/// 2^exponent, a normal number.
FOURSCALE_HD constexpr double power_of_two(int exponent) {
  return bit_cast<double>(static_cast<u64>(exponent + 1023) << 52);
}

}  // namespace detail

/// Of 16 codes of E2M1, in halves: the bits that any magnitude has, and the sum of all squares.
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

/// Walks along a row of an operand, and bounds its steps. Rows of NVFP4 and MXFP4.
class row_bounds {
 public:
  /// The next 64 values: four times 16 codes, and the scales of four blocks or of two. A NaN among the scales
  /// bounds nothing from here on; nor do scales that are far from 1.
  template <int Scales>
  FOURSCALE_HD constexpr step_bounds next(code_facts const (&codes)[4], scale_type type,
                                          u8 const (&scales)[Scales]) {
    int largest_scale = detail::zero_exponent, lowest = far;
    double squares = 0.0;
    for (int group = 0; group < 4; ++group) {
      const u32 code = scales[group * Scales / 4];
      lost_ = lost_ || detail::is_nan_scale(type, code);
      const detail::factor scale = detail::split_scale(type, code);
      if (scale.m == 0) continue;
      const int unit = scale.exponent - (type == scale_type::ue8m0 ? 0 : e4m3::mantissa_bits) - 1;
      largest_scale = scale.exponent > largest_scale ? scale.exponent : largest_scale;
      lost_ = lost_ || largest_scale > far || unit < -far;
      if (lost_ || codes[group].bits == 0) continue;
      const u32 bits = static_cast<u32>(scale.m) * (codes[group].bits & (0u - codes[group].bits));
      const int bit = unit + detail::highest_bit(bits & (0u - bits));
      lowest = bit < lowest ? bit : lowest;
      const double value = static_cast<double>(scale.m) * detail::power_of_two(unit);
      squares += static_cast<double>(codes[group].squares) * (value * value);
    }
    lost_ = lost_ || ++steps_ > most_steps;
    if (lost_) return {unbounded, unbounded};
    int width = 0, span = 0;
    const auto at_least = [](int& bound, int x) { bound = x > bound ? x : bound; };
    if (squares > 0.0) {
      at_least(width, detail::quarter_log2_up(squares) - 8 * lowest);
      at_least(span, largest_scale - lowest);
      // The accumulator is at most 4/3 of the product of the norms before this step: an exponent more.
      if (squares_ > 0.0) at_least(span, (detail::exponent_of(squares_) + 2) / 2 + 1 - lowest);
    }
    if (squares_ > 0.0) at_least(span, largest_scale - lowest_);
    squares_ += squares;
    lowest_ = lowest < lowest_ ? lowest : lowest_;
    return {static_cast<u8>(width < unbounded ? width : unbounded),
            static_cast<u8>(span < unbounded ? span : unbounded)};
  }

 private:
  static constexpr int far = 40;  ///< exponents within -far .. far: nothing over- or underflows
  static constexpr i64 most_steps = i64{1} << 21;  ///< K up to 2^27
  double squares_ = 0.0;                           ///< of all values before
  int lowest_ = far;                               ///< bit of these
  i64 steps_ = 0;
  bool lost_ = false;
};

}  // namespace FOURSCALE_NAMESPACE::model
