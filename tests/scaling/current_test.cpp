// SPDX-License-Identifier: Apache-2.0
// FP8 under one scale a tensor: the rules of Transformer Engine for zero, infinite, NaN and tiny amaxes,
// margin, epsilon and powers of two; one row of amaxes; the bytes that such a tensor has.
#include <cmath>
#include <fourscale/fourscale.hpp>
#include <vector>

#include "support/amax.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;

namespace {

constexpr float infinity = bit_cast<float>(float_inf_bits), nan_value = bit_cast<float>(0x7fc0'0000u);

float scale_of(float amax, current_scaling rule = {}) {
  return tensor_scale_for<fp8_e4m3>(rule, amax).encode;
}

/// For every positive bf16 amax: 448 / amax, rounded once, and kept finite.
struct scale_is_the_quotient {
  FOURSCALE_HD bool operator()(u64 i) const {
    const float amax = to_float(bf16{static_cast<u16>(i)});
    const tensor_scale<fp8_e4m3> t(amax);
    if (!(amax > 0.0f) || amax > float_max) return t.encode == 1.0f && t.decode == 1.0f;
    volatile double quotient =
        448.0 / static_cast<double>(amax);  // volatile: g++ 13 narrows the two divisions
    const float want = quotient > 0x1.fffffefp127 ? float_max : static_cast<float>(quotient);
    volatile double inverse = 1.0 / static_cast<double>(want);
    return t.encode == want && t.decode == static_cast<float>(inverse);
  }
};

}  // namespace

TEST_CASE("current scaling: 448 / amax for every bf16 amax, 1 for zero, infinity and NaN",
          "[scaling][current]") {
  // A double quotient of two floats rounded to float is the float quotient (53 >= 2 * 24 + 2).
  test::check_everywhere(65536, scale_is_the_quotient{});
  CHECK(scale_of(0.0f) == 1.0f);
  CHECK(scale_of(infinity) == 1.0f);
  CHECK(scale_of(nan_value) == 1.0f);
  CHECK(scale_of(0x1p-149f) == float_max);
  CHECK(tensor_scale<fp8_e5m2>(2.0f).encode == 28672.0f);
}

TEST_CASE("current scaling: margin, epsilon and powers of two", "[scaling][current]") {
  CHECK(scale_of(1.0f, {2}) == 112.0f);
  CHECK(scale_of(0.5f, {0, 1.0f}) == 448.0f);
  CHECK(scale_of(0.0f, {0, 1.0f}) == 448.0f);
  CHECK(scale_of(1.0f, {0, 0.0f, true}) == 256.0f);
  CHECK(scale_of(7.0f, {0, 0.0f, true}) == 64.0f);
  const tensor_scale<fp8_e4m3> t = tensor_scale_for<fp8_e4m3>(current_scaling{1, 2.0f, true}, 3.0f);
  const tensor_scale<fp8_e4m3> same = tensor_scale<fp8_e4m3>(3.0f, 224.0f, 2.0f, true);
  CHECK(t.encode == same.encode);
  CHECK(t.with_amax(1.0f).encode == 64.0f);  // epsilon 2: 224 / 2 = 112, down to a power of two
}

TEST_CASE("fp8 per tensor: a matrix there and back, without one byte of scales", "[scaling][current]") {
  CHECK(scale_bytes<fp8_e4m3>(64, 64) == 0);
  CHECK(code_bytes<fp8_e4m3>(64, 64) == 4096);
  std::vector<float> x(64 * 64), y(64 * 64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i)) * 3.0f;
  std::vector<u8> codes(64 * 64);
  block_scaled_view<fp8_e4m3> q{codes.data(), nullptr, 64, 64};
  const matrix_view<float const> m{x, 64, 64};
  const tensor_scale<fp8_e4m3> tensor(test::amax_of(m));
  q.amax = amax_value(tensor.amax);
  REQUIRE(host::quantize(m, q) == errc::ok);
  REQUIRE(host::dequantize(q, matrix_view<float>{y, 64, 64}) == errc::ok);
  for (size_t i = 0; i < x.size(); ++i) {
    const float code = decode(encode<e4m3>(x[i] * tensor.encode));
    CHECK(y[i] == code * tensor.decode);
  }
  std::vector<float> amax(64);
  REQUIRE(host::row_amax(m, amax.data()) == errc::ok);
  q.amax = amax_of_rows(amax.data());
  REQUIRE(host::quantize(m, q) == errc::ok);
  REQUIRE(host::dequantize(q, matrix_view<float>{y, 64, 64}) == errc::ok);
  for (i64 row = 0; row < 64; ++row) {
    const tensor_scale<fp8_e4m3> t(amax[static_cast<size_t>(row)]);
    for (i64 col = 0; col < 64; ++col)
      CHECK(y[static_cast<size_t>(row * 64 + col)] ==
            decode(encode<e4m3>(m.at(row, col) * t.encode)) * t.decode);
  }
}
