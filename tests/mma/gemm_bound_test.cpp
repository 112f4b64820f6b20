// SPDX-License-Identifier: Apache-2.0
// The bounds of docs/native_gemm.md: Blackwell's sums are within theirs; those of a tensor core that
// truncates are within that of accumulate::native in any grouping, and reach a third of it; worse sums are
// beyond it.
#include "gemm_bound.hpp"

#include <algorithm>
#include <fourscale/host/gemm_blackwell.hpp>

#include "gemm_data.hpp"
#include "gemm_operand.hpp"
#include "support/catch.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr int f32_bits = 23,
              fp8_bits = 13;  ///< behind the leading one: of sums of bf16, and of FP8 on Hopper

/// Toward zero, to a multiple of 2^(exponent of `largest` - bits).
double truncated(double x, double largest, int bits) {
  if (largest == 0) return 0;
  const double unit = std::ldexp(1.0, std::ilogb(largest) - bits);
  return std::trunc(x / unit) * unit;
}

/// Adds all numbers as the least adder that the bound allows for: each truncated to so many bits below the
/// largest's leading one, so is the sum.
double fused_sum(std::vector<double> const& x) {
  double largest = 0, sum = 0;
  for (const double v : x) largest = std::max(largest, std::fabs(v));
  for (const double v : x) sum += truncated(v, largest, f32_bits);
  return truncated(sum, sum, f32_bits);
}

/// `parts` parts of K, each a chain of sums of `at_once` products and the accumulator; then the parts.
double tensor_core_sum(std::vector<double> const& products, std::size_t at_once, std::size_t parts) {
  std::vector<double> sums;
  const std::size_t each = products.size() / parts;
  for (std::size_t part = 0; part < parts; ++part) {
    double c = 0;
    for (std::size_t k = 0; k < each; k += at_once) {
      std::vector<double> x{c};
      for (std::size_t i = k; i < std::min(k + at_once, each); ++i) x.push_back(products[part * each + i]);
      c = fused_sum(x);
    }
    sums.push_back(c);
  }
  return parts == 1 ? sums[0] : fused_sum(sums);
}

/// A product of FP8 and the sum of its codes' exponents, that of the format's lowest for a subnormal.
struct fp8_product {
  double value;
  int exponent;
  fp8_product(double v, int e) : value(v), exponent(e) {}
  fp8_product(double v) : fp8_product(v, v == 0 ? 0 : std::ilogb(v)) {}  // of normal codes
  fp8_product(e4m3 a, e4m3 b)
      : fp8_product(static_cast<double>(to_float(decode(a))) * static_cast<double>(to_float(decode(b))),
                    exponent_of(a) + exponent_of(b)) {}
  static int exponent_of(e4m3 x) { return std::max(x.bits >> 3 & 15, 1) - 7; }
};

/// One instruction on Hopper, as docs/native_gemm.md describes it.
double fp8_instruction(double c, std::vector<fp8_product> x) {
  x.push_back(c);
  int largest = -1000;
  for (fp8_product const& p : x)
    if (p.value != 0) largest = std::max(largest, p.exponent);
  const double unit = std::ldexp(1.0, largest - fp8_bits);
  double sum = 0;
  for (fp8_product const& p : x) sum += std::trunc(p.value / unit) * unit;
  return truncated(sum, sum, fp8_bits);
}

/// As gemm_fp8(): groups of 128, each a chain of sums of `at_once` products and the accumulator; then in f32.
double fp8_sum(std::vector<fp8_product> const& products, std::size_t at_once) {
  float sum = 0;
  for (std::size_t group = 0; group < products.size(); group += 128) {
    double c = 0;
    const std::size_t end = std::min(group + 128, products.size());
    for (std::size_t k = group; k < end; k += at_once) {
      const auto first = products.begin() + static_cast<std::ptrdiff_t>(k);
      c = fp8_instruction(c, {first, first + static_cast<std::ptrdiff_t>(std::min(at_once, end - k))});
    }
    sum += static_cast<float>(c);
  }
  return static_cast<double>(sum);
}
double in_fp8_bounds(std::vector<fp8_product> const& products, double sum) {
  double exact = 0, magnitude = 0;
  for (fp8_product const& p : products) exact += p.value, magnitude += std::fabs(p.value);
  return std::fabs(sum - exact) / fp8_bound(static_cast<i64>(products.size()), magnitude);
}

/// The error of this sum, in units of the bound.
double in_bounds(std::vector<double> const& products, double sum) {
  double exact = 0, magnitude = 0;
  for (const double p : products) exact += p, magnitude += std::fabs(p);
  return std::fabs(sum - exact) / native_bound(static_cast<i64>(products.size()), magnitude);
}

/// A product of NVFP4 just above 2^22, and then ones just below its last bit of 24.
std::vector<double> lost_products(std::size_t k) {
  std::vector<double> products(k, 0.703125 * 0.703125);
  products[0] = 2112.0 * 2112.0;
  return products;
}

}  // namespace

