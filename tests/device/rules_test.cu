// SPDX-License-Identifier: Apache-2.0
// Every rounding, scaling rule and transform: device functions give the bits of the host functions.
#include "matches_host.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// Ordinary data over several CTAs, and ragged ugly data.
template <class F, class Quantizer>
void check_rule(Quantizer const& recipe) {
  if (!gpu_or_warn()) return;
  check_all_forms<F, forms::some>(test_matrix<bf16>(256, 384, 392, 0), report::quiet, recipe);
  check_all_forms<F, forms::some>(test_matrix<bf16>(35, 128, 131, 1, ugly_value), report::quiet, recipe);
  check_all_forms<F, forms::some>(test_matrix<bf16>(128, 33, 33, 0, ugly_value), report::quiet, recipe);
}

constexpr philox draws{0x0123'4567'89ab'cdef, 42};

/// Outliers so large that E4M3 holds the scales of small rows as its least numbers, or as 0.
float lopsided_value(u64 row, u64 i) { return activation(row, i) * (i % 997 == 0 ? 256.0f : 1.0f); }

/// Sums of sixteen that leave float's range, or nearly; sums that are not normal; values of all binades.
float huge_value(u64 row, u64 i) {
  const float x = activation(row, i);
  return (x > 1.0f ? 1.0f : x < -1.0f ? -1.0f : x) * (i % 97 == 0 ? 0x1.fp127f : 0x1p126f);
}
float tiny_value(u64 row, u64 i) { return activation(row, i) * (row % 3 == 0 ? 0x1p-127f : 0x1p-118f); }

template <class F, class T, class Quantizer>
void check_transformed(Quantizer const& recipe) {
  if (!gpu_or_warn()) return;
  for (float (*value)(u64, u64) : {activation, lopsided_value, huge_value, tiny_value, ugly_value})
    check_all_forms<F, forms::some>(test_matrix<T>(160, 192, 192, 0, value), report::quiet, recipe);
}

}  // namespace

TEST_CASE("device: stochastic rounding equals the host", "[device][stochastic]") {
  check_rule<nvfp4>(quantizer{stochastic{draws}});
  check_rule<mxfp8_e4m3>(quantizer{stochastic{philox<7>{1, 2}}});
}

TEST_CASE("device: the stochastic rounding of TE's software path equals the host", "[device][stochastic]") {
  check_rule<nvfp4>(quantizer{stochastic_te_software{draws}});
}

TEST_CASE("device: four over six equals the host", "[device][four_over_six]") {
  check_rule<nvfp4>(quantizer{nearest_even{}, four_over_six{}});
  check_rule<nvfp4>(quantizer{nearest_even{}, four_over_six<error_norm::mean_square, 448>{}});
  if (!gpu_or_warn()) return;
  const test_matrix<bf16> lopsided(256, 384, 392, 0, lopsided_value);
  check_all_forms<nvfp4, forms::some>(lopsided, report::quiet, quantizer{nearest_even{}, four_over_six{}});
  check_all_forms<nvfp4, forms::some>(lopsided, report::quiet,
                                      quantizer{stochastic{draws}, four_over_six<error_norm::mean_square>{}});
}

TEST_CASE("device: headroom and the uniform grid equal the host", "[device][headroom]") {
  check_rule<nvfp4>(quantizer{stochastic{draws}, two_level_headroom{}});
  check_rule<nvint4>(quantizer{});
}

TEST_CASE("device: FP8 under FP32 scales of 128 and 128 x 128 values equals the host",
          "[device][fp8_block]") {
  check_rule<fp8_block_e4m3>(quantizer{});
  check_rule<fp8_block_e5m2>(quantizer{nearest_even{}, fp8_block_scale{false}});
}

TEST_CASE("device: recipes with a Hadamard transform equal the host", "[device][transform]") {
  constexpr hadamard<16> rht{te_signs};
  check_transformed<nvfp4, bf16>(quantizer{nearest_even{}, two_level{}, rht});
  check_transformed<nvfp4, bf16>(quantizer{stochastic{draws}, two_level{}, rht});
  check_transformed<nvfp4, bf16>(quantizer{nearest_even{}, four_over_six{}, rht});
  check_transformed<nvfp4, bf16>(quantizer{nearest_even{}, two_level{}, hadamard<8>{te_signs}});
  check_transformed<nvfp4, fp16>(quantizer{nearest_even{}, two_level{}, rht});
  check_transformed<mxfp4, bf16>(quantizer{nearest_even{}, amax_scale{}, rht});
}
