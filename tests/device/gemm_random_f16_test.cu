// SPDX-License-Identifier: Apache-2.0
// GEMMs of MX formats drawn at random, on mma.sync of fp16: D compared with the CPU's, bit by bit.
#include "mma/cpu_gemm.hpp"
#include "mma/gemm_calls.cuh"
#include "mma/gemm_random.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

template <class F, class G, class Layout, class T>
void check(u64 seed) {
  auto c = random_gemm<F, G, Layout, T>(seed, 200, 2048);
  INFO("seed " << seed << ": " << F::name << " by " << G::name << ", " << c.o.m << " x " << c.o.n << " x "
               << c.o.k << ", gap " << c.o.gap);
  gemm_steps steps;
  CHECK(same_bits(c.on_device(f16_gemm{&steps}), c.on_host(cpu_gemm{})));
  CHECK(steps.in_f32 + steps.in_double + steps.by_model == c.o.m * c.o.n * ceil_div<i64>(c.o.k, 32));
}

}  // namespace

TEST_CASE("device gemm f16: drawn at random, compared with the CPU's", "[device][gemm][blackwell]") {
  if (!gpu_or_warn()) return;
  const u64 count = exhaustive() ? 1000 : 40;
  for (u64 seed = 0; seed < count; ++seed) {
    check<mxfp8_e4m3, mxfp8_e5m2, linear, float>(seed);
    check<mxfp6_e2m3, mxfp4, swizzled_128x4, bf16>(seed);
    check<mxfp6_e3m2, mxfp6_e3m2, linear, float>(seed);
  }
}
