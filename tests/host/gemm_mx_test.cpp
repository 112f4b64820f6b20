// SPDX-License-Identifier: Apache-2.0
// MXFP8, MXFP6 and MXFP4 by each other on the CPU compared with the chained model, bit by bit: shapes and
// kinds of data, all codes and scales, and values made for the bounds of the certificate.
#include "mma/cpu_gemm.hpp"
#include "mma/gemm_mx_cases.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// Compares D with the oracle's; gives how the steps were added.
template <class Case>
gemm_steps check(Case& c, std::vector<float> const& sums) {
  gemm_steps steps;
  CHECK(same_bits(c.on_host(cpu_gemm{&steps}), c.output_of(sums)));
  CHECK(steps.in_f32 + steps.in_double + steps.by_model == c.o.m * c.o.n * ceil_div<i64>(c.o.k, 32));
  return steps;
}

/// A part of the table of shapes, another for each pair of formats.
template <class F, class G>
void check_table(int part) {
  for_each_of_table<F, G>([](auto c, std::vector<float> const& sums) { check(c, sums); }, part, 10);
}

}  // namespace

TEST_CASE("gemm mx: shapes with each kind of data", "[host][gemm]") {
  check_table<mxfp6_e2m3, mxfp6_e2m3>(0);
  check_table<mxfp6_e3m2, mxfp6_e3m2>(1);
  check_table<mxfp8_e4m3, mxfp8_e4m3>(2);
  check_table<mxfp8_e4m3, mxfp8_e5m2>(3);
  check_table<mxfp4, mxfp8_e4m3>(4);
  check_table<mxfp6_e2m3, mxfp6_e3m2>(5);
}

TEST_CASE("gemm mx: every code and scale, NaN and infinity among them", "[host][gemm]") {
  for_all_mx_codes([](auto& c) { CHECK(check(c, c.sums()).by_model > 0); });
}

TEST_CASE("gemm mx: one NaN, infinity or NaN scale among ones and zeros", "[host][gemm]") {
  for_each_not_finite([](auto& c) {
    const std::vector<float> sums = c.sums();
    CHECK_FALSE(sums[4] - sums[4] == 0.0f);
    CHECK(check(c, sums).by_model >= 4 * 2);  // that step and the next one
  });
}

namespace {

/// Codes of any size, some of them NaN or infinite if `all`, under scales about 2^exponent.
template <class F>
void fill_any(gemm_operand_data<F, linear>& x, u64 seed, bool all, int exponent) {
  for (size_t i = 0; i < x.codes.size(); ++i) {
    const u64 word = mix(i + seed);
    const u8 code = static_cast<u8>(word >> 8);
    const bool finite = (code & 0x7f) < (same_type<typename F::element, e5m2> ? 0x7c : 0x7f);
    x.codes[i] = word % 4 == 0 ? u8{0} : all && word % 997 == 5 ? u8{0x7f} : finite ? code : u8{0x3c};
  }
  for (size_t i = 0; i < x.scales.size(); ++i)
    x.scales[i] = static_cast<u8>(e8m0::bias + exponent + static_cast<int>(mix(i + seed + 7) % 5));
}

}  // namespace

