// SPDX-License-Identifier: Apache-2.0
// device::dequantize of formats of 4 and 6 bits.
#include "dequantize_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

TEST_CASE("device dequantize: 4 bits equal the host", "[device][dequantize]") {
  check_dequantize<nvfp4, float>();
  check_dequantize<nvfp4, fp16, swizzled_128x4>();
  check_dequantize<mxfp4, bf16>();
  check_dequantize<nvint4, bf16>();
}

TEST_CASE("device dequantize: 6 bits equal the host", "[device][dequantize]") {
  check_dequantize<mxfp6_e2m3, bf16>();
  check_dequantize<mxfp6_e3m2, float>();
}
