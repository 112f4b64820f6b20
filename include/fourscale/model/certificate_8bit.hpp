// SPDX-License-Identifier: Apache-2.0
// Certificates for kind mxf8f6f4: proofs that an ordinary f32 sum has the bits of a step of 32 products of
// MXFP8, MXFP6 and MXFP4. In this kind each product is a term of its own and the adder keeps only 25 bits. A
// bound of the accumulator would certify little, so the certificate takes the accumulator itself
// (kept_accumulators). docs/exact_gemm.md derives the bounds.
#pragma once

#include "certificate.hpp"

namespace FOURSCALE_NAMESPACE::model {

namespace detail {

template <class E, class... Of>
inline constexpr bool is_one_of = (same_type<E, Of> || ...);
template <class F>
concept mx_format = is_one_of<typename F::scale, e8m0> && F::block_size == 32 &&
                    is_one_of<typename F::element, e2m1, e2m3, e3m2, e4m3, e5m2>;

}  // namespace detail

/// True for two formats that are multiplied in steps of one block of 32: MXFP8, MXFP6, and MXFP4 with one of
/// them.
template <class F, class G>
concept has_steps_of_32 =
    detail::mx_format<F> && detail::mx_format<G> && !(has_steps_of_64<F> && has_steps_of_64<G>);

template <class E>
FOURSCALE_HD constexpr element_type type_of_element() {
  if constexpr (same_type<E, e4m3>) return element_type::e4m3;
  if constexpr (same_type<E, e5m2>) return element_type::e5m2;
  if constexpr (same_type<E, e2m3>) return element_type::e2m3;
  if constexpr (same_type<E, e3m2>) return element_type::e3m2;
  return element_type::e2m1;
}
/// The types of the instruction that multiplies F by G.
template <class F, class G>
FOURSCALE_HD constexpr mma_format format_of_step() {
  if constexpr (!has_steps_of_32<F, G>) return F::block_size == 16 ? nvfp4_mma : mxfp4_mma;
  mma_format f = mxfp8_mma;
  f.a = type_of_element<typename F::element>(), f.b = type_of_element<typename G::element>();
  return f;
}

/// Facts of one element: its value and its square, the exponent of its lowest bit (`no_bit` for zero), and
/// its own exponent as the adder sees it. For NaN and infinity `finite` is false.
struct element_facts {
  static constexpr int no_bit = 200;
  float value = 0.0f;
  double square = 0.0;
  int lowest = no_bit, top = detail::zero_exponent;
  bool finite = true;

  FOURSCALE_HD constexpr element_facts() {}
  /// From the element's container, as operand_row has it.
  FOURSCALE_HD constexpr element_facts(element_type type, u32 container) {
    const detail::element x = detail::read_element(type, container);
    finite = !x.nan && !x.infinite;
    top = x.value.exponent;
    if (x.value.m == 0) return;
    const int unit = x.value.exponent - x.fraction;
    value = static_cast<float>(x.value.m) * detail::power_of_two(unit);
    square = static_cast<double>(value) * static_cast<double>(value);
    lowest = unit + detail::lowest_bit(static_cast<u32>(x.value.m < 0 ? -x.value.m : x.value.m));
  }
};

/// The reach of an element: 2^-d, where d, at most most_apart, is how far its lowest bit is above the lowest
/// one of the row in the step; 0 if the element is 0. The sum of the products of both sides' reaches is at
/// least 2^-n, where n is how far all products are above the product of both rows' lowest bits.
struct reach {
  static constexpr int most_apart = 6;

  /// 2^most_apart times the reach, a byte. `lowest`, `of_row`: exponents of lowest bits.
  FOURSCALE_HD static constexpr u32 of(int lowest, int of_row) {
    if (lowest == element_facts::no_bit) return 0;
    const int above = most_apart - (lowest - of_row);
    return 1u << (above > 0 ? above : 0);
  }
};

/// Bounds of one operand row in one step, which is a block of 32 elements under one scale.
///   width   8 * log2(Euclidean norm / lowest bit that any value has), rounded up; 0 if all values are zero
///   lowest  exponent of that lowest bit
///   top     the largest exponent that the adder sees in a value
struct block_bounds {
  u8 width = 0;
  int lowest = element_facts::no_bit, top = 2 * detail::zero_exponent;

