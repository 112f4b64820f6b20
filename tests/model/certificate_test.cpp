// SPDX-License-Identifier: Apache-2.0
// The closer look of the certificate: codes of magnitudes are the least that are large enough, and where
// their sum passes, all sums of the rows' products are exact.
#include <algorithm>
#include <cmath>
#include <fourscale/model/certificate.hpp>
#include <vector>

#include "mma/gemm_data.hpp"
#include "mma/gemm_oracle.hpp"
#include "support/catch.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

u8 code_of(model::magnitude_codes const& codes, u32 e2m1) {
  return static_cast<u8>((e2m1 < 4 ? codes.low : codes.high) >> (8 * (e2m1 % 4)));
}
float value_of(u32 code) { return decode(e2m1{static_cast<u8>(code)}); }

/// What is known of eight rows in the step that begins at `col`, as the device has it; each row's values over
/// its lowest bit go to `in_units`.
struct known_of_eight {
  model::step_magnitudes most;
  u32 width = 0;
};
known_of_eight look(host_buffer<nvfp4> const& q, i64 first_row, i64 col, float (&in_units)[8][64]) {
  known_of_eight known;
  model::value_facts steps[8];
  for (i64 row = 0; row < 8; ++row) {
    for (i64 block = 0; block < 4; ++block) {
      const auto packed = q.view().load(first_row + row, col / 16 + block);
      model::code_facts facts;
      for (int i = 0; i < 16; ++i) facts.add(packed.get(i).bits);
      steps[row].add(model::value_facts(facts, model::scale_parts(packed.scale)));
    }
    known.width = std::max(known.width, u32{width_of(steps[row])});
  }
  const int exponent = static_cast<int>(model::magnitude_exponent(known.width));
  for (i64 row = 0; row < 8; ++row)
    for (i64 i = 0; i < 64; ++i) {
      const auto packed = q.view().load(first_row + row, col / 16 + i / 16);
      const u32 code = packed.get(static_cast<int>(i % 16)).bits & 7u;
      const float scale = decode(packed.scale);
      const u8 magnitude = code_of(model::magnitude_codes(scale, steps[row].lowest + exponent), code);
      known.most.codes[i] = std::max(known.most.codes[i], magnitude);
      in_units[row][i] = value_of(code) * scale * model::detail::power_of_two(-steps[row].lowest);
    }
  return known;
}

}  // namespace

TEST_CASE("certificate: magnitudes are rounded up to whole numbers", "[model][certificate]") {
  for (u32 bits = 1; bits < 0x7f; ++bits) {
    const float scale = decode(e4m3{static_cast<u8>(bits)});
    const model::value_facts least({1, 1}, model::scale_parts(e4m3{static_cast<u8>(bits)}));
    for (int unit = least.lowest; unit < least.lowest + 30; ++unit)
      for (u32 code = 0; code < 8; ++code) {
        const double exact = std::ldexp(double{value_of(code)} * double{scale}, -unit);
        if (exact <= 255) CHECK(code_of(model::magnitude_codes(scale, unit), code) == std::ceil(exact));
      }
  }
  CHECK(code_of(model::magnitude_codes(bit_cast<float>(float_inf_bits), 0), 0) == 0);
}

TEST_CASE("certificate: magnitudes of any width are bytes", "[model][certificate]") {
  for (u32 width = 0; width < 256; ++width) {
    const u32 exponent = model::magnitude_exponent(width);
    CHECK(std::exp2(width / 8.0 - exponent) <= 235);
    if (exponent > 0) CHECK(std::exp2(width / 8.0 - exponent) >= 128);
  }
  const model::step_magnitudes none;
  CHECK_FALSE(sums_are_exact(none, model::unbounded, none, 0));
  CHECK_FALSE(sums_are_exact(none, 0, none, model::unbounded));
  CHECK(sums_are_exact(none, 247, none, 0));
}

