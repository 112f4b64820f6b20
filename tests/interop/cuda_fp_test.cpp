// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding against the host conversions of the CUDA toolkit, and the toolkit's types in views.
// Where there is no toolkit it says so and nothing else.
#if __has_include(<cuda_fp4.h>)
#include <fourscale/host/quantize.hpp>
#include <fourscale/interop/cuda_fp.hpp>
#include <vector>

#include "support/data.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;
using test::nth_float;

namespace {

/// The toolkit's conversion of a float, nearest even and saturating, and of a code to half: by format.
template <class F>
struct toolkit;
template <>
struct toolkit<e2m1> {
  static u32 encode(float x) { return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest); }
  static __half_raw decode(u8 c) { return __nv_cvt_fp4_to_halfraw(c, __NV_E2M1); }
};
template <>
struct toolkit<e2m3> {
  static u32 encode(float x) { return __nv_cvt_float_to_fp6(x, __NV_E2M3, cudaRoundNearest); }
  static __half_raw decode(u8 c) { return __nv_cvt_fp6_to_halfraw(c, __NV_E2M3); }
};
template <>
struct toolkit<e3m2> {
  static u32 encode(float x) { return __nv_cvt_float_to_fp6(x, __NV_E3M2, cudaRoundNearest); }
  static __half_raw decode(u8 c) { return __nv_cvt_fp6_to_halfraw(c, __NV_E3M2); }
};
template <>
struct toolkit<e4m3> {
  static u32 encode(float x) { return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3); }
  static __half_raw decode(u8 c) { return __nv_cvt_fp8_to_halfraw(c, __NV_E4M3); }
};
template <>
struct toolkit<e5m2> {
  static u32 encode(float x) { return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2); }
  static __half_raw decode(u8 c) { return __nv_cvt_fp8_to_halfraw(c, __NV_E5M2); }
};

bool same_number(float a, float b) { return a != a ? b != b : bit_cast<u32>(a) == bit_cast<u32>(b); }

template <class F>
void check_format() {
  INFO(F::name);
  u64 wrong = 0;
  const u64 count = (u64{1} << 16) * test::lows;
  for (u64 i = 0; i < count; ++i) {
    const float x = nth_float(i, count);
    wrong += encode<F>(x).bits != toolkit<F>::encode(x);
  }
  CHECK(wrong == 0);
  for (u32 code = 0; code < 1u << F::width; ++code) {
    const __half_raw half = toolkit<F>::decode(static_cast<u8>(code));
    const float value = to_float(fp16{half.x});
    CHECK(same_number(decode(F{static_cast<u8>(code)}), value));
  }
}

/// Our code as the toolkit's type has the same value there, and comes back.
template <class F>
void check_types() {
  INFO(F::name);
  static_assert(sizeof(interop::cuda_type_t<F>) == sizeof(F));
  for (u32 code = 0; code < 1u << F::width; ++code) {
    const F ours{static_cast<u8>(code)};
    const auto theirs = interop::to_cuda(ours);
    CHECK(same_number(static_cast<float>(theirs), decode(ours)));
    CHECK(interop::from_cuda<F>(theirs) == ours);
  }
}

template <class T>
std::vector<T> some_values(i64 n) {
  std::vector<T> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = from_float<T>(test::activation(i / 64, i));
  return x;
}

/// A matrix of the toolkit's type quantizes as one of ours.
template <class Theirs, class Ours>
void check_source() {
  const std::vector<Theirs> x = some_values<Theirs>(8 * 64);
  const std::vector<Ours> y = some_values<Ours>(8 * 64);
  std::vector<u8> codes[2], scales[2];
  for (int k = 0; k < 2; ++k) {
    codes[k].resize(8 * 32), scales[k].resize(8 * 4);
    const block_scaled_view<nvfp4> q{codes[k], scales[k], 8, 64, amax_value(300.0f)};
    if (k == 0)
      CHECK(host::quantize(matrix_view<Theirs const>{x, 8, 64}, q) == errc::ok);
    else
      CHECK(host::quantize(matrix_view<Ours const>{y, 8, 64}, q) == errc::ok);
  }
  CHECK((codes[0] == codes[1] && scales[0] == scales[1]));
}

}  // namespace

