// SPDX-License-Identifier: Apache-2.0
// The factors alpha and beta of a GEMM, the same on the CPU and on the GPU.
#pragma once

#include "../config.hpp"

namespace FOURSCALE_NAMESPACE {

/// The factors of D = alpha * A * B^T + beta * D.
struct gemm_factors {
  float alpha = 1.0f, beta = 0.0f;
};

}  // namespace FOURSCALE_NAMESPACE
