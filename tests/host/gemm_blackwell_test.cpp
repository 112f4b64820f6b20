// SPDX-License-Identifier: Apache-2.0
// The fast GEMM on the CPU compared with the chained model, bit by bit: shapes, kinds of data, and how the
// steps were added.
#include <algorithm>
#include <cfenv>
#include <fourscale/host/gemm_blackwell.hpp>

#include "mma/cpu_gemm.hpp"
#include "mma/gemm_limits.hpp"
#include "mma/gemm_table.hpp"
#include "support/catch.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// Compares D with the oracle's; gives how the steps were added.
template <class T, class F, class LA, class BA, class LB, class BB>
gemm_steps check(block_scaled_view<F, LA, BA> const& a, block_scaled_view<F, LB, BB> const& b,
                 gemm_factors factors = {}) {
  std::vector<T> want(static_cast<size_t>(a.rows * b.rows)), got;
  for (size_t i = 0; i < want.size(); ++i) want[i] = from_float<T>(gaussian(i));
  got = want;
  gemm_steps steps;
  REQUIRE(host::gemm(a, b, matrix_view<T>{got, a.rows, b.rows}, factors, accumulate::blackwell{}, &steps) ==
          errc::ok);
  gemm_oracle(a, b, matrix_view<T>{want, a.rows, b.rows}, factors);
  CHECK(same_bits(got, want));
  CHECK(steps.in_f32 + steps.in_double + steps.by_model == a.rows * b.rows * ceil_div<i64>(a.cols, 64));
  return steps;
}

}  // namespace

TEST_CASE("gemm blackwell: each shape with each kind of data", "[host][gemm]") {
  const auto check = [](auto c, std::vector<float> const& sums) {
    gemm_steps steps;
    CHECK(same_bits(c.on_host(cpu_gemm{&steps}), c.output_of(sums)));
    CHECK(steps.in_f32 + steps.in_double + steps.by_model == c.o.m * c.o.n * ceil_div<i64>(c.o.k, 64));
  };
  CHECK(shapes_of_table().size() >= 40);
  for_each_of_table<nvfp4>(check);
  for_each_of_table<mxfp4>(check);
}

TEST_CASE("gemm blackwell: how the steps of each kind are added", "[host][gemm]") {
  for (const kind what : kinds)
    for (const kind other : {kind::gaussian, what}) {
      INFO("kinds " << name_of(what) << " and " << name_of(other));
      auto a = operand<nvfp4, linear>(what, 36, 1024, 1);
      auto b = operand<nvfp4, swizzled_128x4>(other, 40, 1024, 2);
      const gemm_steps steps = check<float>(a.view(), b.view());
      if (what == kind::gaussian || what == kind::zero_rows || what == kind::lognormal_rows)
        CHECK(steps.in_f32 == 36 * 40 * 16);
      if (what == kind::lognormal_blocks) CHECK(steps.in_double > 0);
      if (what == kind::lognormal_steps) CHECK(steps.in_f32 > 0);
    }
}

TEST_CASE("gemm blackwell: what lies behind the matrix is certified", "[host][gemm]") {
  auto a = operand<mxfp4, linear>(kind::gaussian, 33, 544, 1);
  auto b = operand<mxfp4, swizzled_128x4>(kind::gaussian, 34, 544, 2);
  CHECK(check<float>(a.view(), b.view()).in_f32 == 33 * 34 * 9);
}

TEST_CASE("gemm blackwell: a block of zeros under a large scale drops what is small", "[host][gemm]") {
  for (const u8 scale : {u8{0}, u8{127}, u8{140}, u8{180}, u8{254}})
    for (const i64 block : {0, 1, 2, 3}) {
      auto a = operand<mxfp4, linear>(kind::gaussian, 5, 128, 1);
      auto b = operand<mxfp4, linear>(kind::gaussian, 33, 128, 2);
      for (i64 row = 0; row < 5; ++row) a.view().store(row, block, packed_block<mxfp4>{e8m0{scale}, {}});
      const gemm_steps steps = check<float>(a.view(), b.view());
      CHECK((steps.by_model > 0) == (scale >= 180));
    }
}