TEST_CASE("cuda_fp: encode and decode equal the toolkit's conversions", "[interop][cuda_fp]") {
  check_format<e2m1>();
  check_format<e2m3>();
  check_format<e3m2>();
  check_format<e4m3>();
  check_format<e5m2>();
}

TEST_CASE("cuda_fp: e8m0 equals the toolkit's, upward and toward zero", "[interop][cuda_fp]") {
  u64 wrong = 0;
  const u64 count = (u64{1} << 16) * test::lows;
  for (u64 i = 0; i < count; ++i) {
    const float x = nth_float(i, count);
    if (bit_cast<u32>(x) >> 31) continue;  // a scale has no sign
    wrong += encode_up<e8m0>(x).bits != __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf);
    wrong += encode_down<e8m0>(x).bits != __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundZero);
  }
  CHECK(wrong == 0);
}

TEST_CASE("cuda_fp: a code is the same number as the toolkit's type", "[interop][cuda_fp]") {
  check_types<e2m1>();
  check_types<e2m3>();
  check_types<e3m2>();
  check_types<e4m3>();
  check_types<e5m2>();
  for (u32 code = 0; code < 256; ++code) {
    const e8m0 ours{static_cast<u8>(code)};
    CHECK(interop::from_cuda<e8m0>(interop::to_cuda(ours)) == ours);
    CHECK(same_number(static_cast<float>(interop::to_cuda(ours)), decode(ours)));
  }
}

TEST_CASE("cuda_fp: packed codes keep their order", "[interop][cuda_fp]") {
  const e2m1x4 four = encode<e2m1>({0.5f, -1.0f, 3.0f, -6.0f});
  const float4 values = static_cast<float4>(interop::to_cuda(four));
  CHECK(values.x == 0.5f);
  CHECK(values.y == -1.0f);
  CHECK(values.z == 3.0f);
  CHECK(values.w == -6.0f);
  CHECK(interop::from_cuda<e2m1x4>(interop::to_cuda(four)) == four);
  const float2 pair = static_cast<float2>(interop::to_cuda(encode<e4m3>(2.0f, -448.0f)));
  CHECK(pair.x == 2.0f);
  CHECK(pair.y == -448.0f);
  const float4 wide = static_cast<float4>(interop::to_cuda(encode<e5m2>({1.0f, 2.0f, -3.0f, 57344.0f})));
  CHECK(wide.x == 1.0f);
  CHECK(wide.w == 57344.0f);
}

TEST_CASE("cuda_fp: bf16 and fp16 round as the toolkit's types do", "[interop][cuda_fp]") {
  u64 wrong = 0;
  const u64 count = (u64{1} << 16) * test::lows;
  for (u64 i = 0; i < count; ++i) {
    const float x = nth_float(i, count);
    wrong += from_float<bf16>(x).bits != __bfloat16_as_ushort(__float2bfloat16_rn(x));
    wrong += from_float<fp16>(x).bits != __half_as_ushort(__float2half_rn(x));
    wrong += !same_number(to_float(from_float<__nv_bfloat16>(x)), __bfloat162float(__float2bfloat16_rn(x)));
    wrong += !same_number(to_float(from_float<__half>(x)), __half2float(__float2half_rn(x)));
  }
  CHECK(wrong == 0);
  CHECK(interop::from_cuda<bf16>(interop::to_cuda(bf16{0x3f81})) == bf16{0x3f81});
  CHECK(interop::from_cuda<fp16>(interop::to_cuda(fp16{0x3c01})) == fp16{0x3c01});
}

TEST_CASE("cuda_fp: the largest value of a 16-bit type is the toolkit's", "[interop][cuda_fp]") {
  CHECK(largest_real<__nv_bfloat16>() == __bfloat162float(__ushort_as_bfloat16(0x7f7f)));
  CHECK(largest_real<__half>() == __half2float(__ushort_as_half(0x7bff)));
}

TEST_CASE("cuda_fp: a matrix of __nv_bfloat16 or __half quantizes as one of bf16 or fp16",
          "[interop][cuda_fp]") {
  check_source<__nv_bfloat16, bf16>();
  check_source<__half, fp16>();
}

#else
#include "support/catch.hpp"

TEST_CASE("cuda_fp: needs the headers of the CUDA toolkit", "[interop][cuda_fp]") {
  WARN("no <cuda_fp4.h> here: not run");
}
#endif