TEST_CASE("gemm mx: the adder's rule at the ends of what it is for", "[host][gemm]") {
  for (const bool all : {false, true})
    for (const int exponent : {-41, -40, -25, 0, 20, 23}) {
      INFO("exponent " << exponent << ", all codes " << all);
      gemm_case<mxfp8_e5m2, linear, mxfp8_e4m3, linear, float> c({37, 70, 160});
      fill_any(c.a.data, 1, all, exponent);
      fill_any(c.b.data, 2, all, exponent);
      CHECK(check(c, c.sums()).by_model > 0);
    }
  // Zeros under a large scale cut an accumulator.
  mx_case<mxfp8_e5m2> zeros = mx_zeros<mxfp8_e5m2>(8, 64);
  mx_set(zeros.a.data, 3, 1.0f, -30), mx_set(zeros.b.data, 3, 1.0f, -30);
  mx_set(zeros.a.data, 40, 0.0f, 100), mx_set(zeros.b.data, 40, 1.0f);
  CHECK(zeros.sums()[0] == 0.0f);
  check(zeros, zeros.sums());
  // 2^-110 + 2^-128, under scales that the model alone reads; then the least product of others.
  mx_case<mxfp8_e5m2> small = mx_zeros<mxfp8_e5m2>(8, 96);
  mx_set(small.a.data, 3, 1.0f, -55), mx_set(small.b.data, 3, 1.0f, -55);
  mx_set(small.a.data, 40, 1.0f, -64), mx_set(small.b.data, 40, 1.0f, -64);
  mx_set(small.a.data, 70, 0x1p-16f, -40), mx_set(small.b.data, 70, 0x1p-16f, -40);
  small.b.data.codes[96 + 71] = 0x7b;  // so that no certificate holds for all columns
  CHECK(small.sums()[0] == 0x1.4p-110f + 0x1p-128f);
  check(small, small.sums());
  for (const int least : {0, 1}) {  // products of the least codes alone, then larger ones
    mx_case<mxfp8_e5m2> c = mx_zeros<mxfp8_e5m2>(8, 128);
    for (i64 k = 0; k < 128; ++k) {
      const float value = k < 64 ? 0x1p-16f * static_cast<float>(1 + k % 2 * least) : 57344.0f;
      mx_set(c.a.data, k, k % 3 == 0 ? -value : value, -40), mx_set(c.b.data, k, value, -40);
    }
    check(c, c.sums());
  }
}

TEST_CASE("gemm mx: a step of MXFP6 is exact in f32, the largest too", "[host][gemm]") {
  const auto try_format = []<class F>(F, float largest, float least) {
    for (const float sign : {1.0f, -1.0f}) {
      mx_case<F> c = mx_zeros<F>(8, 64);
      for (i64 k = 0; k < 64; ++k) {
        mx_set(c.a.data, k, k % 32 == 31 ? sign * least : largest, 3);
        mx_set(c.b.data, k, k % 32 == 31 ? least : largest, -5);
      }
      const gemm_steps steps = check(c, c.sums());
      CHECK(steps.in_f32 == 8 * 4 * 2);
    }
  };
  try_format(mxfp6_e2m3{}, 7.5f, 0.125f);
  try_format(mxfp6_e3m2{}, 28.0f, 0.0625f);
}

TEST_CASE("gemm mx: the largest sums that the certificate allows", "[host][gemm]") {
  gemm_steps all;
  for (int down = 0; down < 6; ++down)
    for (const float sign : {1.0f, -1.0f}) {
      auto c = mx_large_sum(down, sign);
      const gemm_steps steps = check(c, c.sums());
      all.in_f32 += steps.in_f32, all.in_double += steps.in_double, all.by_model += steps.by_model;
    }
  CHECK(all.in_f32 > 0);
  CHECK(all.in_double > 0);
  CHECK(all.by_model == 0);
  for_each_cancelling([](auto& c) {
    const gemm_steps steps = check(c, c.sums());
    CHECK(steps.in_double > 0);
    CHECK(steps.by_model == 0);
  });
}

TEST_CASE("gemm mx: the lowest bits that the certificate allows", "[host][gemm]") {
  for (int apart = 18; apart < 34; ++apart) {
    INFO(apart << " bits apart");
    for_each_apart(apart, [&](auto& c) { CHECK((check(c, c.sums()).by_model > 0) == (apart > 25)); });
  }
}

TEST_CASE("gemm mx: an accumulator of 24 bits beside a larger product", "[host][gemm]") {
  for (int below = 20; below < 30; ++below) {
    INFO(below << " bits below");
    auto c = mx_accumulator_below(below);
    CHECK((check(c, c.sums()).by_model > 0) == (below > 25));
  }
}
