// SPDX-License-Identifier: Apache-2.0
// MXFP8, MXFP6 and MXFP4 by each other on the CPU compared with the chained model, bit by bit: shapes and
// kinds of data, all codes and scales, and values made for the bounds of the certificate.
#include <fourscale/host/gemm_blackwell.hpp>

#include "mma/gemm_table.hpp"

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

template <class F>
using own_case = gemm_case<F, linear, F, linear, float>;

/// m x 4 x k, all zeros under scales of 1.
template <class F>
own_case<F> zeros(i64 m, i64 k) {
  own_case<F> c({m, 4, k});
  for (auto* codes : {&c.a.data.codes, &c.b.data.codes}) codes->assign(codes->size(), 0);
  for (auto* scales : {&c.a.data.scales, &c.b.data.scales}) scales->assign(scales->size(), e8m0::bias);
  return c;
}
/// Element k of every row; its block is under 2^exponent.
template <class F, class L>
void set(gemm_operand_data<F, L>& x, i64 k, float value, int exponent = 0) {
  for (i64 row = 0; row < x.rows; ++row) {
    packed_block<F> block = x.view().load(row, k / 32);
    block.set(static_cast<int>(k % 32), encode<typename F::element>(value));
    block.scale = e8m0{static_cast<u8>(e8m0::bias + exponent)};
    x.view().store(row, k / 32, block);
  }
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
  const auto try_format = []<class F>(F) {
    for (const bool any_scale : {false, true}) {
      own_case<F> c({19, 37, 96});
      for (size_t i = 0; i < c.a.data.codes.size(); ++i) c.a.data.codes[i] = static_cast<u8>(mix(i) >> 8);
      if (any_scale)
        for (size_t i = 0; i < c.a.data.scales.size(); ++i)
          c.a.data.scales[i] = static_cast<u8>(mix(i + 99) >> 8);
      CHECK(check(c, c.sums()).by_model > 0);
    }
  };
  try_format(mxfp8_e4m3{});
  try_format(mxfp8_e5m2{});
  try_format(mxfp6_e2m3{});
  try_format(mxfp6_e3m2{});
}

TEST_CASE("gemm mx: one NaN, infinity or NaN scale among ones and zeros", "[host][gemm]") {
  const auto try_code = []<class F>(F, u8 code, u8 scale) {
    own_case<F> c = zeros<F>(3, 96);
    for (i64 k = 0; k < 96; ++k) set(c.b.data, k, 1.0f);
    set(c.a.data, 3, 1.0f);
    c.a.data.codes[96 + 40] = code;
    c.a.data.scales[3 + 1] = scale;  // row 1, block 1
    const std::vector<float> sums = c.sums();
    CHECK_FALSE(sums[4] - sums[4] == 0.0f);
    CHECK(check(c, sums).by_model >= 4 * 2);  // that step and the next one
  };
  try_code(mxfp8_e4m3{}, 0x7f, 127);
  try_code(mxfp8_e5m2{}, 0x7d, 127);
  try_code(mxfp8_e5m2{}, 0x7c, 127);
  try_code(mxfp8_e5m2{}, 0xfc, 127);
  try_code(mxfp8_e4m3{}, 0x00, 255);
  try_code(mxfp8_e4m3{}, 0x38, 255);
}

TEST_CASE("gemm mx: a step of MXFP6 is exact in f32, the largest too", "[host][gemm]") {
  const auto try_format = []<class F>(F, float largest, float least) {
    for (const float sign : {1.0f, -1.0f}) {
      own_case<F> c = zeros<F>(8, 64);
      for (i64 k = 0; k < 64; ++k) {
        set(c.a.data, k, k % 32 == 31 ? sign * least : largest, 3);
        set(c.b.data, k, k % 32 == 31 ? least : largest, -5);
      }
      const gemm_steps steps = check(c, c.sums());
      CHECK(steps.in_f32 == 8 * 4 * 2);
    }
  };
  try_format(mxfp6_e2m3{}, 7.5f, 0.125f);
  try_format(mxfp6_e3m2{}, 28.0f, 0.0625f);
}

TEST_CASE("gemm mx: the largest sums that the certificate allows", "[host][gemm]") {
  // 31 products of 448 * 448, less in some rows, and one of 2^-down: the sum has 23 + down bits.
  gemm_steps all;
  for (int down = 0; down < 6; ++down)
    for (const float sign : {1.0f, -1.0f}) {
      own_case<mxfp8_e4m3> c = zeros<mxfp8_e4m3>(16, 32);
      for (i64 k = 0; k < 31; ++k) set(c.a.data, k, 448.0f), set(c.b.data, k, 448.0f);
      for (i64 row = 0; row < 16; ++row)
        c.a.data.codes[static_cast<size_t>(row * 32)] -= static_cast<u8>(row);
      set(c.a.data, 31, sign);
      set(c.b.data, 31, 1.0f / static_cast<float>(1 << down));
      const gemm_steps steps = check(c, c.sums());
      all.in_f32 += steps.in_f32, all.in_double += steps.in_double, all.by_model += steps.by_model;
    }
  CHECK(all.in_f32 > 0);
  CHECK(all.in_double > 0);
  CHECK(all.by_model == 0);
}

TEST_CASE("gemm mx: the lowest bits that the certificate allows", "[host][gemm]") {
  // A product `apart` bits below another, in the same step, a step before it or a step behind: the adder
  // drops it where they are more than 25 apart, and an exact sum, rounded toward zero, would not.
  for (int apart = 18; apart < 34; ++apart) {
    INFO(apart << " bits apart");
    own_case<mxfp8_e4m3> same = zeros<mxfp8_e4m3>(4, 32), before = zeros<mxfp8_e4m3>(4, 64), behind = before;
    set(same.a.data, 3, 256.0f), set(same.b.data, 3, 256.0f);
    set(same.a.data, 7, -0x1p-9f),
        set(same.b.data, 7, bit_cast<float>(static_cast<u32>(127 + 25 - apart) << 23));
    set(before.a.data, 3, -1.0f, -apart), set(before.b.data, 3, 1.0f);
    set(before.a.data, 40, 1.0f), set(before.b.data, 40, 1.0f);
    set(behind.a.data, 3, 1.0f), set(behind.b.data, 3, 1.0f);
    set(behind.a.data, 40, -1.0f, -apart), set(behind.b.data, 40, 1.0f);
    for (auto* c : {&same, &before, &behind}) {
      const gemm_steps steps = check(*c, c->sums());
      CHECK((steps.by_model > 0) == (apart > 25));
    }
  }
}

TEST_CASE("gemm mx: an accumulator of 24 bits beside a larger product", "[host][gemm]") {
  // Its lowest bit is `below` bits under the product, its highest 23 bits above that.
  for (int below = 20; below < 30; ++below) {
    INFO(below << " bits below");
    own_case<mxfp6_e3m2> c = zeros<mxfp6_e3m2>(4, 96);
    set(c.a.data, 0, -1.0f, 23 - below), set(c.b.data, 0, 1.0f);
    set(c.a.data, 32, -1.0f, -below), set(c.b.data, 32, 1.0f);
    set(c.a.data, 64, 1.0f), set(c.b.data, 64, 1.0f);
    CHECK((check(c, c.sums()).by_model > 0) == (below > 25));
  }
}
