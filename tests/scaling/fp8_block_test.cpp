// SPDX-License-Identifier: Apache-2.0
// The FP32 scale of FP8 blocks against Transformer Engine's rule, restated in double.
#include <fourscale/block/quantize.hpp>

#include "support/everywhere.hpp"
#include "support/grid.hpp"

using namespace fourscale;
using test::check_everywhere;

namespace {

constexpr float infinity = bit_cast<float>(float_inf_bits), quiet_nan = bit_cast<float>(0x7fc0'0000u);

/// max / amax, rounded once to float; 1 for 0, infinity and NaN; FLT_MAX where it overflows.
FOURSCALE_HD constexpr float restated(double largest, float amax) {
  if (!(amax > 0) || amax == infinity) return 1.0f;
  const double quotient = largest / static_cast<double>(amax);
  return quotient >= 0x1.ffffffp+127 ? float_max : static_cast<float>(quotient);
}

template <block_format F>
struct scales_as_restated {
  u64 count;
  FOURSCALE_HD bool operator()(u64 i) const {
    const float amax = test::nth_float(i, count);
    if (bit_cast<u32>(amax) > 0x7fff'ffffu) return true;  // an amax has no sign
    const double largest = test::value_of<typename F::element>(F::element::max_bits);
    const float exact = restated(largest, amax);
    const float floored = bit_cast<float>(bit_cast<u32>(exact) / 0x80'0000u * 0x80'0000u);
    const block_scale<F> full = fp8_block_scale{false}(F{}, amax, {}),
                         power = fp8_block_scale{}(F{}, amax, {});
    return full.multiplier == exact && decode(full.scale) == ptx::div_rn_f32(1.0f, exact) &&
           power.multiplier == floored && decode(power.scale) == ptx::div_rn_f32(1.0f, floored);
  }
};

/// A power of two divides exactly, so what was stored is the inverse of what was multiplied by.
template <block_format F>
struct power_of_two_scales_are_exact {
  u64 count;
  FOURSCALE_HD bool operator()(u64 i) const {
    const float amax = test::nth_float(i, count);
    if (bit_cast<u32>(amax) > 0x7fff'ffffu) return true;
    const block_scale<F> s = fp8_block_scale{}(F{}, amax, {});
    const double product = static_cast<double>(s.multiplier) * static_cast<double>(decode(s.scale));
    const double largest = test::value_of<typename F::element>(F::element::max_bits);
    const bool saturates =
        amax<infinity&& static_cast<double>(amax) * static_cast<double>(s.multiplier)> largest;
    return product == 1.0 && !saturates;
  }
};

/// Transformer Engine's compute_scale_from_amax, word by word: value_for_inf is the largest value of the
/// input type (compute_scale_from_types).
FOURSCALE_HD inline float te_scale(float amax, float largest, bool power_of_two, float epsilon,
                                   float value_for_inf) {
  if (amax < epsilon) amax = epsilon;
  const u32 u = bit_cast<u32>(amax) & 0x7fff'ffffu;
  if (u == 0 || u >= float_inf_bits) return 1.0f;
  float scale = ptx::div_rn_f32(largest, amax);
  if (bit_cast<u32>(scale) == float_inf_bits) scale = value_for_inf;
  return power_of_two ? bit_cast<float>(bit_cast<u32>(scale) & 0xff80'0000u) : scale;
}

template <class T>
struct scales_of_input {
  u64 count;
  float value_for_inf;

  FOURSCALE_HD bool holds(float amax, bool power_of_two, float epsilon) const {
    const float scale = te_scale(amax, 448.0f, power_of_two, epsilon, value_for_inf);
    const fp8_block_scale rule = fp8_block_scale{power_of_two, epsilon}.template for_input<T>();
    const block_scale<fp8_block_e4m3> s = rule(fp8_block_e4m3{}, amax, {});
    return bit_cast<u32>(s.multiplier) == bit_cast<u32>(scale) &&
           s.scale.bits == bit_cast<u32>(ptx::rcp_rn_f32(scale)) &&
           (power_of_two ||
            bit_cast<u32>(fp8_scale<e4m3>(amax, epsilon, value_for_inf)) == bit_cast<u32>(scale));
  }
  FOURSCALE_HD bool operator()(u64 i) const {
    const float amax = test::nth_float(i, count);
    if (bit_cast<u32>(amax) > 0x7fff'ffffu) return true;
    for (const float epsilon : {0.0f, 0x1p-130f, 0x1p-120f, 1e-4f})
      if (!holds(amax, false, epsilon) || !holds(amax, true, epsilon)) return false;
    return true;
  }
};

static_assert(fp8_scale<e4m3>(448.0f) == 1.0f && fp8_scale<e4m3>(3.5f) == 128.0f);
static_assert(fp8_scale<e4m3>(0.0f) == 1.0f && fp8_scale<e5m2>(infinity) == 1.0f);

}  // namespace

TEST_CASE("fp8_block_scale: equal to Transformer Engine's rule", "[scaling][fp8_block]") {
  check_everywhere(test::float_count(), scales_as_restated<fp8_block_e4m3>{test::float_count()});
  check_everywhere(test::float_count(), scales_as_restated<fp8_block_e5m2>{test::float_count()});
}

TEST_CASE("fp8_block_scale: a power of two stores its exact inverse and saturates nothing",
          "[scaling][fp8_block]") {
  check_everywhere(test::float_count(), power_of_two_scales_are_exact<fp8_block_e4m3>{test::float_count()});
  check_everywhere(test::float_count(), power_of_two_scales_are_exact<fp8_block_e5m2>{test::float_count()});
}

TEST_CASE("fp8_scale: epsilon is the least amax; what overflows becomes FLT_MAX", "[scaling][fp8_block]") {
  CHECK(fp8_scale<e4m3>(0.0f, 0.5f) == 896.0f);
  CHECK(fp8_scale<e4m3>(0.25f, 0.5f) == 896.0f);
  CHECK(fp8_scale<e4m3>(2.0f, 0.5f) == 224.0f);
  CHECK(fp8_scale<e4m3>(0x1p-149f) == float_max);
  CHECK(fp8_scale<e4m3>(quiet_nan) == 1.0f);
  CHECK(fp8_block_scale{}(fp8_block_e4m3{}, 0x1p-149f, {}).multiplier == 0x1p127f);
}

TEST_CASE("fp8_block_scale: what overflows becomes the largest value of the input type, as in TE",
          "[scaling][fp8_block]") {
  const u64 n = test::float_count();
  check_everywhere(n, scales_of_input<float>{n, float_max});
  check_everywhere(n, scales_of_input<bf16>{n, 0x1.fep127f});
  check_everywhere(n, scales_of_input<fp16>{n, 65504.0f});
  // A type that is named stays; a block of floats, where none is, counts as float.
  const fp8_block_scale named = fp8_block_scale{false}.for_input<bf16>();
  CHECK(named.for_input<float>().largest_input == 0x1.fep127f);
  CHECK(named(fp8_block_e4m3{}, 0x1p-133f, {}).scale.bits == 0x0020'2020);
  CHECK(fp8_block_scale{false}(fp8_block_e4m3{}, 0x1p-133f, {}).scale.bits == 0x0020'0000);
}

TEST_CASE("fp8_block_scale: without an epsilon, powers of two do not depend on the input type",
          "[scaling][fp8_block]") {
  for (u32 i = 0; i < 0x7c00; ++i) {  // every fp16 that may be an amax, infinity aside
    const float amax = to_float(fp16{static_cast<u16>(i)});
    CHECK(fp8_block_scale{}.for_input<fp16>()(fp8_block_e4m3{}, amax, {}).multiplier ==
          amax_scale{}(fp8_block_e4m3{}, amax, {}).multiplier);
  }
  for (u32 i = 0; i <= 0x7f80; ++i) {
    const float amax = to_float(bf16{static_cast<u16>(i)});
    CHECK(fp8_block_scale{}.for_input<bf16>()(fp8_block_e4m3{}, amax, {}).multiplier ==
          amax_scale{}(fp8_block_e4m3{}, amax, {}).multiplier);
  }
}

TEST_CASE("amax_scale: each format gets the rule of NVIDIA's recipe", "[scaling][amax_scale]") {
  for (const float amax : {0.0f, 0.7f, 5.3f, 300.0f, 2000.0f}) {
    const tensor_scale<nvfp4> tensor(2100.0f);
    CHECK(amax_scale{}(nvfp4{}, amax, tensor).scale == two_level{}(nvfp4{}, amax, tensor).scale);
    CHECK(amax_scale{}(nvfp4{}, amax, tensor).multiplier == two_level{}(nvfp4{}, amax, tensor).multiplier);
    CHECK(amax_scale{}(mxfp8{}, amax, {}).scale == power_of_two_up{}(mxfp8{}, amax, {}).scale);
    CHECK(amax_scale{}(mxfp4{}, amax, {}).scale == power_of_two_up{}(mxfp4{}, amax, {}).scale);
    const block_scale<fp8_block_e4m3> fp8 = amax_scale{}(fp8_block_e4m3{}, amax, {});
    CHECK(fp8.scale == fp8_block_scale{}(fp8_block_e4m3{}, amax, {}).scale);
  }
}
