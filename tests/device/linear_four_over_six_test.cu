// SPDX-License-Identifier: Apache-2.0
// A linear layer under four_over_six, with swizzled scales: every bit is the host's.
#include "linear_producer_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

TEST_CASE("device linear: four_over_six equals the host", "[device][recipe][linear]") {
  check_linear<presets::four_over_six().linear, swizzled_128x4>({48, 64, 80});
  check_linear<presets::four_over_six().linear, swizzled_128x4>({144, 272, 160});
}

TEST_CASE("device linear: producers under four_over_six equal matrices on the host",
          "[device][recipe][linear]") {
  check_producers<presets::four_over_six().linear, swizzled_128x4>({48, 64, 80});
}
