// SPDX-License-Identifier: Apache-2.0
// Decoded operands of a GEMM, copied to the host; and the cases that are decoded.
#pragma once

#include <fourscale/mma/decoded_operand.cuh>

#include "gemm_case.cuh"
#include "gemm_data.hpp"

namespace fourscale::test {

/// All that was decoded of an operand.
struct decoded_on_host {
  mma::decoded_operand of;
  std::vector<bf16> values;
  std::vector<mma::group_exponent> exponents;
  std::vector<model::step_bounds> bounds;
  std::vector<model::accumulator_bounds> of_accumulators;
  std::vector<mma::bytes_of_eight> depths;
  std::vector<model::step_magnitudes> magnitudes;

  explicit decoded_on_host(mma::decoded_operand const& x)
      : of(x),
        values(copied(x.values, x.rows * x.padded_k())),
        exponents(copied(x.exponents, x.rows * x.row_exponents())),
        bounds(copied(x.bounds, x.steps * x.row_groups())),
        of_accumulators(copied(x.of_accumulators, x.steps * x.row_groups())),
        depths(copied(x.depths, x.steps * x.row_groups())),
        magnitudes(copied(x.magnitudes, x.steps * x.row_groups())) {}
  model::step_bounds bounds_at(i64 group, i64 step) const {
    return bounds[static_cast<size_t>(of.bounds_at(group, step))];
  }
  model::accumulator_bounds of_accumulators_at(i64 group, i64 step) const {
    return of_accumulators[static_cast<size_t>(of.bounds_at(group, step))];
  }
  mma::bytes_of_eight const& depths_at(i64 group, i64 step) const {
    return depths[static_cast<size_t>(step * of.row_groups() + group)];
  }
  model::step_magnitudes const& magnitudes_at(i64 group, i64 step) const {
    return magnitudes[static_cast<size_t>(step * of.row_groups() + group)];
  }
};

/// A GEMM with operands of these kinds.
template <class F, class LA, class LB>
gemm_case<F, LA, F, LB, bf16> case_of_kinds(kind of_a, kind of_b, i64 m, i64 n, i64 k) {
  gemm_case<F, LA, F, LB, bf16> c({m, n, k});
  c.a.data = gemm_operand_data<F, LA>(operand<F, LA>(of_a, m, k, 1));
  c.b.data = gemm_operand_data<F, LB>(operand<F, LB>(of_b, n, k, 2));
  return c;
}

}  // namespace fourscale::test
