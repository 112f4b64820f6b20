// SPDX-License-Identifier: Apache-2.0
// device::gemm with Blackwell's bits: what gemm_blackwell_test.cu has of NVFP4, of MXFP4, MXFP8 and to FP16.
// A file of its own, since each type has kernels that take long to compile.
#include "mma/gemm_blackwell_cases.cuh"
#include "mma/gemm_calls.cuh"

using namespace fourscale;
using namespace fourscale::test;

TEST_CASE("device gemm blackwell: MXFP4, each shape with each kind of data",
          "[device][gemm][blackwell][large]") {
  check_table<blackwell_gemm, mxfp4>();
}

TEST_CASE("device gemm blackwell: FP16 D as each way to store it takes it", "[device][gemm][blackwell]") {
  check_outputs<blackwell_gemm, fp16>();
}

TEST_CASE("device gemm blackwell: MXFP4, all scales, NaN among them", "[device][gemm][blackwell]") {
  check_all_mx_scales<blackwell_gemm>();
}

TEST_CASE("device gemm: MXFP8 has the model's bits everywhere", "[device][gemm][blackwell]") {
  check_gemm<blackwell_gemm, mxfp8_e4m3, linear, linear, float>(
      {{17, 33, 96}, {130, 140, 160, {0.5f, 2.0f}}});
}
