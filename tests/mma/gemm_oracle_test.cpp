// SPDX-License-Identifier: Apache-2.0
// The oracle of device::gemm compared with host::gemm, whose sums are all but exact; and the epilogue's
// factor.
#include "gemm_oracle.hpp"

#include <cmath>
#include <cstddef>
#include <fourscale/view/gemm_epilogue.hpp>

#include "gemm_operand.hpp"
#include "support/catch.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// The largest |oracle - host| over an error bound: each instruction of mxf8f6f4 keeps 25 bits below its
/// largest term, the 4-bit ones 35, and rounds to float; terms are bounded by the sum of magnitudes.
template <class F, class G, class Layout>
double worst_error(i64 rows, i64 cols, i64 k) {
  gemm_operand_data<F, Layout> a(rows, k, 1);
  gemm_operand_data<G, Layout> b(cols, k, 2);
  std::vector<float> exact(static_cast<std::size_t>(rows * cols)), got = exact, magnitude = exact;
  REQUIRE(host::gemm(a.view(), b.view(), matrix_view<float>{exact, rows, cols}) == errc::ok);
  gemm_oracle(a.view(), b.view(), matrix_view<float>{got, rows, cols});
  const u8 sign = F::element::width == 4 ? 0x77 : 0x7f;
  for (u8& c : a.codes) c = static_cast<u8>(c & sign);
  for (u8& c : b.codes) c = static_cast<u8>(c & sign);
  REQUIRE(host::gemm(a.view(), b.view(), matrix_view<float>{magnitude, rows, cols}) == errc::ok);
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::fmax(worst, std::fabs(double{got[i]} - double{exact[i]}) / double{magnitude[i]});
  return worst;
}

}  // namespace

TEST_CASE("gemm oracle: the chained model is close to the exact product", "[mma][oracle]") {
  CHECK(worst_error<nvfp4, nvfp4, linear>(9, 11, 208) < 4 * 0x1p-23);
  CHECK(worst_error<nvfp4, nvfp4, swizzled_128x4>(9, 11, 64) < 2 * 0x1p-23);
  CHECK(worst_error<mxfp4, mxfp4, swizzled_128x4>(5, 8, 416) < 8 * 0x1p-23);
  CHECK(worst_error<mxfp8_e4m3, mxfp8_e4m3, linear>(6, 7, 160) < 40 * 0x1p-23);
  CHECK(worst_error<mxfp8_e4m3, mxfp8_e5m2, swizzled_128x4>(6, 7, 96) < 40 * 0x1p-23);
}

TEST_CASE("gemm oracle: the order of steps along K shows in the bits", "[mma][oracle]") {
  gemm_operand_data<nvfp4, linear> a(32, 512, 1), b(32, 512, 2);
  std::vector<float> up(32 * 32), down = up;
  gemm_oracle(a.view(), b.view(), matrix_view<float>{up, 32, 32});
  gemm_oracle(a.view(), b.view(), matrix_view<float>{down, 32, 32}, {}, step_order::descending);
  CHECK(up != down);
}

TEST_CASE("gemm epilogue: the factor rounds as Transformer Engine's", "[mma][epilogue]") {
  // ((1 * 2688) * 1) * fl(1 / 7225344), whose bits are 0x34149B93.
  const tensor_scale<nvfp4> one(1.0f);
  CHECK(bit_cast<u32>(output_factor(1.0f, one, one)) == 0x3414'9b93u);
  int differs_from_jax = 0;
  for (u64 i = 0; i < 1000; ++i) {
    const tensor_scale<nvfp4> a(std::fabs(gaussian(3 * i)) + 0.1f), b(std::fabs(gaussian(3 * i + 1)) + 0.1f);
    const float alpha = gaussian(3 * i + 2), got = output_factor(alpha, a, b);
    CHECK(bit_cast<u32>(got) == bit_cast<u32>(oracle_factor(alpha, a, b)));
    volatile float left = a.amax / 2688.0f, right = b.amax / 2688.0f, both = left * right;
    differs_from_jax += alpha * both != got;
  }
  CHECK(differs_from_jax > 100);
  const tensor_scale<mxfp4> none;
  CHECK(output_factor(0.3f, none, none) == 0.3f);
}

TEST_CASE("gemm epilogue: one rounding an operation, and beta's term last", "[mma][epilogue]") {
  int differs_from_fma = 0;
  for (u64 i = 0; i < 1000; ++i) {
    const float factor = gaussian(4 * i), sum = gaussian(4 * i + 1), beta = gaussian(4 * i + 2);
    const float c = gaussian(4 * i + 3);
    volatile float product = factor * sum, term = beta * c, value = product + term;
    CHECK(bit_cast<u32>(gemm_output<float>(factor, sum, beta, c)) == bit_cast<u32>(float{value}));
    CHECK(gemm_output<bf16>(factor, sum) == from_float<bf16>(product));
    differs_from_fma += std::fma(factor, sum, float{term}) != float{value};
  }
  CHECK(differs_from_fma > 100);
}
