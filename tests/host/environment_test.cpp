// SPDX-License-Identifier: Apache-2.0
// What docs/exactness.md says of the CPU's floating-point environment: who does not depend on it, and who
// asks for the default. The matrices are too small for a second thread, which has an environment of its own.
#include <cfenv>
#include <fourscale/fourscale.hpp>
#include <vector>

#include "support/amax.hpp"
#include "support/data.hpp"
#include "support/everywhere.hpp"

#if defined(__SSE2__)
#include <xmmintrin.h>

using namespace fourscale;

namespace {

enum environment : unsigned {
  usual = 0,
  flush_to_zero = 0x8000,
  denormals_are_zero = 0x0040,
  both_flags = 0x8040,
  down = 0x2000,
  up = 0x4000,
  to_zero = 0x6000
};
constexpr environment flushing[] = {flush_to_zero, denormals_are_zero, both_flags};
constexpr environment rounding[] = {down, up, to_zero};

/// run() under MXCSR bits, which nothing may be moved across.
template <class Run>
auto under(environment e, Run const& run) {
  const unsigned saved = _mm_getcsr();
  _mm_setcsr((saved & ~0xe040u) | e);
  asm volatile("" ::: "memory");
  const auto result = run();
  asm volatile("" ::: "memory");
  _mm_setcsr(saved);
  return result;
}

constexpr i64 rows = 32, cols = 64;

/// About N(0, 1), or the same times 2^-127, where every value is subnormal or nearly so.
std::vector<float> values(bool tiny) {
  std::vector<float> x(rows * cols);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = test::gaussian(i) * (tiny ? 0x1p-127f : 1.0f);
  return x;
}

/// Codes, scales and the values that they give back, in one string of bytes.
template <class F>
std::vector<u8> round_trip(std::vector<float> const& x) {
  std::vector<u8> codes(static_cast<std::size_t>(code_bytes<F>(rows, cols))),
      scales(static_cast<std::size_t>(scale_bytes<F>(rows, cols)));
  std::vector<float> y(x.size());
  float amax = 0;
  const matrix_view<float const> m(x, rows, cols);
  const block_scaled_view<F> q(codes, scales, rows, cols, amax_in(&amax));
  if (host::amax(m, &amax) != errc::ok || host::quantize(m, q) != errc::ok ||
      host::dequantize(q, matrix_view<float>(y, rows, cols)) != errc::ok)
    return {};
  codes.insert(codes.end(), scales.begin(), scales.end());
  for (const float f : y)
    for (int i = 0; i < 4; ++i) codes.push_back(static_cast<u8>(bit_cast<u32>(f) >> (8 * i)));
  return codes;
}

template <class F>
u64 codes_of_all() {
  u64 hash = 0;
  const u64 n = test::float_count() < (u64{1} << 20) ? test::float_count() : u64{1} << 20;
  for (u64 i = 0; i < n; ++i) hash = test::mix(hash ^ encode<F>(test::nth_float(i, u64{1} << 19)).bits);
  for (int code = 0; code < 1 << F::width; ++code)
    hash = test::mix(hash ^ bit_cast<u32>(decode(F{static_cast<u8>(code)})));
  return hash;
}

template <class F>
void check_formats() {
  const u64 want = codes_of_all<F>();
  for (const environment e : flushing) CHECK(under(e, codes_of_all<F>) == want);
  for (const environment e : rounding) CHECK(under(e, codes_of_all<F>) == want);
}

}  // namespace

TEST_CASE("environment: encode and decode do not depend on it", "[host][environment]") {
  check_formats<e2m1>();
  check_formats<e4m3>();
  check_formats<e5m2>();
  check_formats<e2m3>();
  check_formats<e3m2>();
}

TEST_CASE("environment: amax does not depend on it", "[host][environment]") {
  for (const bool tiny : {false, true}) {
    const std::vector<float> x = values(tiny);
    const auto amax = [&] { return bit_cast<u32>(test::amax_of(matrix_view<float const>(x, rows, cols))); };
    const u32 want = amax();
    CHECK(want != 0);
    for (const environment e : flushing) CHECK(under(e, amax) == want);
    for (const environment e : rounding) CHECK(under(e, amax) == want);
  }
}

TEST_CASE("environment: flushing changes no matrix whose values and products are normal",
          "[host][environment]") {
  const std::vector<float> x = values(false);
  for (const environment e : flushing) {
    CHECK(under(e, [&] { return round_trip<nvfp4>(x); }) == round_trip<nvfp4>(x));
    CHECK(under(e, [&] { return round_trip<mxfp4>(x); }) == round_trip<mxfp4>(x));
    CHECK(under(e, [&] { return round_trip<mxfp8>(x); }) == round_trip<mxfp8>(x));
    CHECK(under(e, [&] { return round_trip<fp8_e4m3>(x); }) == round_trip<fp8_e4m3>(x));
  }
}

// If one of these comes out equal, the library has become better than its documentation: change that too.
TEST_CASE("environment: matrices ask for subnormals and for rounding to nearest", "[host][environment]") {
  const std::vector<float> x = values(false), small = values(true);
  CHECK(under(both_flags, [&] { return round_trip<nvfp4>(small); }) != round_trip<nvfp4>(small));
  for (const environment e : rounding)
    CHECK(under(e, [&] { return round_trip<nvfp4>(x); }) != round_trip<nvfp4>(x));
}

#endif
