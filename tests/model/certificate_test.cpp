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
model::step_magnitudes look(host_buffer<nvfp4> const& q, i64 first_row, i64 col, float (&in_units)[8][64]) {
  model::step_magnitudes most;
  for (i64 row = 0; row < 8; ++row) {
    model::value_facts step, groups[4];
    e4m3 scales[4];
    u32 codes[64];
    for (i64 block = 0; block < 4; ++block) {
      const auto packed = q.view().load(first_row + row, col / 16 + block);
      scales[block] = packed.scale;
      model::code_facts facts;
      for (int i = 0; i < 16; ++i) {
        codes[16 * block + i] = packed.get(i).bits & 7u;
        facts.add(codes[16 * block + i]);
      }
      groups[block] = model::value_facts(facts, model::scale_parts(packed.scale));
      step.add(groups[block]);
    }
    for (i64 i = 0; i < 64; ++i) {
      const float scale = groups[i / 16].squares == 0.0f ? 0.0f : decode(scales[i / 16]);
      const model::magnitude_codes of_group(scale, step.lowest);
      const u8 code = code_of(of_group, codes[i]);
      most.codes[i] = std::max(most.codes[i], code);
      in_units[row][i] = value_of(codes[i]) * scale * model::detail::power_of_two(-step.lowest);
    }
  }
  return most;
}

}  // namespace

TEST_CASE("certificate: a magnitude has the nearest code", "[model][certificate]") {
  for (u32 bits = 1; bits < 0x7f; ++bits) {
    const float scale = decode(e4m3{static_cast<u8>(bits)});
    for (u32 code = 1; code < 8; ++code) {
      const model::value_facts facts({static_cast<u32>(2 * value_of(code)), 1},
                                     model::scale_parts(e4m3{static_cast<u8>(bits)}));
      for (int lowest = facts.lowest; lowest > facts.lowest - 12; --lowest) {
        const float unit = scale * model::detail::power_of_two(-lowest), exact = value_of(code) * unit;
        const u8 bits_found = code_of(model::magnitude_codes(scale, lowest), code);
        if (6 * unit > 448 * 512) {
          CHECK(bits_found == e4m3::nan_bits);
          continue;
        }
        const float found = 512 * decode(e4m3{bits_found});
        CHECK(found * 17 >= exact * 16);
        CHECK(found * 15 <= exact * 16);
        if (exact <= 16) CHECK(found == exact);
      }
    }
    CHECK(code_of(model::magnitude_codes(scale, -6), 0) == 0);
  }
}

TEST_CASE("certificate: magnitudes too large for a code bound nothing", "[model][certificate]") {
  for (const float scale : {0x1p12f, 0x1p40f}) {
    const model::magnitude_codes codes(scale, -10);
    CHECK(codes.low == 0x7f7f'7f7f);
    CHECK(codes.high == 0x7f7f'7f7f);
  }
  const model::magnitude_codes last(0x1p5f, -10), zero(0.0f, 3);
  CHECK(code_of(last, 7) < e4m3::nan_bits);
  CHECK(zero.low == 0);
  CHECK(zero.high == 0);
  model::step_magnitudes none, one;
  none.codes[63] = e4m3::nan_bits;
  one.codes[3] = 1;
  CHECK_FALSE(sums_are_exact(none, one));
  CHECK_FALSE(sums_are_exact(one, none));
  CHECK(sums_are_exact(one, one));
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
            const bool exact = sums_are_exact(look(a, first_a, col, of_a), look(b, first_b, col, of_b));
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
