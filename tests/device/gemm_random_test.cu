// SPDX-License-Identifier: Apache-2.0
// GEMMs of NVFP4 drawn at random, by the kernels that decode operands to bf16.
#include "gemm_random_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

TEST_CASE("device gemm blackwell: drawn at random, compared with the CPU's", "[device][gemm][blackwell]") {
  check_random_gemms<nvfp4, linear, float>(60, 4000);
}
