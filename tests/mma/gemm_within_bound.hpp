// SPDX-License-Identifier: Apache-2.0
// Each element of D compared with the exact product of what was multiplied.
#pragma once

#include "gemm_bound.hpp"
#include "gemm_case.hpp"

namespace fourscale::test {

/// How many elements are beyond the bound of accumulate::native, or not NaN where a scale is; and the largest
/// error of the others in bounds.
struct gemm_distance {
  i64 wrong = 0;
  double worst = 0;
};

/// `d` is what factors.alpha * A * B^T + factors.beta * `before` gave, with `ld` elements from row to row.
/// Both operands lie in host memory.
template <class F, class LA, class BA, class G, class LB, class BB, class T>
gemm_distance distance_from_exact(block_scaled_view<F, LA, BA> const& a,
                                  block_scaled_view<G, LB, BB> const& b, gemm_factors factors, i64 ld,
                                  std::vector<T> const& before, std::vector<T> const& d) {
  const auto rows_a = rows_of(a);
  const auto rows_b = rows_of(b);
  const double beta = static_cast<double>(factors.beta);
  double worst = 0;
  i64 wrong = 0;
#ifdef _OPENMP
#pragma omp parallel for reduction(max : worst) reduction(+ : wrong)
#endif
  for (i64 i = 0; i < a.rows; ++i)
    for (i64 j = 0; j < b.rows; ++j) {
      const size_t at = static_cast<size_t>(i * ld + j);
      const double value = static_cast<double>(to_float(d[at])),
                   was = beta == 0 ? 0 : static_cast<double>(to_float(before[at]));
      const exact_sum exact = rows_a.times(i, rows_b, j);
      const float factor = oracle_factor(factors.alpha, a.amax.scale_of_row(i), b.amax.scale_of_row(j));
      const double bound =
          native_bound(a.cols, exact.magnitude) + static_cast<double>(a.cols) * rows_a.lost_below;
      const double error = error_in_bounds<T>(value, static_cast<double>(factor), exact, bound, beta, was);
      wrong += exact.nan ? value == value : !(error <= 1);
      if (!exact.nan && error > worst) worst = error;
    }
  return {wrong, worst};
}

}  // namespace fourscale::test
