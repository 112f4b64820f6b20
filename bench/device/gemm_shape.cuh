// SPDX-License-Identifier: Apache-2.0
// The shape of a GEMM that is measured.
#pragma once

#include <string>

#include "harness.cuh"

namespace bench {

struct gemm_shape {
  i64 m, n, k;

  double flop() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  std::string name() const { return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k); }
  /// In a graph: some 100 us.
  i64 calls() const { return flop() < 1e10 ? 16 : flop() < 6e10 ? 6 : 2; }
};

}  // namespace bench