TEST_CASE("gemm bound: Blackwell's sums are within theirs", "[mma][bound]") {
  for (const kind what : kinds)
    for (const kind other : {kind::gaussian, what}) {
      INFO("kinds " << static_cast<int>(what) << ' ' << static_cast<int>(other));
      auto a = operand<nvfp4, linear>(what, 20, 1024, 1);
      auto b = operand<nvfp4, linear>(other, 24, 1024, 2);
      a.amax = b.amax = unit_scale;
      std::vector<float> d(20 * 24);
      REQUIRE(host::gemm(a.view(), b.view(), matrix_view<float>{d, 20, 24}, {}, accumulate::blackwell{}) ==
              errc::ok);
      const exact_rows rows_a(a.view()), rows_b(b.view());
      for (i64 i = 0; i < 20; ++i)
        for (i64 j = 0; j < 24; ++j) {
          const exact_sum exact = rows_a.times(i, rows_b, j);
          const double error = std::fabs(static_cast<double>(d[static_cast<size_t>(24 * i + j)]) - exact.sum);
          CHECK(error <= model_bound(1024, exact.magnitude, exact.scales));
        }
    }
}

TEST_CASE("gemm bound: truncating tensor cores are within it, in any grouping", "[mma][bound]") {
  for (const kind what : kinds) {
    const auto a = operand<nvfp4, linear>(what, 6, 1024, 1), b = operand<nvfp4, linear>(what, 6, 1024, 2);
    const exact_rows rows_a(a.view()), rows_b(b.view());
    for (std::size_t row = 0; row < 6; ++row) {
      std::vector<double> products;
      for (std::size_t k = row * 1024; k < (row + 1) * 1024; ++k)
        products.push_back(rows_a.values[k] * rows_b.values[k]);
      if (std::all_of(products.begin(), products.end(), [](double p) { return p == 0; })) continue;
      for (const std::size_t at_once : {1u, 4u, 8u, 16u, 32u})
        for (const std::size_t parts : {1u, 2u, 16u})
          CHECK(in_bounds(products, tensor_core_sum(products, at_once, parts)) <= 1);
    }
  }
}

TEST_CASE("gemm bound: it is reached to a third", "[mma][bound]") {
  for (const std::size_t k : {64u, 1024u, 16384u}) {
    const std::vector<double> products = lost_products(k);
    const double reached = in_bounds(products, tensor_core_sum(products, 16, 1));
    CHECK(reached <= 1);
    CHECK(reached > 0.3);
  }
}

TEST_CASE("gemm bound: sums of FP8 are within theirs, reach half of it, and are beyond it without groups",
          "[mma][bound]") {
  for (const std::size_t k : {16u, 128u, 1024u, 4000u})
    for (const int most : {0x77, 0x3f, 0x0f, 0x07}) {  // the last: subnormal codes alone
      std::vector<fp8_product> products;
      for (std::size_t i = 0; i < k; ++i)
        products.emplace_back(e4m3{static_cast<u8>(mix(i) & static_cast<u64>(most | 0x80))},
                              e4m3{static_cast<u8>(mix(i + k) & 0xf7)});
      CHECK(in_fp8_bounds(products, fp8_sum(products, 32)) <= 1);
    }
  // One product of 2^13, and then numbers just below its last bit.
  std::vector<fp8_product> lost(128, 0.9375);
  lost[0] = 8192;
  CHECK(in_fp8_bounds(lost, fp8_sum(lost, 32)) <= 1);
  CHECK(in_fp8_bounds(lost, fp8_sum(lost, 32)) > 0.25);
  // A subnormal code times 256: its product has an exponent of three more than it needs.
  std::vector<fp8_product> subnormal(32, {e4m3{0x0f}, e4m3{0x08}});
  subnormal[0] = {e4m3{0x01}, e4m3{0x78}};
  CHECK(subnormal[0].value == 0.5);
  CHECK(fp8_instruction(0, subnormal) == 0.5);
  const double missed = in_fp8_bounds(subnormal, fp8_sum(subnormal, 32));
  CHECK(missed <= 1);
  CHECK(missed > 0.5);
  // The accumulator of one chain along K no longer takes what is below its last bit.
  const std::vector<fp8_product> ones(65536, 1.0);
  double chain = 0;
  for (std::size_t i = 0; i < ones.size(); i += 32)
    chain = fp8_instruction(chain, std::vector<fp8_product>(32, 1.0));
  CHECK(chain < 65536 / 2);
  CHECK(in_fp8_bounds(ones, chain) > 1);
  CHECK(in_fp8_bounds(ones, fp8_sum(ones, 32)) == 0);
}

TEST_CASE("gemm bound: worse sums are beyond it", "[mma][bound]") {
  std::vector<double> products(1024);
  for (std::size_t i = 0; i < 1024; ++i) products[i] = std::fabs(static_cast<double>(gaussian(i)));
  std::vector<double> fewer = products;
  *std::max_element(fewer.begin(), fewer.end()) = 0;
  CHECK(in_bounds(products, tensor_core_sum(fewer, 16, 1)) > 1);  // a product is missing
  // Four parts of K that are kept in bf16, where 257 becomes 256.
  const float part = static_cast<float>(tensor_core_sum(std::vector<double>(257, 1.0), 16, 1));
  CHECK(part == 257.0f);
  CHECK(in_bounds(std::vector<double>(4 * 257, 1.0),
                  4 * static_cast<double>(to_float(from_float<bf16>(part)))) > 1);
}
