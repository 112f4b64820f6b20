// SPDX-License-Identifier: Apache-2.0
// The tensor scale from what others keep of it: an encode scale (2688 / amax, vLLM's global_scale) or a
// decode scale (amax / 2688, the factor of a GEMM's alpha); and the rule by itself, without an amax.
#include <fourscale/fourscale.hpp>

#include "support/everywhere.hpp"

using namespace fourscale;
using test::check_everywhere;

namespace {

constexpr float infinity = bit_cast<float>(float_inf_bits), quiet_nan = bit_cast<float>(0x7fc0'0000u);

/// a / b, rounded once; what overflows becomes FLT_MAX. Rounding the double quotient of two floats gives
/// their float quotient (53 >= 2 * 24 + 2); a double product of two floats is exact.
FOURSCALE_HD inline float kept_finite(double exact) {
  return exact >= 0x1.ffffffp+127 ? float_max : static_cast<float>(exact);
}
FOURSCALE_HD inline float quotient(double a, double b) {
  volatile double q = a / b;  // volatile: g++ 13 would narrow two divisions into one
  return kept_finite(q);
}

/// For every positive, finite scale of the sweep: the given one is kept, the other two are rounded once.
template <block_format F>
struct scales_are_kept {
  u64 count;
  float range;

  FOURSCALE_HD bool operator()(u64 i) const {
    const float s = test::nth_float(i, count);
    if (bit_cast<u32>(s) == 0 || bit_cast<u32>(s) >= float_inf_bits) return true;
    const double exact = static_cast<double>(s), largest = static_cast<double>(range);
    const auto e = tensor_scale<F>::from_encode_scale(s, range);
    const auto d = tensor_scale<F>::from_decode_scale(s, range);
    return bit_cast<u32>(e.encode) == bit_cast<u32>(s) && bit_cast<u32>(d.decode) == bit_cast<u32>(s) &&
           bit_cast<u32>(e.decode) == bit_cast<u32>(quotient(1.0, exact)) &&
           bit_cast<u32>(d.encode) == bit_cast<u32>(quotient(1.0, exact)) &&
           bit_cast<u32>(e.amax) == bit_cast<u32>(quotient(largest, exact)) &&
           bit_cast<u32>(d.amax) == bit_cast<u32>(kept_finite(exact * largest)) && e.largest == range &&
           d.largest == range && bit_cast<u32>(amax_of_encode_scale<F>(s, range)) == bit_cast<u32>(e.amax) &&
           bit_cast<u32>(amax_of_decode_scale<F>(s, range)) == bit_cast<u32>(d.amax);
  }
};

bool same(float a, float b) { return bit_cast<u32>(a) == bit_cast<u32>(b); }

template <block_format F>
bool same(tensor_scale<F> const& a, tensor_scale<F> const& b) {
  return same(a.amax, b.amax) && same(a.largest, b.largest) && same(a.encode, b.encode) &&
         same(a.decode, b.decode);
}

template <block_format F>
void check_what_is_no_scale() {
  for (const float zero : {0.0f, -0.0f}) {
    CHECK(same(tensor_scale<F>::from_encode_scale(zero), tensor_scale<F>(infinity)));
    CHECK(same(tensor_scale<F>::from_decode_scale(zero), tensor_scale<F>(0.0f)));
  }
  CHECK(same(tensor_scale<F>::from_encode_scale(infinity), tensor_scale<F>(0.0f)));
  CHECK(same(tensor_scale<F>::from_decode_scale(infinity), tensor_scale<F>(infinity)));
  for (const auto t :
       {tensor_scale<F>::from_encode_scale(quiet_nan), tensor_scale<F>::from_decode_scale(quiet_nan)}) {
    CHECK(t.amax != t.amax);
    CHECK(same(t.encode, tensor_scale<F>(quiet_nan).encode));
    CHECK(same(t.decode, tensor_scale<F>(quiet_nan).decode));
  }
}

static_assert(tensor_scale<nvfp4>::from_encode_scale(1344.0f).amax == 2.0f);
static_assert(tensor_scale<nvfp4>::from_encode_scale(0x1p-149f).decode == float_max,
              "overflow is no error in a constant expression");
static_assert(sizeof(tensor_range<nvfp4>) == sizeof(float));

}  // namespace

TEST_CASE("tensor_scale: an encode or decode scale is kept, its inverse and amax are rounded once",
          "[scaling][tensor_scale]") {
  const u64 n = test::float_count();
  check_everywhere(n, scales_are_kept<nvfp4>{n, 2688.0f});
  check_everywhere(n, scales_are_kept<nvfp4>{n, 1536.0f});
  check_everywhere(n, scales_are_kept<nvfp4>{n, 1.0f});
  check_everywhere(n, scales_are_kept<fp8_e4m3>{n, 448.0f});
}

TEST_CASE("tensor_scale: what is no scale gives what the amax behind it gives", "[scaling][tensor_scale]") {
  check_what_is_no_scale<nvfp4>();
  check_what_is_no_scale<fp8_e4m3>();
  check_what_is_no_scale<fp8_e5m2>();
}

TEST_CASE("tensor_scale: conversions by name, in both directions", "[scaling][tensor_scale]") {
  CHECK(encode_scale_of<nvfp4>(2.0f) == 1344.0f);
  CHECK(encode_scale_of<nvfp4>(2.0f, 1536.0f) == 768.0f);
  CHECK(amax_of_encode_scale<nvfp4>(1344.0f) == 2.0f);
  CHECK(amax_of_decode_scale<nvfp4>(0.5f) == 1344.0f);
  CHECK(decode_scale_of<fp8_e4m3>(1.75f) == 0x1p-8f);
  for (const float amax : {0.0f, 0x1p-149f, 0.7f, 37.0f, float_max, infinity, quiet_nan}) {
    CHECK(same(encode_scale_of<nvfp4>(amax), tensor_scale<nvfp4>(amax).encode));
    CHECK(same(decode_scale_of<nvfp4>(amax), tensor_scale<nvfp4>(amax).decode));
    CHECK(same(encode_scale_of<fp8_e5m2>(amax), tensor_scale<fp8_e5m2>(amax).encode));
    CHECK(same(decode_scale_of<fp8_e5m2>(amax), tensor_scale<fp8_e5m2>(amax).decode));
  }
}

TEST_CASE("tensor_scale: with range 1, dequantization multiplies by scale * decode, rounded once",
          "[scaling][tensor_scale]") {
  for (const float d : {0.1f, 0x1.234568p-20f, 3.3e-39f}) {
    const auto t = tensor_scale<nvfp4>::from_decode_scale(d, 1.0f);
    for (const float scale : {0x1p-9f, 0.8125f, 448.0f}) CHECK(same(t.dequantize_factor(scale), scale * d));
  }
}

TEST_CASE("tensor_range: the rule of a tensor scale, from a scaling policy or a scale",
          "[scaling][tensor_scale]") {
  CHECK(range_of<nvfp4>(two_level{}) == tensor_range<nvfp4>{});
  CHECK(range_of<nvfp4>(amax_scale{}).largest == 2688.0f);
  CHECK(range_of<nvfp4>(four_over_six<>{}).largest == 1536.0f);
  CHECK(range_of<nvfp4>(four_over_six<>{}) != range_of<nvfp4>(two_level{}));
  CHECK(range_of<nvfp4>(two_level_headroom{}) == tensor_range<nvfp4>{2688.0f * (16.0f / 17.0f)});
  const tensor_range<fp8_e4m3> fp8 = range_of<fp8_e4m3>(current_scaling{1, 2.0f, true});
  CHECK(fp8 == tensor_range<fp8_e4m3>{224.0f, 2.0f, true});
  CHECK(fp8 != tensor_range<fp8_e4m3>{224.0f, 2.0f, false});
  CHECK(fp8 != tensor_range<fp8_e4m3>{224.0f, 0.0f, true});
  CHECK(range_of<mxfp4>(amax_scale{}) == tensor_range<mxfp4>{});
  for (const float amax : {0.0f, 0.25f, 37.0f, infinity}) {
    CHECK(same(fp8.scale(amax), tensor_scale_for<fp8_e4m3>(current_scaling{1, 2.0f, true}, amax)));
    CHECK(same(range_of<nvfp4>(four_over_six<>{}).scale(amax),
               tensor_scale_for<nvfp4>(four_over_six<>{}, amax)));
    CHECK(fp8.scale(amax).range() == fp8);
    CHECK(tensor_scale<nvfp4>(amax, 1536.0f).range() == tensor_range<nvfp4>{1536.0f});
  }
  CHECK(tensor_range<mxfp4>{}.scale(3.0f).dequantize_factor(2.0f) == 2.0f);
}

TEST_CASE("tensor_scale: NaN stays NaN under an epsilon, and gives scale 1 for FP8",
          "[scaling][tensor_scale]") {
  CHECK(tensor_scale<fp8_e4m3>(quiet_nan, 448.0f, 0.5f).encode == 1.0f);
}
