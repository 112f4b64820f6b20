// SPDX-License-Identifier: Apache-2.0
// One rounding an operation, also where the compiler could join two. CMake compiles this file with -O3 -mfma
// where that exists, because only then g++ would.
#include <fourscale/ptx/arith.hpp>

#include "support/data.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;

namespace {

/// A product, then a sum, each rounded. In double the product of two floats is exact, and rounding the double
/// sum of two floats to float gives their float sum (53 >= 2 * 24 + 2); `volatile` keeps compilers from
/// seeing that.
struct rounds_twice {
  FOURSCALE_HD bool operator()(u64 i) const {
    volatile float inputs[3] = {test::gaussian(3 * i), test::gaussian(3 * i + 1), test::gaussian(3 * i + 2)};
    const float a = inputs[0], b = inputs[1], c = inputs[2];
    volatile double exact = static_cast<double>(inputs[0]) * static_cast<double>(inputs[1]);
    volatile float product = static_cast<float>(exact);
    volatile double sum = static_cast<double>(product) + static_cast<double>(inputs[2]);
    return ptx::add_rn_f32(ptx::mul_rn_f32(a, b), c) == static_cast<float>(sum);
  }
};

/// Rounding the double quotient of two floats to float gives their float quotient (53 >= 2 * 24 + 2).
struct divides {
  FOURSCALE_HD bool operator()(u64 i) const {
    const float a = test::gaussian(2 * i), b = test::gaussian(2 * i + 1);
    if (b == 0.0f) return true;
    return ptx::div_rn_f32(a, b) == static_cast<float>(static_cast<double>(a) / static_cast<double>(b));
  }
};

bool cpu_can_run_this() {
#if defined(__FMA__) && defined(__GNUC__)
  return __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

}  // namespace

TEST_CASE("arith: a product and a sum are two roundings", "[ptx][arith]") {
  if (!cpu_can_run_this()) return;
  test::check_everywhere(100000, rounds_twice{});
  test::check_everywhere(100000, divides{});
}
