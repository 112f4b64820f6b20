// SPDX-License-Identifier: Apache-2.0
// std::numeric_limits of the formats; opt-in, because it brings <limits>.
#pragma once

#include <limits>

#include "e1m2.hpp"
#include "e2m1.hpp"
#include "e2m3.hpp"
#include "e3m2.hpp"
#include "e4m3.hpp"
#include "e5m2.hpp"
#include "e8m0.hpp"

namespace FOURSCALE_NAMESPACE::detail {

FOURSCALE_H constexpr int floor_div(int a, int b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/// Every number follows from the fields that the format states (C++20 [numeric.limits.members]).
template <format F>
struct limits {
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = F::is_signed;
  static constexpr bool is_integer = false, is_exact = false;
  static constexpr bool has_infinity = F::has_infinity;
  static constexpr bool has_quiet_NaN = F::has_nan;
  static constexpr bool has_signaling_NaN = false;
  static constexpr bool is_iec559 = false, is_bounded = true, is_modulo = false;
  static constexpr bool traps = false, tinyness_before = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;

  static constexpr int radix = 2;
  static constexpr int digits = F::mantissa_bits + 1;
  static constexpr int digits10 = floor_div(F::mantissa_bits * 30103, 100000);
  static constexpr int max_digits10 = 2 + floor_div(digits * 30103, 100000);
  /// One more than the exponent of the largest and of the smallest normal value.
  static constexpr int max_exponent = (F::max_bits >> F::mantissa_bits) - F::bias + 1;
  static constexpr int min_exponent = (F::is_signed ? 1 : 0) - F::bias + 1;
  static constexpr int max_exponent10 = floor_div((max_exponent - 1) * 30103, 100000);
  static constexpr int min_exponent10 = -floor_div(-(min_exponent - 1) * 30103, 100000);

  FOURSCALE_H static constexpr F min() noexcept { return F{u8(F::is_signed ? 1 << F::mantissa_bits : 0)}; }
  FOURSCALE_H static constexpr F max() noexcept { return F{F::max_bits}; }
  FOURSCALE_H static constexpr F lowest() noexcept {
    return F{u8(F::is_signed ? F::max_bits | (1 << (F::width - 1)) : 0)};
  }
  FOURSCALE_H static constexpr F denorm_min() noexcept { return F::is_signed ? F{1} : min(); }
  /// The step above 1. It is 2^-mantissa_bits; in E1M2, where 1 is subnormal, the step of subnormals.
  FOURSCALE_H static constexpr F epsilon() noexcept {
    return power_of_two(least_exponent > -F::mantissa_bits ? least_exponent : -F::mantissa_bits);
  }
  /// 1/2; 0 in E1M2, which has no such number.
  FOURSCALE_H static constexpr F round_error() noexcept {
    return least_exponent > -1 ? F{} : power_of_two(-1);
  }
  FOURSCALE_H static constexpr F infinity() noexcept { return F{u8(F::has_infinity ? F::max_bits + 1 : 0)}; }
  FOURSCALE_H static constexpr F quiet_NaN() noexcept { return F{u8(F::has_nan ? F::nan_bits : 0)}; }
  FOURSCALE_H static constexpr F signaling_NaN() noexcept { return F{}; }

 private:
  static constexpr int least_exponent = subnormal_exponent<F>;  ///< of the step of subnormals

  /// 2^e, from least_exponent on.
  FOURSCALE_H static constexpr F power_of_two(int e) {
    const int biased = e + F::bias;
    if (!F::is_signed || biased > 0) return F{u8(biased << F::mantissa_bits)};
    return F{u8(1 << (F::mantissa_bits - 1 + biased))};
  }
};

}  // namespace FOURSCALE_NAMESPACE::detail

template <fourscale::format F>
class std::numeric_limits<F> : public fourscale::detail::limits<F> {};
