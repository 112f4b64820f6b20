// SPDX-License-Identifier: Apache-2.0
// A linear layer under te_nvfp4_no_rht, with swizzled scales: every bit is the host's.
#include "linear_producer_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

TEST_CASE("device linear: te_nvfp4_no_rht equals the host", "[device][recipe][linear]") {
  check_linear<presets::te_nvfp4_no_rht().linear, swizzled_128x4>({48, 64, 80});
  check_linear<presets::te_nvfp4_no_rht().linear, swizzled_128x4>({144, 272, 160});
}

TEST_CASE("device linear: te_nvfp4_no_rht drawn at random equals the host", "[device][recipe][linear]") {
  check_drawn_linear<presets::te_nvfp4_no_rht().linear, swizzled_128x4>(16, 20);
}

TEST_CASE("device linear: a producer's values are quantized as those of its matrix",
          "[device][recipe][linear]") {
  if (!gpu_or_warn()) return;
  constexpr linear_recipe recipe = presets::te_nvfp4_no_rht().linear;
  linear_case<recipe, swizzled_128x4> h({48, 64, 80});
  linear_on_device<recipe, swizzled_128x4> d(h);
  const decltype(d)::layer run;
  REQUIRE(h.forward() == errc::ok);
  REQUIRE(run.amax(d.in_x(), h.key, d.t.x) == errc::ok);
  REQUIRE(run.amax(d.in_w(), h.key, d.t.w) == errc::ok);
  const cta::matrix_producer<bf16, 16, cta::access::vectors> x{d.x.data(), 48, 64, 64};
  REQUIRE(run.quantize_rows(x, h.key, &d.t.x) == errc::ok);
  REQUIRE(run.quantize_rows(d.in_w(), h.key, &d.t.w) == errc::ok);
  REQUIRE(run.fprop(d.t, d.out_y()) == errc::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(same_values(d.y.to_host(), h.y));
}

TEST_CASE("device linear: producers under te_nvfp4_no_rht equal matrices on the host",
          "[device][recipe][linear]") {
  check_producers<presets::te_nvfp4_no_rht().linear, swizzled_128x4>({144, 272, 160});
}
