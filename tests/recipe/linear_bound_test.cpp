// SPDX-License-Identifier: Apache-2.0
// What tests of accumulate::native judge a layer by, on the CPU: a step with Blackwell's bits is within the
// bound, and a step that is wrong in one element, one microbatch or one sum is not.
#include "mma/gemm_within_bound.hpp"
#include "recipe/linear_case.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe te = presets::te_nvfp4().linear;

/// How many elements of D = A * B^T + beta * before are wrong.
template <class L, class T>
i64 wrong(block_scaled_view<nvfp4, L> const& a, block_scaled_view<nvfp4, L> const& b, float beta,
          std::vector<T> const& before, std::vector<T> const& d) {
  return distance_from_exact(a, b, {1.0f, beta}, b.rows, before, d).wrong;
}

}  // namespace

TEST_CASE("linear: a step is within the bound of accumulate::native, and a wrong one is not",
          "[recipe][linear]") {
  linear_case<te> c({48, 64, 80});
  auto const& t = c.t;
  REQUIRE(c.forward() == errc::ok);
  CHECK(wrong(t.x.rowwise, t.w.rowwise, 0.0f, {}, c.y) == 0);
  c.y[77] = from_float<bf16>(to_float(c.y[77]) * 1.02f);
  CHECK(wrong(t.x.rowwise, t.w.rowwise, 0.0f, {}, c.y) == 1);

  REQUIRE(c.backward() == errc::ok);
  CHECK(wrong(t.dy.rowwise, t.w.columnwise, 0.0f, {}, c.dx) == 0);
  CHECK(wrong(t.dy.columnwise, t.x.columnwise, 0.0f, {}, c.dw) == 0);
  const std::vector<float> first = c.dw;

  c.key.microbatch = 1;
  REQUIRE(c.forward() == errc::ok);
  REQUIRE(c.backward(1.0f) == errc::ok);
  CHECK(wrong(t.dy.rowwise, t.w.columnwise, 0.0f, {}, c.dx) == 0);
  CHECK(wrong(t.dy.columnwise, t.x.columnwise, 1.0f, first, c.dw) == 0);
  CHECK(wrong(t.dy.columnwise, t.x.columnwise, 0.0f, first, c.dw) > 5000);  // nearly all of 5120
  CHECK(wrong(t.dy.columnwise, t.x.columnwise, 0.0f, {}, first) > 5000);    // the first one's dY
  c.dw[5119] += 0.001f * std::fabs(c.dw[5119]);
  CHECK(wrong(t.dy.columnwise, t.x.columnwise, 1.0f, first, c.dw) == 1);
}
