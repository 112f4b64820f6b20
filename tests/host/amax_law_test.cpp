// SPDX-License-Identifier: Apache-2.0
// What one call wrote, any other call of the host reads right with the same view, or refuses: formats with a
// tensor scale and block scales, every rounding, scaling rule, transform and kind of amax; groups.
#include "amax_law.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr law::checks<law::host_machine, nvfp4, nvint4> checks;
constexpr philox draws{5, 1};

}  // namespace

TEST_CASE("amax law: NVFP4 of each preset", "[host][amax_law]") { law::check_presets(checks); }

TEST_CASE("amax law: each scaling rule and rounding of NVFP4, by rows and by tiles", "[host][amax_law]") {
  CHECK(law::check_format(format_name::nvfp4, checks) == 25);
  CHECK(law::check_format(format_name::nvint4, checks) == 3);
}

TEST_CASE("amax law: four over six under stochastic rounding, and transforms", "[host][amax_law]") {
  checks(nvfp4{}, quantizer{stochastic{draws}, four_over_six<>{}}, blocks_1d{});
  checks(nvfp4{}, quantizer{nearest_even{}, four_over_six<>{}, hadamard<16>{te_signs}}, blocks_1d{});
  checks(nvfp4{}, quantizer{stochastic{draws}, two_level_headroom{}, hadamard<16>{te_signs}}, blocks_1d{});
}

TEST_CASE("amax law: groups", "[host][amax_law]") {
  law::check_groups<law::host_machine, nvfp4, linear>(quantizer{});
  law::check_groups<law::host_machine, nvfp4, swizzled_128x4>(quantizer{nearest_even{}, four_over_six<>{}});
  law::check_groups<law::host_machine, nvfp4, linear>(quantizer{stochastic{draws}, two_level_headroom{}});
  law::check_groups<law::host_machine, fp8_e4m3, linear>(
      quantizer{nearest_even{}, current_scaling{1, 0.0f, true}});
  law::check_groups<law::host_machine, mxfp4, swizzled_128x4>(quantizer{});
}
