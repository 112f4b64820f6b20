// SPDX-License-Identifier: Apache-2.0
// GEMMs of MXFP4 drawn at random, by the kernels that decode operands to bf16.
#include "gemm_random_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

TEST_CASE("device gemm blackwell: MXFP4 drawn at random, compared with the CPU's",
          "[device][gemm][blackwell]") {
  check_random_gemms<mxfp4, linear, float>(60, 4000);
}
