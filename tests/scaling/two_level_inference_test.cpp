// SPDX-License-Identifier: Apache-2.0
// Block scales of inference engines against vLLM's formula, written down in double and in the order of its
// source.
#include <fourscale/fourscale.hpp>
#include <fourscale/scaling/two_level_inference.hpp>

#include "support/everywhere.hpp"
#include "support/grid.hpp"

using namespace fourscale;
using test::check_everywhere;

namespace {

constexpr float infinity = bit_cast<float>(float_inf_bits), quiet_nan = bit_cast<float>(0x7fc0'0000u);

/// x rounded to float. A double holds the product of two floats exactly, and their quotient well enough
/// (53 >= 2 * 24 + 2).
FOURSCALE_HD inline float rounded(double x) {
  if (x >= 0x1.ffffffp+127) return bit_cast<float>(float_inf_bits);
  return static_cast<float>(x);
}

/// rcp.approx.ftz of x >= 0 without its error.
FOURSCALE_HD inline float reciprocal_ftz(float x) {
  const double exact = static_cast<double>(x);
  if (exact < 0x1p-126) return bit_cast<float>(float_inf_bits);
  volatile double inverse = 1.0 / exact;  // volatile: g++ 13 narrows two divisions into one
  const float once = rounded(inverse);
  return static_cast<double>(once) < 0x1p-126 ? 0.0f : once;
}

/// __nv_fp8_e4m3(float): to nearest even, beyond 448 it is 448, NaN stays.
FOURSCALE_HD inline u32 to_e4m3(float x) {
  if (x != x) return 0x7f;
  return x >= 448.0f ? 0x7e : static_cast<u32>(test::nearest_code<e4m3>(static_cast<double>(x)));
}

struct answer {
  u32 scale;
  float output_scale;
};

/// SFValue = SFScaleVal * (vecMax * rcp(6)), stored; outputScale = SFValue != 0 ? rcp(SFValue *
/// rcp(SFScaleVal)) : 0.
FOURSCALE_HD inline answer vllm(float vec_max, float sf_scale) {
  const float of_six = rounded(static_cast<double>(vec_max) * static_cast<double>(reciprocal_ftz(6.0f)));
  const u32 code = to_e4m3(rounded(static_cast<double>(sf_scale) * static_cast<double>(of_six)));
  if (code == 0x7f) return {code, bit_cast<float>(0x7fc0'0000u)};
  const double sf_value = test::value_of<e4m3>(static_cast<int>(code));
  if (sf_value == 0.0) return {code, 0.0f};
  return {code, reciprocal_ftz(rounded(sf_value * static_cast<double>(reciprocal_ftz(sf_scale))))};
}

FOURSCALE_HD inline bool equal(block_scale<nvfp4> const& got, answer const& want) {
  const bool both_nan = got.multiplier != got.multiplier && want.output_scale != want.output_scale;
  return got.scale.bits == want.scale &&
         (both_nan || bit_cast<u32>(got.multiplier) == bit_cast<u32>(want.output_scale));
}

FOURSCALE_HD inline block_scale<nvfp4> scaled(float amax, float encode_scale) {
  tensor_scale<nvfp4> tensor;
  tensor.encode = encode_scale;  // what no amax gives too: 0, infinity, NaN
  return two_level_inference{}(nvfp4{}, amax, tensor);
}

/// Every bf16 amax, under an encode scale of any exponent, six significands each.
struct every_amax_and_exponent {
  FOURSCALE_HD bool operator()(u64 i) const {
    const float amax = bit_cast<float>(static_cast<u32>(i % 0x7f81) << 16);
    const u32 exponent = static_cast<u32>(i / 0x7f81 / 6), which = static_cast<u32>(i / 0x7f81 % 6);
    constexpr u32 significands[6] = {0, 1, 0x28'0000, 0x2a'aaab, 0x5a'5a5a, 0x7f'ffff};
    const float encode_scale = bit_cast<float>(exponent << 23 | significands[which]);
    return equal(scaled(amax, encode_scale), vllm(amax, encode_scale));
  }
};

/// Floats of every exponent under the scales of some tensors.
struct floats_under_tensors {
  u64 count;
  FOURSCALE_HD bool operator()(u64 i) const {
    const float amax = test::nth_float(i, count);
    if (bit_cast<u32>(amax) > float_inf_bits) return true;  // an amax has no sign and is not NaN
    for (const float of_tensor : {0x1p-120f, 0.7f, 1.0f, 37.0f, 2688.0f, 3e38f}) {
      const tensor_scale<nvfp4> tensor(of_tensor);
      if (!equal(two_level_inference{}(nvfp4{}, amax, tensor), vllm(amax, tensor.encode))) return false;
    }
    return true;
  }
};

static_assert(amax_scaling_policy<two_level_inference, nvfp4>);
static_assert(two_level_inference{}(nvfp4{}, 6.0f, tensor_scale<nvfp4>{}).multiplier == 1.0f);

}  // namespace

TEST_CASE("two_level_inference: vLLM's formula, for every bf16 amax and every exponent of the encode scale",
          "[scaling][two_level_inference]") {
  check_everywhere(u64{0x7f81} * 6 * 255, every_amax_and_exponent{});
  check_everywhere(test::float_count(), floats_under_tensors{test::float_count()});
}

TEST_CASE("two_level_inference: zero, infinity and NaN, as vLLM has them", "[scaling][two_level_inference]") {
  for (const float amax : {0.0f, 0x1p-149f, 1.0f, float_max, infinity})
    for (const float encode_scale :
         {0.0f, 0x1p-149f, 0x1p-126f, 1.0f, 0x1p126f, 0x1.8p126f, float_max, infinity, quiet_nan}) {
      CAPTURE(amax, encode_scale);
      CHECK(equal(scaled(amax, encode_scale), vllm(amax, encode_scale)));
    }
}

TEST_CASE("two_level_inference: a block under a zero scale has codes of zero, and two_level's saturate",
          "[scaling][two_level_inference]") {
  float x[16]{};
  for (int i = 0; i < 16; ++i) x[i] = (i % 2 ? -1.0f : 1.0f) * 0x1p-20f;
  const auto tensor = tensor_scale<nvfp4>::from_encode_scale(1.0f);
  const auto engine = quantize_block<nvfp4>(x, quantizer{nearest_even{}, two_level_inference{}}, tensor);
  const auto training = quantize_block<nvfp4>(x, quantizer{nearest_even{}, two_level{}}, tensor);
  CHECK(engine.scale.bits == 0);
  CHECK(training.scale.bits == 0);
  for (int i = 0; i < 8; ++i) {
    CHECK(engine.codes[i] == 0x80);  // -0 and 0
    CHECK(training.codes[i] == 0xf7);
  }
}
