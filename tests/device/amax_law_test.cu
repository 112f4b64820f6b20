// SPDX-License-Identifier: Apache-2.0
// What one call wrote, any other call of the device reads right with the same view, or refuses: NVFP4 under
// rules with ranges of their own, every kind of amax. That each recipe's bytes are those of the host is known
// from recipe_test.cu.
#include "amax_law.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr law::checks<law::device_machine, nvfp4> checks;
constexpr quantizer over_six{nearest_even{}, four_over_six<>{}};

}  // namespace

TEST_CASE("device: the law of amaxes for NVFP4", "[device][amax_law]") {
  if (!gpu_or_warn()) return;
  checks(nvfp4{}, quantizer{}, blocks_1d{});
  checks(nvfp4{}, quantizer{}, blocks_2d<16, 16>{});
  checks(nvfp4{}, quantizer{stochastic{philox{5, 1}}, two_level_headroom{}, hadamard<16>{te_signs}},
         blocks_1d{});
}

TEST_CASE("device: the law of amaxes for four over six", "[device][amax_law]") {
  if (!gpu_or_warn()) return;
  checks(nvfp4{}, over_six, blocks_1d{});
  checks(nvfp4{}, over_six, blocks_2d<16, 16>{});
  checks(nvfp4{}, quantizer{nearest_even{}, four_over_six<error_norm::mean_square, 448>{}}, blocks_1d{});
}

TEST_CASE("device: the law of amaxes for MS-EDEN", "[device][amax_law]") {
  if (!gpu_or_warn()) return;
  checks(nvfp4{}, ms_eden{philox{5, 2}, {0x0123'4567'89ab'cdef, 0xfeed'1234'5678'90ab}}, blocks_1d{});
}
