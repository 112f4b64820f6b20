// SPDX-License-Identifier: Apache-2.0
// Certificates for steps of 32 whose elements have six bits or fewer, MXFP6 and MXFP4, for 256 or 1024 values
// along K at a time: one inequality for each output proves that the adder drops nothing there.
// docs/exact_gemm.md has the reasons (claims 21 to 23).
#pragma once

#include "../model/certificate_8bit.hpp"
#include "decoded_operand.cuh"

namespace FOURSCALE_NAMESPACE::mma {

/// True for formats whose sums of 32 products are exact in f32 whatever the data are.
template <class F, class G>
inline constexpr bool has_run_limits =
    fourscale::model::has_steps_of_32<F, G>&& F::element::width <= 6 && G::element::width <= 6;

/// How far an element's lowest bit may be from the exponent of the largest element.
template <class E>
inline constexpr int bits_apart = max_exponent<E> - subnormal_exponent<E>;

/// Values along K of a run.
inline constexpr i64 run_values = 256;
/// How many runs of 256 values along K share their limits. Long ones are asked for less often, and certify
/// less: here formats whose elements have few bits below the largest one have room.
template <class F, class G>
inline constexpr int runs_of_limits =
    bits_apart<typename F::element> + bits_apart<typename G::element> <= 11 ? 4 : 1;

/// What is known of a row in as many runs. An output keeps all bits in them if its accumulator c, before or
/// at any place in these runs, is
///   abs(c) * scale_b + norm_a * norm_b < scale_a.
/// The numbers are (1 - 2^-16) 2^(l + 26) and a norm for a row of A, and 2^-l and the norm over 2^l for a row
/// of B; l is the exponent of the lowest bit that values of the row may have in these runs.
struct alignas(8) run_limit {
  static constexpr int kept_bits = 25;
  float scale, norm;

  /// `of_a`: the row is one of A. `of_zeros`: whose accumulators lose nothing. `none`: with which nothing is
  /// certified, not even an accumulator of 0 with a row of zeros.
  FOURSCALE_HD static run_limit of_zeros(bool of_a) { return {of_a ? 0x1p127f : 0.0f, 0.0f}; }
  FOURSCALE_HD static run_limit none(bool of_a) {
    return of_a ? run_limit{-1.0f, 0.0f} : run_limit{0.0f, bit_cast<float>(0x7fff'ffffu)};
  }
  /// `lowest`: l; `apart`: the largest exponent of a value in these runs minus the least l up to them;
  /// `norm`: of the values, not rounded down.
  FOURSCALE_HD static run_limit of(bool of_a, int lowest, int apart, float norm) {
    const auto power = fourscale::model::detail::power_of_two;
    const float width = norm * power(-lowest), least = power(apart), both = width > least ? width : least;
    return of_a ? run_limit{power(lowest + kept_bits + 1) * (1.0f - 0x1p-16f), both * power(lowest)}
                : run_limit{power(-lowest), both};
  }
};

/// The limits of all rows of an operand, [runs][row], in memory that its other bounds would take: rows are
/// padded to whole tiles, whose further rows are like zeros.
struct run_limits {
  run_limit* of = nullptr;
  i64 rows = 0;

  /// Tiles begin at multiples of 64, 128 or 192.
  FOURSCALE_HD static constexpr i64 padded(i64 rows) {
    const i64 by_128 = round_up<i64>(rows, 128), by_192 = round_up<i64>(rows, 192);
    return by_128 > by_192 ? by_128 : by_192;
  }
  /// If no runs share their limits, else less.
  FOURSCALE_HD static constexpr i64 bytes(i64 rows, i64 steps) {
    return ceil_div<i64>(steps * decoded_step, run_values) * padded(rows) * i64{sizeof(run_limit)};
  }
  FOURSCALE_HD static run_limits in(decoded_operand const& x) {
    return {reinterpret_cast<run_limit*>(x.exponents), padded(x.rows)};
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma
