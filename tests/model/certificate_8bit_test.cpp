// SPDX-License-Identifier: Apache-2.0
// Reaches (docs/exact_gemm.md, claim 19): where they certify a step of 32 products, its result is the exact
// sum, added to the accumulator and rounded once toward zero. Compared with the model on blocks and
// accumulators that are drawn near the bounds.
#include <cmath>
#include <fourscale/formats/e3m2.hpp>
#include <fourscale/formats/e4m3.hpp>
#include <fourscale/formats/e5m2.hpp>
#include <fourscale/host/gemm_step.hpp>
#include <fourscale/model/certificate_8bit.hpp>

#include "support/catch.hpp"
#include "support/data.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// A block of a row without a scale, and what is known of it.
struct known_block {
  model::operand_row row;
  model::element_facts elements[32];
  model::block_facts all;

  int lowest() const { return all.under(one).lowest; }
  int top() const { return all.under(one).top; }
  u32 reach_of(int k) const { return model::reach::of(elements[k].lowest, lowest()); }

  static constexpr e8m0 one{e8m0::bias};
};

/// A block of E whose elements have exponent fields from a drawn range, one in eight of them zero. In half of
/// all blocks a few elements are among the least.
template <class E>
known_block draw_block(u64 seed) {
  constexpr u32 fields = (E::max_bits >> E::mantissa_bits) + 1;
  known_block block;
  block.row.scales = e8m0::bias;
  const u32 first = static_cast<u32>(mix(seed) % fields),
            count = 1 + static_cast<u32>(mix(seed + 1) % (fields - first));
  const bool has_least = mix(seed + 99) % 2 == 0;
  for (u64 k = 0; k < 32; ++k) {
    const u64 drawn = mix(seed + 2 + k);
    u32 code = (first + static_cast<u32>(drawn >> 32) % count) << E::mantissa_bits |
               (static_cast<u32>(drawn) & ((1u << E::mantissa_bits) - 1));
    if (has_least && k % 11 == 3) code = 1 + static_cast<u32>(drawn >> 16) % 4;
    if ((drawn >> 12 & 7) == 0) code = 0;
    if (code > E::max_bits) code = E::max_bits;
    code |= static_cast<u32>(drawn >> 20 & 1) << (E::width - 1);
    block.row.words[k / 8] |= u64{code} << (8 * (k % 8));
    block.elements[k] = model::element_facts(model::type_of_element<E>(), code);
    block.all.add(block.elements[k]);
  }
  return block;
}

/// An accumulator of up to 24 bits with this exponent.
float draw_accumulator(u64 seed, int exponent) {
  const u64 drawn = mix(seed);
  const u32 bits = static_cast<u32>(drawn >> 32) % 24;  // of the fraction
  const u32 fraction = static_cast<u32>(drawn) & 0x7f'ffffu & ~((1u << bits) - 1);
  const float c = std::ldexp(1.0f + static_cast<float>(fraction) * 0x1p-23f, exponent);
  return drawn >> 60 & 1 ? -c : c;
}

/// Of drawn steps: how many reaches certify, how many of these would not be certified without reaches, and
/// how many have another result than the exact sum gives though a bound twice as large holds.
struct counts {
  i64 certified = 0, by_reaches_only = 0, wrong_above = 0;
};

template <class E, class G>
counts check_reaches(u64 steps) {
  counts found;
  model::mma_format format = model::mxfp8_mma;
  format.a = model::type_of_element<E>(), format.b = model::type_of_element<G>();
  for (u64 i = 0; i < steps; ++i) {
    const known_block a = draw_block<E>(1000 * i), b = draw_block<G>(1000 * i + 500);
    if (a.lowest() == model::element_facts::no_bit || b.lowest() == model::element_facts::no_bit) continue;
    const int lowest = a.lowest() + b.lowest();
    i64 sum = 0;  // of products, in units of 2^lowest
    double of_magnitudes = 0.0;
    u32 reaches = 0;
    for (int k = 0; k < 32; ++k) {
      const double product = std::ldexp(double{a.elements[k].value} * double{b.elements[k].value}, -lowest);
      of_magnitudes += std::fabs(product);
      if (of_magnitudes < 0x1p62) sum += static_cast<i64>(product);
      reaches += a.reach_of(k) * b.reach_of(k);
    }
    if (of_magnitudes >= 0x1p62) continue;
    const double r = std::fmin(1.0, std::ldexp(static_cast<double>(reaches), -2 * model::reach::most_apart));
    const int limit = lowest + 25 - static_cast<int>(std::floor(std::log2(std::fmax(r, 0x1p-12))));
    const float c = draw_accumulator(i, limit + static_cast<int>(mix(i + 7) % 5) - 3);
    const float m = std::fabs(c), whole = std::ldexp(1.0f, a.top() + b.top() - 2);
    if (m < whole && (m + whole) - whole != m) continue;
    const float t = std::ldexp(static_cast<float>(sum), lowest);
    const float want = host::detail::toward_zero(double{c} + double{t});  // both are near: exact in double
    const bool same = bit_cast<u32>(model::block_scaled_dot(format, a.row, b.row, c)) == bit_cast<u32>(want);
    const double largest = double{m} / 4 + double{whole}, below = std::ldexp(1.0, lowest + 24);
    const auto holds = [&](double of, double bound) {
      return largest * of < bound && std::fabs(t) * of < bound;
    };
    if (holds(r, below)) {
      REQUIRE(static_cast<i64>(static_cast<float>(sum)) == sum);
      REQUIRE(same);
      ++found.certified;
      if (!holds(1.0, below)) ++found.by_reaches_only;
    } else if (holds(r, 2 * below) && !same) {
      ++found.wrong_above;
    }
  }
  return found;
}

}  // namespace

TEST_CASE("certificate: steps that reaches certify drop nothing", "[model][certificate]") {
  const auto check = [](counts found) {
    CHECK(found.certified > 5'000);
    CHECK(found.by_reaches_only > 1'500);
    CHECK(found.wrong_above > 50);
  };
  check(check_reaches<e4m3, e4m3>(100'000));
  check(check_reaches<e4m3, e5m2>(100'000));
  check(check_reaches<e5m2, e4m3>(100'000));
  check(check_reaches<e5m2, e5m2>(100'000));
  check(check_reaches<e4m3, e3m2>(100'000));
  check(check_reaches<e3m2, e5m2>(100'000));
}
