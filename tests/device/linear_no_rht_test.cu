// SPDX-License-Identifier: Apache-2.0
// A linear layer under te_nvfp4_no_rht, with swizzled scales: every bit is the host's.
#include "linear_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

TEST_CASE("device linear: te_nvfp4_no_rht equals the host", "[device][recipe][linear]") {
  check_linear<presets::te_nvfp4_no_rht().linear, swizzled_128x4>({48, 64, 80});
  check_linear<presets::te_nvfp4_no_rht().linear, swizzled_128x4>({144, 272, 160});
}
