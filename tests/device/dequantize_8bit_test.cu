// SPDX-License-Identifier: Apache-2.0
// device::dequantize of formats of 8 bits.
#include "dequantize_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

TEST_CASE("device dequantize: MXFP8 equals the host", "[device][dequantize]") {
  check_dequantize<mxfp8_e4m3, bf16>();
  check_dequantize<mxfp8_e5m2, float, swizzled_128x4>();
}

TEST_CASE("device dequantize: FP8 equals the host", "[device][dequantize]") {
  check_dequantize<fp8_e4m3, float>();
  check_dequantize<fp8_e5m2, fp16>();
  check_dequantize<fp8_block_e4m3, bf16>();
}
