// SPDX-License-Identifier: Apache-2.0
// A linear layer under mxfp8: by accumulate::blackwell every bit is the host's; by native, which needs no
// plan there, within its bound, also in a graph.
#include "linear_native_case.cuh"
#include "linear_plan.cuh"
#include "linear_producer_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe mx = presets::mxfp8().linear, with_e5m2 = mxfp8_with_e5m2_gradients();

}  // namespace

TEST_CASE("device linear: mxfp8 equals the host", "[device][recipe][linear]") {
  check_linear<mx>({32, 128, 64});
  check_linear<mx, swizzled_128x4>({288, 160, 224});
  check_linear<with_e5m2>({96, 64, 160});
}

TEST_CASE("device linear: mxfp8 drawn at random equals the host", "[device][recipe][linear]") {
  check_drawn_linear<mx>(32, 10);
}

TEST_CASE("device linear: mxfp8 by native is within its bound", "[device][recipe][linear][native]") {
  if (!gpu_or_warn()) return;
  for (const linear_shape s : {linear_shape{32, 32, 32}, {96, 64, 160}, {288, 160, 416}}) {
    linear_case<mx> h(s);
    linear_on_device<mx, linear, accumulate::native<>> d(h);
    check_two_microbatches(d);
  }
  linear_case<with_e5m2> h({96, 64, 160});
  linear_on_device<with_e5m2, linear, accumulate::native<plan_but_for>> d(h);
  check_two_microbatches(d);
}

TEST_CASE("device linear: mxfp8 by native in a graph", "[device][recipe][linear][native]") {
  if (!gpu_or_warn()) return;
  linear_case<mx> h({96, 64, 160});
  linear_on_device<mx, linear, accumulate::native<>> d(h);
  REQUIRE(d.step(0.0f, nullptr) == errc::ok);
  check_captured(d);
}

TEST_CASE("device linear: producers under mxfp8 equal matrices on the host", "[device][recipe][linear]") {
  check_producers<mx>({288, 160, 224});
}
