// SPDX-License-Identifier: Apache-2.0
// gemm_small_test.cu with activations in fp16.
#include "device/gemm_small_checks.cuh"

using namespace fourscale;
using namespace fourscale::test;
using namespace fourscale::test::weight_only;

TEST_CASE("device gemm_weight_only of fp16: exact sums", "[device][gemm][small]") {
  check_exact<fp16, linear, float>(sizes());
  check_exact<fp16, swizzled_128x4, fp16>({{16, 513, 2048}, {7, 130, 4112}, {40, 200, 528}});
}

TEST_CASE("device gemm_weight_only of fp16: random values are within the bound, and the same twice",
          "[device][gemm][small]") {
  for (const i64 m : {1, 8, 16, 33, 64}) {
    check_random<fp16, linear, float>({m, 130, 1024, {1.5f, 0.0f}});
    check_random<fp16, swizzled_128x4, fp16>({m, 130, 272, {0x1p-6f, 0.5f}});
  }
}

TEST_CASE("device gemm_weight_only of fp16: other plans have the same sums where those are exact",
          "[device][gemm][small]") {
  if (!gpu_or_warn()) return;
  for (tuning const& t : plans) {
    check_plan(small_case<fp16, linear, float>({64, 260, 4112, {1.5f, 0.5f}, 3}, data::exact), t);
    check_plan(small_case<fp16, swizzled_128x4, fp16>({40, 100, 28672}, data::exact), t);
  }
}

TEST_CASE("device gemm_weight_only of fp16: NaN scales, zero blocks, infinities, each code and scale",
          "[device][gemm][small]") {
  if (!gpu_or_warn()) return;
  for (const i64 n : {50, 64})  // 64 by TMA
    for (const i64 k : {192, 256, 512}) {
      check_special(small_case<fp16, swizzled_128x4, fp16>({9, n, k}, data::exact));
      check_special(small_case<fp16, linear, float>({9, n, k}, data::exact));
    }
  for (const i64 k : {16, 64, 256, 512}) {
    const small_options o{16, 256, k, {}, 0, 0, 0, 0, 0, amax_place::unit};
    check_values(small_case<fp16, linear, float>(o, data::exact));
  }
}
