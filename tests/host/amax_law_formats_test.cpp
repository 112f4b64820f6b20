// SPDX-License-Identifier: Apache-2.0
// As amax_law_test.cpp for the other formats: MX, FP8 per tensor and FP8 in blocks.
#include "amax_law.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr law::checks<law::host_machine, mxfp4, mxfp6_e2m3, mxfp6_e3m2, mxfp8_e4m3, mxfp8_e5m2, fp8_e4m3,
                      fp8_e5m2, fp8_block_e4m3, fp8_block_e5m2>
    checks;

}  // namespace

TEST_CASE("amax law: MX and FP8 of each preset", "[host][amax_law]") { law::check_presets(checks); }

TEST_CASE("amax law: each scaling rule and rounding of MX and FP8", "[host][amax_law]") {
  CHECK(law::check_format(format_name::mxfp4, checks) == 6);
  CHECK(law::check_format(format_name::mxfp8_e4m3, checks) == 6);
  CHECK(law::check_format(format_name::mxfp8_e5m2, checks) == 6);
  CHECK(law::check_format(format_name::fp8_e4m3, checks) == 2);
  CHECK(law::check_format(format_name::fp8_e5m2, checks) == 2);
  CHECK(law::check_format(format_name::fp8_block_e4m3, checks) == 6);
  CHECK(law::check_format(format_name::fp8_block_e5m2, checks) == 6);
}

TEST_CASE("amax law: MXFP6", "[host][amax_law]") {
  checks(mxfp6_e2m3{}, quantizer{}, blocks_1d{});
  checks(mxfp6_e3m2{}, quantizer{}, blocks_2d<32, 32>{});
}

TEST_CASE("amax law: FP8 per tensor with a margin, a least amax, powers of two", "[host][amax_law]") {
  checks(fp8_e4m3{}, quantizer{nearest_even{}, current_scaling{1}}, blocks_1d{});
  checks(fp8_e4m3{}, quantizer{nearest_even{}, current_scaling{0, 0.0f, true}}, blocks_1d{});
  checks(fp8_e5m2{}, quantizer{nearest_even{}, current_scaling{2, 100.0f}}, blocks_1d{});
}
