// SPDX-License-Identifier: Apache-2.0
// MXFP8, MXFP6 and MXFP4 by each other on the CPU compared with the chained model, bit by bit: shapes and
// kinds of data, all codes and scales, and values made for the bounds of the certificate.
#include <fourscale/host/gemm_blackwell.hpp>

#include "mma/gemm_mx_cases.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// Compares D with the oracle's; gives how the steps were added.
template <class Case>
gemm_steps check(Case& c, std::vector<float> const& sums) {
  gemm_steps steps;
  const auto gemm = [&](auto const& a, auto const& b, auto const& d, gemm_factors factors) {
    return host::gemm(a, b, d, factors, accumulate::blackwell{}, &steps);
  };
  CHECK(same_bits(c.on_host(gemm), c.output_of(sums)));
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
