// SPDX-License-Identifier: Apache-2.0
// As amax_law_test.cu for other formats, and for groups.
#include "amax_law.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr law::checks<law::device_machine, mxfp4, mxfp8_e4m3, fp8_e4m3> checks;

}  // namespace

TEST_CASE("device: the law of amaxes for MX and FP8 per tensor", "[device][amax_law]") {
  if (!gpu_or_warn()) return;
  checks(mxfp4{}, quantizer{}, blocks_2d<32, 32>{});
  checks(mxfp8_e4m3{}, quantizer{}, blocks_1d{});
  checks(fp8_e4m3{}, quantizer{nearest_even{}, current_scaling{1, 0.0f, true}}, blocks_1d{});
}

TEST_CASE("device: the law of amaxes for groups", "[device][amax_law][grouped]") {
  if (!gpu_or_warn()) return;
  law::check_groups<law::device_machine, nvfp4, linear>(quantizer{});
  law::check_groups<law::device_machine, nvfp4, swizzled_128x4>(quantizer{nearest_even{}, four_over_six<>{}});
  law::check_groups<law::device_machine, fp8_e4m3, linear>(quantizer{});
}