TEST_CASE("certificate: the largest sum of magnitudes that passes", "[model][certificate]") {
  model::step_magnitudes a, b;
  std::fill_n(a.codes, 64, u8{128});
  std::fill_n(b.codes, 64, u8{128});
  // 64 * 128 * 128 = 2^20. A width of 64 has units of 2, one of 72 units of 4.
  CHECK(sums_are_exact(a, 64, b, 72));
  CHECK_FALSE(sums_are_exact(a, 72, b, 72));
  CHECK_FALSE(sums_are_exact(a, 88, b, 63));
  a.codes[63] = 127;
  CHECK(sums_are_exact(a, 72, b, 79));
  CHECK_FALSE(sums_are_exact(a, 72, b, 80));
}

TEST_CASE("certificate: where magnitudes pass, every partial sum has 24 bits", "[model][certificate]") {
  constexpr i64 rows = 32, k = 512;
  for (const kind what : kinds)
    for (const kind other : {kind::gaussian, what}) {
      INFO("kinds " << name_of(what) << " and " << name_of(other));
      auto const a = operand<nvfp4, linear>(what, rows, k, 1), b = operand<nvfp4, linear>(other, rows, k, 2);
      int passed = 0, could_pass = 0;
      float of_a[8][64], of_b[8][64];
      for (i64 col = 0; col < k; col += 64)
        for (i64 first_a = 0; first_a < rows; first_a += 8)
          for (i64 first_b = 0; first_b < rows; first_b += 8) {
            const known_of_eight x = look(a, first_a, col, of_a), y = look(b, first_b, col, of_b);
            const bool exact = sums_are_exact(x.most, x.width, y.most, y.width);
            double most = 0;  // sums of magnitudes: no partial sum of any order is larger
            for (auto const& x : of_a)
              for (auto const& y : of_b) {
                double sum = 0;
                for (int i = 0; i < 64; ++i) sum += double{x[i]} * double{y[i]};
                most = std::max(most, sum);
              }
            if (exact) CHECK(most < 0x1p24);
            passed += exact;
            could_pass += most < 0x1p24;
          }
      CHECK(passed <= could_pass);
      if (what == kind::gaussian || what == kind::zero_rows || what == kind::lognormal_rows)
        CHECK(passed == could_pass);
    }
}

namespace {

/// What is known of a row's values in each step, and before it.
std::vector<model::accumulator_bounds> bounds_of_row(host_buffer<nvfp4> const& q, i64 row, i64 steps) {
  std::vector<model::accumulator_bounds> bounds;
  model::value_facts before;
  for (i64 step = 0; step < steps; ++step) {
    model::value_facts of_step;
    for (i64 block = 4 * step; block < 4 * step + 4; ++block) {
      const auto packed = q.view().load(row, block);
      model::code_facts codes;
      for (int i = 0; i < 16; ++i) codes.add(packed.get(i).bits);
      of_step.add(model::value_facts(codes, model::scale_parts(packed.scale)));
    }
    bounds.push_back(model::bounds_of_accumulators(of_step, before));
    before.add(of_step);
  }
  return bounds;
}

/// c and the products of a step, added exactly: the limit leaves them at most 53 bits. Rounded toward zero.
float exact_step(model::operand_row const& a, model::operand_row const& b, float c) {
  double sum = double{c};
  for (int group = 0; group < 4; ++group) {
    const double of_both = double{decode(e4m3{static_cast<u8>(a.scales >> (8 * group))})} *
                           double{decode(e4m3{static_cast<u8>(b.scales >> (8 * group))})};
    sum += 0.25 * model::detail::sum_of_16(a.words[group], b.words[group]) * of_both;
  }
  const float nearest = static_cast<float>(sum);
  return std::abs(double{nearest}) > std::abs(sum) ? std::nextafter(nearest, 0.0f) : nearest;
}

/// Steps of all rows by all rows with accumulators below the limit, and those in which the MMA drops bits.
struct limit_counts {
  int below = 0, others = 0, drops = 0;
};
limit_counts check_limits(host_buffer<nvfp4> const& a, host_buffer<nvfp4> const& b, i64 rows, i64 steps) {
  limit_counts counts;
  const auto rows_a = all_steps(model::nvfp4_mma, a.view(), steps),
             rows_b = all_steps(model::nvfp4_mma, b.view(), steps);
  for (i64 i = 0; i < rows; ++i) {
    const auto bounds_a = bounds_of_row(a, i, steps);
    for (i64 j = 0; j < rows; ++j) {
      const auto bounds_b = bounds_of_row(b, j, steps);
      float c = 0;
      for (i64 step = 0; step < steps; ++step) {
        auto const &x = rows_a[static_cast<size_t>(i * steps + step)],
                   &y = rows_b[static_cast<size_t>(j * steps + step)];
        const float next = block_scaled_dot(model::nvfp4_mma, x, y, c), exact = exact_step(x, y, c);
        const bool below = std::abs(c) < largest_kept(bounds_a[static_cast<size_t>(step)],
                                                      bounds_b[static_cast<size_t>(step)]);
        if (below) CHECK(bit_cast<u32>(next) == bit_cast<u32>(exact));
        (below ? counts.below : counts.others)++;
        counts.drops += bit_cast<u32>(next) != bit_cast<u32>(exact);
        c = next;
      }
    }
  }
  return counts;
}

}  // namespace