  /// With scales of 2^-40 to 2^24 no product underflows, and no sum overflows for K up to 2^40.
  static constexpr int least_scale = -40, largest_scale = 24;
  /// Bounds with which no step is certified.
  FOURSCALE_HD static constexpr block_bounds none() { return {unbounded, -4000, 4000}; }
  FOURSCALE_HD constexpr bool is_none() const { return lowest == none().lowest; }
  /// Widens these bounds so that they also hold for the row of `other`.
  FOURSCALE_HD constexpr void add(block_bounds other) {
    width = other.width > width ? other.width : width;
    lowest = other.lowest < lowest ? other.lowest : lowest;
    top = other.top > top ? other.top : top;
  }
};

/// Collects the facts of a block's elements without their scale; under() gives the bounds with it.
class block_facts {
 public:
  FOURSCALE_HD constexpr void add(element_facts const& x) {
    squares_ += x.square;
    lowest_ = x.lowest < lowest_ ? x.lowest : lowest_;
    top_ = x.top > top_ ? x.top : top_;
    finite_ = finite_ && x.finite;
  }
  /// Adds the facts of other elements of the block. Squares of all types but E5M2 add up without rounding.
  FOURSCALE_HD constexpr void add(block_facts const& other) {
    squares_ += other.squares_;
    lowest_ = other.lowest_ < lowest_ ? other.lowest_ : lowest_;
    top_ = other.top_ > top_ ? other.top_ : top_;
    finite_ = finite_ && other.finite_;
  }
  FOURSCALE_HD constexpr block_bounds under(e8m0 scale) const {
    const int s = static_cast<int>(scale.bits) - e8m0::bias;
    if (!finite_ || scale.bits == e8m0::nan_bits) return block_bounds::none();
    const int top = top_ + s;
    if (squares_ == 0.0) return {0, element_facts::no_bit, top};
    if (s < block_bounds::least_scale || s > block_bounds::largest_scale) return block_bounds::none();
    const int width = detail::quarter_log2_up(static_cast<float>(squares_) * 0x1.00001p0f) - 8 * lowest_;
    return {static_cast<u8>(width < unbounded ? width : unbounded), lowest_ + s, top};
  }

 private:
  double squares_ = 0.0;
  int lowest_ = element_facts::no_bit, top_ = detail::zero_exponent;
  bool finite_ = true;
};

/// True if every partial sum of the step's 32 products, in any order, is exact in f32.
FOURSCALE_HD constexpr bool sums_are_exact(block_bounds a, block_bounds b) {
  return a.width + b.width < 8 * 24;
}
/// True if no product loses a bit when the products are added, unless the accumulator's exponent is larger
/// than theirs.
FOURSCALE_HD constexpr bool nothing_is_dropped(block_bounds a, block_bounds b) {
  return (a.top - a.lowest) + (b.top - b.lowest) <= 25;
}

/// The test for accumulators c of one output: have(c) is true if c loses no bit when the products are added,
/// and no product loses a bit because of c.
class kept_accumulators {
 public:
  FOURSCALE_HD constexpr kept_accumulators(block_bounds a, block_bounds b)
      : below_(power(a.lowest + b.lowest + 26)), whole_(power(a.top + b.top - 25 + 23)) {}
  FOURSCALE_HD constexpr bool have(float c) const {
    const float m = bit_cast<float>(bit_cast<u32>(c) & 0x7fff'ffffu);
    return m < below_ && (m >= whole_ || (m + whole_) - whole_ == m);
  }
  FOURSCALE_HD constexpr float below() const { return below_; }
  FOURSCALE_HD constexpr float whole() const { return whole_; }

 private:
  FOURSCALE_HD static constexpr float power(int exponent) {
    return detail::power_of_two(exponent < -126 ? -126 : (exponent > 127 ? 127 : exponent));
  }
  float below_;  ///< below it, c's exponent is at most 25 above the lowest bit of a product
  float whole_;  ///< 2^23 times the lowest bit that the adder keeps: m + whole_ rounds m to that bit
};

}  // namespace FOURSCALE_NAMESPACE::model
