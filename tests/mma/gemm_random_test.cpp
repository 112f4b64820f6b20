// SPDX-License-Identifier: Apache-2.0
// GEMMs drawn at random: the CPU's kernel compared with the chained model, bit by bit.
#include "gemm_random.hpp"

#include "cpu_gemm.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

template <class F, class G, class Layout, class T>
void check() {
  for_random_gemms<F, G, Layout, T>(100, 20000, 40, 1024, [](auto& c, u64) {
    constexpr i64 step = F::element::width == 4 && G::element::width == 4 ? 64 : 32;
    gemm_steps steps;
    CHECK(same_bits(c.on_host(cpu_gemm{&steps}), c.oracle()));
    CHECK(steps.in_f32 + steps.in_double + steps.by_model == c.o.m * c.o.n * ceil_div<i64>(c.o.k, step));
  });
}

}  // namespace

TEST_CASE("gemm blackwell: drawn at random, compared with the model", "[host][mma][gemm]") {
  check<nvfp4, nvfp4, linear, float>();
  check<nvfp4, nvfp4, swizzled_128x4, bf16>();
  check<mxfp4, mxfp4, linear, float>();
  check<mxfp8_e4m3, mxfp8_e5m2, linear, float>();
  check<mxfp6_e2m3, mxfp4, swizzled_128x4, bf16>();
  check<mxfp6_e3m2, mxfp6_e3m2, linear, float>();
}