TEST_CASE("certificate: below the limit of accumulators a step drops nothing", "[model][certificate]") {
  constexpr i64 rows = 16, k = 1024;
  for (const kind what : kinds) {
    INFO("kind " << name_of(what));
    auto const a = operand<nvfp4, linear>(what, rows, k, 1), b = operand<nvfp4, linear>(what, rows, k, 2);
    const limit_counts counts = check_limits(a, b, rows, k / 64);
    CHECK(counts.below > 99 * counts.others);
  }
}

TEST_CASE("certificate: the limit of accumulators, with scales of all sizes", "[model][certificate]") {
  constexpr i64 rows = 24, k = 512;
  limit_counts all;
  for (u64 seed = 0; seed < 8; ++seed) {
    auto a = operand<nvfp4, linear>(kind::gaussian, rows, k, 1),
         b = operand<nvfp4, linear>(kind::gaussian, rows, k, 2);
    // Scales between 2^-9 and 448, half of them near the least; codes of all sizes, few of them not zero.
    for (auto* q : {&a, &b}) {
      for (size_t i = 0; i < q->scales.size(); ++i) {
        const u64 word = mix(i + 1000 * seed + (q == &a ? 77 : 0));
        q->scales[i] = static_cast<u8>(word % 2 == 0 ? word >> 8 & 7 : (word >> 8) % 127);
      }
      for (size_t i = 0; i < q->codes.size(); ++i)
        if (mix(i + seed) % 8 != 0) q->codes[i] = 0;
    }
    const limit_counts counts = check_limits(a, b, rows, k / 64);
    all.below += counts.below, all.others += counts.others, all.drops += counts.drops;
  }
  CHECK(all.below > 0);
  CHECK(all.others > 0);
  CHECK(all.drops > 0);  // so that the limit is needed
}

TEST_CASE("certificate: the limit of accumulators is 36 bits above the lowest product",
          "[model][certificate]") {
  const auto limit = [](model::accumulator_bounds a, model::accumulator_bounds b) {
    return largest_kept(a, b);
  };
  CHECK(limit({17, 50}, {18, 50}) == 0x1p16f);  // lowest bits of 2^-10 each
  CHECK(limit({17, 50}, {18, 40}) == 0x1p26f);
  CHECK(limit({18, 50}, {18, 50}) == 0.0f);
  CHECK(limit({0, 0}, {35, 0}) == 0x1p116f);  // zeros
  CHECK(limit({model::unbounded, 0}, {0, 0}) == 0.0f);
  model::value_facts nan, step;
  nan.squares = model::value_facts::infinite();
  step.add(model::value_facts(model::code_facts{1, 1}, model::scale_parts(e4m3{0x01})));
  CHECK(bounds_of_accumulators(nan, step).span == model::unbounded);
  CHECK(bounds_of_accumulators(step, nan).span == model::unbounded);
  CHECK(bounds_of_accumulators(step, {}).depth == 50);
  CHECK(bounds_of_accumulators({}, step).depth == 0);
}
