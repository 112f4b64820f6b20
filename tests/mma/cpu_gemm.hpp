// SPDX-License-Identifier: Apache-2.0
// host::gemm with Blackwell's bits, to be handed to gemm_case::on_host().
#pragma once

#include <fourscale/host/gemm_blackwell.hpp>

namespace fourscale::test {

struct cpu_gemm {
  gemm_steps* counted = nullptr;

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    return host::gemm(a, b, d, factors, accumulate::blackwell{}, counted);
  }
};

}  // namespace fourscale::test
