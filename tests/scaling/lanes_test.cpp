// SPDX-License-Identifier: Apache-2.0
// The fast forms of scaling policies compared with their definitions: every bf16 as amax of a block, under
// tensor scales of all sizes.
#include <fourscale/block/quantize.hpp>
#include <fourscale/rounding/stochastic.hpp>
#include <fourscale/scaling/four_over_six.hpp>

#include "support/catch.hpp"
#include "support/data.hpp"

using namespace fourscale;

namespace {

static_assert(lane_scaling_policy<amax_scale, nvfp4> && !lane_scaling_policy<amax_scale, mxfp4>);
static_assert(!lane_scaling_policy<two_level_stochastic<philox<>>, nvfp4>);
static_assert(lane_weighing_policy<four_over_six<>, nvfp4>);

constexpr float tensor_amaxes[] = {0.0f,
                                   0x1p-149f,
                                   0x1p-126f,
                                   1.7e-30f,
                                   0.01f,
                                   1.0f,
                                   448.0f,
                                   2688.0f,
                                   3.3e5f,
                                   1e30f,
                                   float_max,
                                   -3.0f,
                                   bit_cast<float>(float_inf_bits),
                                   bit_cast<float>(0x7fff'ffffu)};

bool same_float(float a, float b) { return bit_cast<u32>(a) == bit_cast<u32>(b) || (a != a && b != b); }
template <class F>
bool same(block_scale<F> const& a, block_scale<F> const& b) {
  return a.scale == b.scale && same_float(a.multiplier, b.multiplier);
}

template <class F, class Scale, class Check>
u64 sweep(Scale const& scale, Check check) {
  u64 differences = 0;
  for (const float of_tensor : tensor_amaxes) {
    const tensor_scale<F> tensor = tensor_scale_for<F>(scale, of_tensor);
    for (u32 bits = 0; bits < 65536; ++bits) {
      const float amax = bit_cast<float>(bits << 16), beside = bit_cast<float>(bits << 16 | 0x8a3du);
      differences += !check(amax, tensor) + !check(beside, tensor);
    }
  }
  return differences;
}

template <class F, class Scale>
u64 scale_differences(Scale const& scale) {
  return sweep<F>(scale, [&](float amax, tensor_scale<F> const& tensor) {
    return same<F>(scale.scale_lane(F{}, amax, tensor), scale(F{}, amax, tensor));
  });
}

template <class Scale>
u64 candidate_differences(Scale const& scale) {
  return sweep<nvfp4>(scale, [&](float amax, tensor_scale<nvfp4> const& tensor) {
    block_scale<nvfp4> got[2], want[2];
    scale.candidates_lane(nvfp4{}, amax, tensor, got);
    scale.candidates(nvfp4{}, amax, tensor, want);
    return same(got[0], want[0]) && same(got[1], want[1]);
  });
}

template <class Scale>
u64 error_differences(Scale const& scale, bool ugly) {
  u64 differences = 0;
  for (u64 i = 0; i < 40000; ++i) {
    float x[16];
    for (u64 k = 0; k < 16; ++k) x[k] = ugly ? test::ugly(16 * i + k) : test::activation(i, 16 * i + k);
    const tensor_scale<nvfp4> tensor = tensor_scale_for<nvfp4>(scale, tensor_amaxes[i % 14]);
    block_scale<nvfp4> c[2];
    scale.candidates(nvfp4{}, block_amax(x), tensor, c);
    for (auto const& of : c) {
      float sum = 0.0f;
      for (const float value : x)
        sum += scale.error_lane(nvfp4{}, value, decode(of.scale), of.multiplier, tensor);
      differences += !same_float(sum, scale.error(nvfp4{}, x, of, tensor));
    }
  }
  return differences;
}

template <class Scale>
void check_weighing(Scale const& scale) {
  CHECK(candidate_differences(scale) == 0);
  CHECK(error_differences(scale, false) == 0);
  CHECK(error_differences(scale, true) == 0);
}

}  // namespace

TEST_CASE("lanes: scales of two levels are the definition", "[scaling][lanes]") {
  CHECK(scale_differences<nvfp4>(two_level{}) == 0);
  CHECK(scale_differences<nvfp4>(amax_scale{}) == 0);
  CHECK(scale_differences<nvint4>(amax_scale{}) == 0);
  CHECK(scale_differences<nvfp4>(two_level_division{}) == 0);
  CHECK(scale_differences<nvfp4>(two_level_headroom{}) == 0);
}

TEST_CASE("lanes: four over six is the definition", "[scaling][lanes]") {
  check_weighing(four_over_six<>{});
  check_weighing(four_over_six<error_norm::mean_square, 448>{});
}
