// SPDX-License-Identifier: Apache-2.0
// A linear layer under mxfp4: every bit is the host's, by accumulate::native too, which needs no plan there.
#include "linear_plan.cuh"
#include "linear_producer_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

TEST_CASE("device linear: mxfp4 equals the host", "[device][recipe][linear]") {
  check_linear<presets::mxfp4().linear>({32, 128, 64});
  check_linear<presets::mxfp4().linear>({96, 64, 160});
  check_linear<presets::mxfp4().linear>({288, 160, 224});
}

TEST_CASE("device linear: mxfp4 drawn at random equals the host", "[device][recipe][linear]") {
  check_drawn_linear<presets::mxfp4().linear>(32, 20);
}

TEST_CASE("device linear: mxfp4 by native equals the host", "[device][recipe][linear][native]") {
  check_linear<presets::mxfp4().linear, linear, accumulate::native<plan_but_for>>({96, 64, 160});
}

TEST_CASE("device linear: producers under mxfp4 equal matrices on the host", "[device][recipe][linear]") {
  check_producers<presets::mxfp4().linear>({288, 160, 224});
}
