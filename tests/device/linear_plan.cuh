// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fourscale/recipe/linear.cuh>

namespace fourscale::test {

/// A plan for all GEMMs but those with so many values along K. It multiplies nothing.
struct plan_but_for {
  static constexpr i64 workspace_bytes = 1000;
  i64 refused = 0;

  template <class T>
  bool is_for(matrix_view<T> const&, i64 values) const {
    return values != refused;
  }
  template <class T>
  errc multiply(mma::decoded_operand const&, mma::decoded_operand const&, matrix_view<T> const&,
                gemm_factors const*, u8*, cudaStream_t) const {
    return errc::cuda_failed;
  }
};

}  // namespace fourscale::test
