// SPDX-License-Identifier: Apache-2.0
// A linear layer under te_nvfp4 by accumulate::native without a plan: within the bound of the exact products,
// also in a graph.
#include "linear_native_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe te = presets::te_nvfp4().linear;
using on_device = linear_on_device<te, linear, accumulate::native<>>;

}  // namespace

TEST_CASE("device linear: native is within its bound", "[device][recipe][linear][native]") {
  if (!gpu_or_warn()) return;
  for (const linear_shape s :
       {linear_shape{48, 64, 80}, {272, 144, 400}, {16, 16, 16}, {64, 64, 64}, {32, 512, 48}}) {
    linear_case<te> h(s);
    on_device d(h);
    check_two_microbatches(d);
  }
}

TEST_CASE("device linear: native in a graph", "[device][recipe][linear][native]") {
  if (!gpu_or_warn()) return;
  linear_case<te> h({48, 64, 80});
  on_device d(h);
  REQUIRE(d.step(0.0f, nullptr) == errc::ok);
  check_captured(d);
}