TEST_CASE("gemm blackwell: beta = 0 reads no D", "[host][gemm]") {
  auto a = operand<nvfp4, linear>(kind::gaussian, 5, 64, 1);
  auto b = operand<nvfp4, linear>(kind::gaussian, 7, 64, 2);
  std::vector<float> d(35, bit_cast<float>(0x7fc0'0000u)), want(35, 0.0f);
  REQUIRE(host::gemm(a.view(), b.view(), matrix_view<float>{d, 5, 7}, {}, accumulate::blackwell{}) ==
          errc::ok);
  gemm_oracle(a.view(), b.view(), matrix_view<float>{want, 5, 7}, {});
  CHECK(same_bits(d, want));
}

/// The MMA drops a product that is 2^40 times smaller than what was summed before; an exact sum, rounded
/// toward zero, would not. One column of a strip has such a product, whichever it is.
TEST_CASE("gemm blackwell: one column of a strip that drops bits", "[host][gemm]") {
  const e4m3 largest{e4m3::max_bits}, least{1};
  for (const i64 column : {0, 1, 30, 31, 32, 39}) {
    host_buffer<nvfp4> a(4, 128, unit_scale), b(40, 128, unit_scale);
    const auto set = [](auto& q, i64 row, i64 block, e4m3 scale, float value) {
      packed_block<nvfp4> p{scale, {}};
      p.set(0, encode<e2m1>(value));
      q.view().store(row, block, p);
    };
    for (i64 row = 0; row < 4; ++row) {
      set(a, row, 0, largest, 6.0f);
      set(a, row, 4, least, 0.5f);
    }
    set(b, column, 0, largest, 6.0f);
    set(b, column, 4, least, -0.5f);
    const gemm_steps steps = check<float>(a.view(), b.view());
    CHECK(steps.by_model == 4);
  }
}

TEST_CASE("gemm blackwell: more columns than a panel, more steps than a chunk", "[host][gemm]") {
  constexpr i64 sizes[][3] = {{2, 513, 64}, {1, 600, 2112}, {9, 11, 4160}, {129, 33, 2112}};
  for (auto const& [m, n, k] : sizes) {
    INFO(m << 'x' << n << 'x' << k);
    auto a = operand<nvfp4, swizzled_128x4>(kind::student_2, m, k, 3);
    auto b = operand<nvfp4, linear>(kind::student_2, n, k, 4);
    check<bf16>(a.view(), b.view());
    auto c = operand<mxfp4, linear>(kind::gaussian, m, k, 3);
    auto d = operand<mxfp4, linear>(kind::student_2, n, k, 4);
    check<fp16>(c.view(), d.view());
  }
}

TEST_CASE("gemm blackwell: more rows than the largest panel", "[host][gemm]") {
#ifdef _OPENMP
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
#endif
  auto a = operand<nvfp4, linear>(kind::student_2, 520, 128, 3);
  auto b = operand<nvfp4, linear>(kind::student_2, 40, 128, 4);
  CHECK(host::detail::rows_of_panel(520, 1, 1) == 512);
  check<float>(a.view(), b.view());
#ifdef _OPENMP
  omp_set_num_threads(threads);
#endif
}

TEST_CASE("gemm blackwell: panels are large, unless threads would have none", "[host][gemm]") {
  using host::detail::rows_of_panel;
  CHECK(rows_of_panel(1024, 2, 1) == 512);
  CHECK(rows_of_panel(1024, 2, 2) == 512);
  CHECK(rows_of_panel(1024, 2, 4) == 256);
  CHECK(rows_of_panel(1024, 2, 64) == 128);
  CHECK(rows_of_panel(1 << 20, 1, 64) == 512);
  for (const i64 rows : {0, 1, 5, 130})
    for (const i64 threads : {1, 100}) {
      const i64 panel = rows_of_panel(rows, 1, threads);
      CHECK((panel > 0 && panel % host::detail::rows_at_once == 0));
      CHECK(panel >= (rows < 128 ? rows : 128));
    }
}

/// The oracle is the processor, told to round toward zero.
TEST_CASE("gemm blackwell: lanes are added toward zero", "[host][gemm]") {
  constexpr int lanes = host::detail::vector_bytes / 4;
  const auto check = [](float a, float b) {
    float as[lanes], bs[lanes], got[lanes];
    for (int i = 0; i < lanes; ++i) as[i] = i % 2 == 0 ? a : b, bs[i] = i % 2 == 0 ? b : -a;
    host::detail::store_lanes(
        got, 0,
        host::detail::add_toward_zero(host::detail::load_lanes(as, 0), host::detail::load_lanes(bs, 0)));
    std::fesetround(FE_TOWARDZERO);
    for (int i = 0; i < lanes; ++i) {
      volatile float x = as[i], y = bs[i], want = 0.0f;
      want = x + y;
      as[i] = want;
    }
    std::fesetround(FE_TONEAREST);
    bool same = true;
    for (int i = 0; i < lanes; ++i) same = same && bit_cast<u32>(got[i]) == bit_cast<u32>(as[i]);
    INFO(a << " and " << b);
    CHECK(same);
  };
  const float ugly[] = {
      0.0f,       -0.0f,    1.0f,           0x1p-149f,      0x1.fffffep-127f, 0x1p-126f, 0x1p-24f,
      0x1.8p-24f, 0x1p-25f, 0x1p-60f,       0x1.fffffep0f,  0x1.fffffep23f,   0x1p24f,   0x1p100f,
      0x1p-100f,  3.0f,     -0x1.000002p0f, 0x1.555556p-2f, 0x1.fffffep127f,  0x1p103f,  0x1.8p103f};
  for (const float a : ugly)
    for (const float b : ugly) check(a, b), check(-a, b), check(-a, -b);
  for (u64 i = 0; i < 20000; ++i) {
    const u32 a = static_cast<u32>(mix(3 * i)), near = static_cast<u32>(mix(3 * i + 1));
    const u32 exponent = 1 + (mix(3 * i + 2) & 0x7fu), shift = static_cast<u32>(mix(3 * i + 2) >> 8) % 60;
    check(bit_cast<float>((a & 0x807f'ffffu) | exponent << 23),
          bit_cast<float>((near & 0x807f'ffffu) | (exponent + shift) << 23));
  }
}

TEST_CASE("gemm blackwell: every code and scale, the largest and the least", "[host][gemm]") {
  gemm_operand_data<nvfp4, linear> a(40, 960, 1);
  gemm_operand_data<nvfp4, swizzled_128x4> b(35, 960, 2);
  gemm_steps steps = check<float>(a.view(), b.view());
  CHECK(steps.in_double > 0);
  gemm_operand_data<mxfp4, linear> c(20, 960, 1), d(21, 960, 2);
  steps = check<float>(c.view(), d.view());
  CHECK(steps.in_double > 0);
  // All scales: subnormal, zero, NaN; of MXFP4 down to 2^-127 and up to 2^127.
  for (size_t i = 0; i < a.scales.size(); ++i) a.scales[i] = static_cast<u8>(mix(i) >> 8);
  CHECK(check<float>(a.view(), b.view()).by_model > 0);
  for (size_t i = 0; i < c.scales.size(); ++i) c.scales[i] = static_cast<u8>(mix(i) >> 8);
  check<float>(c.view(), d.view());
  for (size_t i = 0; i < c.scales.size(); ++i)
    if (mix(i + 5) % 2 == 0)
      std::fill_n(c.codes.begin() + static_cast<std::ptrdiff_t>(16 * i), 16, u8{0});
    else
      c.scales[i] = 127;
  check<float>(c.view(), d.view());
}

TEST_CASE("gemm blackwell: the largest sums that the certificate allows", "[host][gemm]") {
  // Codes of 6 under equal scales: sums reach the bound of Cauchy and Schwarz. One code of 0.5 under a
  // smaller scale lowers the lowest bit, one scale after the other, until the certificate ends; signs make
  // the last bit matter.
  gemm_steps all;
  for (int down = 0; down < 16; ++down) {
    host_buffer<nvfp4> a(4, 256, amax_value(2688.0f)), b(32, 256, amax_value(2688.0f));
    for (auto* q : {&a, &b}) {
      for (u8& c : q->codes) c = 0x77;
      for (u8& s : q->scales) s = 0x78;
    }
    for (i64 row = 0; row < 4; ++row) {
      a.scales[static_cast<size_t>(row * 16 + 1)] = static_cast<u8>(0x78 - 8 * down + row);
      for (size_t i = 0; i < 8; ++i) a.codes[static_cast<size_t>(row * 128 + 8) + i] = i == 0 ? 0x01 : 0xff;
    }
    const gemm_steps steps = check<float>(a.view(), b.view());
    all.in_f32 += steps.in_f32, all.in_double += steps.in_double, all.by_model += steps.by_model;
  }
  CHECK(all.in_f32 > 0);
  CHECK(all.in_double > 0);
}

TEST_CASE("gemm blackwell: the lowest bits that the certificate allows", "[host][gemm]") {
  // 2^-10 under the least scale, and a block of zeros under a large one, which drops what lies 35 bits below:
  // in the same step, or in the one that finds the small product in the accumulator.
  constexpr u8 least = 0x01;  // 2^-9
  for (const bool same_step : {true, false})
    for (int largest_a = 4; largest_a < 9; ++largest_a)
      for (int largest_b = 4; largest_b < 9; ++largest_b) {
        host_buffer<nvfp4> a(1, 128, amax_value(2688.0f)), b(32, 128, amax_value(2688.0f));
        const size_t large = same_step ? 1 : 4;
        a.codes[0] = 0x01;
        a.scales[0] = least;
        a.scales[large] = static_cast<u8>((largest_a + 7) << 3);
        for (size_t row = 0; row < 32; ++row) {
          b.codes[row * 64] = static_cast<u8>(row % 2 == 0 ? 0x01 : 0x09);
          b.scales[row * 8] = least;
          b.scales[row * 8 + large] = static_cast<u8>((largest_b + 7) << 3);
        }
        const gemm_steps steps = check<float>(a.view(), b.view());
        INFO(largest_a << ' ' << largest_b);
        CHECK((steps.by_model > 0) == (largest_a + largest_b + 20 > 35));
      }
}

TEST_CASE("gemm blackwell: accumulators that are too large for the least product", "[host][gemm]") {
  auto c = large_accumulators();
  const gemm_steps steps = check<float>(c.a.on_host(), c.b.on_host());
  CHECK(steps.by_model > 0);
  CHECK(steps.in_double > 0);
}

TEST_CASE("gemm blackwell: a single accumulator that is too large", "[host][gemm]") {
  auto c = single_large_accumulators();
  const gemm_steps steps = check<float>(c.a.on_host(), c.b.on_host());
  CHECK(steps.by_model > 0);
  CHECK(steps.by_model < c.o.m * c.o.n);
}

TEST_CASE("gemm blackwell: scales drop what no accumulator does", "[host][gemm]") {
  auto c = scales_of_some_eights();
  const gemm_steps steps = check<float>(c.a.on_host(), c.b.on_host());
  CHECK(steps.by_model == c.o.m / 2 * c.o.n);
}

TEST_CASE("gemm blackwell: rows of many sizes have limits of their own", "[host][gemm]") {
  for (const bool drops : {false, true}) {
    auto c = rows_of_many_sizes(drops);
    const gemm_steps steps = check<float>(c.a.on_host(), c.b.on_host());
    CHECK((steps.by_model > 0) == drops);
    CHECK(steps.in_double > c.o.m * c.o.n * 12);  // norms do not prove it
  }
}

TEST_CASE("gemm blackwell: bad input leaves D untouched", "[host][gemm]") {
  auto a = operand<nvfp4, linear>(kind::gaussian, 4, 64, 1);
  auto b = operand<nvfp4, linear>(kind::gaussian, 4, 128, 2);
  std::vector<float> d(16, 7.0f);
  CHECK(host::gemm(a.view(), b.view(), matrix_view<float>{d, 4, 4}, {}, accumulate::blackwell{}) != errc::ok);
  CHECK(d == std::vector<float>(16, 7.0f));
}
