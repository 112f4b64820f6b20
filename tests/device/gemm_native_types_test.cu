// SPDX-License-Identifier: Apache-2.0
// accumulate::native: NVFP4 to FP16, and MXFP4, which has Blackwell's bits. A file of its own, since each
// type has kernels that take long to compile.
#include "mma/gemm_native_cases.cuh"

using namespace fourscale;
using namespace fourscale::test;

TEST_CASE("device gemm native: FP16 outputs", "[device][gemm][native]") {
  check_native<native_gemm, linear, swizzled_128x4, fp16>(
      {{130, 131, 160}, {17, 33, 448, {100.0f, 0.25f}, 7}});
}

TEST_CASE("device gemm native: MXFP4, whose scales may be far from 1, has Blackwell's bits",
          "[device][gemm][native]") {
  check_gemm<native_gemm, mxfp4, linear, linear, float>(
      {{1, 1, 32}, {16, 8, 64}, {130, 129, 320}, {20, 30, 96}, {40, 50, 192, {0.5f, 2.0f}, 2, 1, 9}});
  check_gemm<native_gemm, mxfp4, swizzled_128x4, swizzled_128x4, bf16>(
      {{129, 127, 224}, {61, 62, 352, {1.25f, 0.5f}, 4}});
}
