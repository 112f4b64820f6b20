// SPDX-License-Identifier: Apache-2.0
// The block-scaled dot against a restatement in double: values decoded by definition, truncation by trunc().
#include <cmath>
#include <fourscale/model/block_scaled_dot.hpp>

#include "support/data.hpp"
#include "support/everywhere.hpp"
#include "support/grid.hpp"

using namespace fourscale;
using namespace fourscale::model;

namespace {

// ---- the oracle

/// floor(log2 |v|), not below `lowest`; -126 for zero.
FOURSCALE_HD int exponent_of(double v, int lowest) {
  if (v == 0) return -126;
  int e = 0;
  std::frexp(v, &e);
  return e - 1 < lowest ? lowest : e - 1;
}

FOURSCALE_HD double element_value(element_type type, u32 container) {
  switch (type) {
    case element_type::e4m3:
      return test::value_of<e4m3>(static_cast<int>(container));
    case element_type::e5m2:
      return test::value_of<e5m2>(static_cast<int>(container));
    case element_type::e2m3:
      return test::value_of<e2m3>(static_cast<int>(container % 64));
    case element_type::e3m2:
      return test::value_of<e3m2>(static_cast<int>(container % 64));
    default:
      return test::value_of<e2m1>(static_cast<int>(container / 4 % 16));
  }
}
FOURSCALE_HD int lowest_exponent(element_type type) {
  constexpr int lowest[] = {-6, -14, 0, 0, -2, 0};
  return lowest[static_cast<int>(type)];
}
FOURSCALE_HD double scale_value(scale_type type, u32 code) {
  return type == scale_type::ue8m0 ? test::power(static_cast<int>(code) - 127)
                                   : test::value_of<e4m3>(static_cast<int>(code % 128));
}

/// d rounded toward zero to binary32; 2^128 and above give infinity, zeros are positive.
FOURSCALE_HD float toward_zero(double d) {
  if (std::fabs(d) >= 0x1p128) return d < 0 ? -HUGE_VALF : HUGE_VALF;
  const float nearest = static_cast<float>(d);
  u32 bits = bit_cast<u32>(nearest);
  if (static_cast<double>(std::fabs(nearest)) > std::fabs(d)) --bits;
  return bits << 1 == 0 ? 0.0f : bit_cast<float>(bits);
}

/// Truncates each value `kept` bits below the largest exponent and adds.
struct adder {
  double values[33] = {};
  int exponents[33] = {}, count = 0;
  FOURSCALE_HD void add(double value, int exponent) {
    values[count] = value, exponents[count] = exponent, ++count;
  }
  FOURSCALE_HD float sum(int kept) const {
    int largest = exponents[0];
    for (int i = 1; i < count; ++i) largest = exponents[i] > largest ? exponents[i] : largest;
    double total = 0;
    for (int i = 0; i < count; ++i) total += std::trunc(std::ldexp(values[i], kept - largest));
    return toward_zero(std::ldexp(total, largest - kept));
  }
};

FOURSCALE_HD u32 byte_of(operand_row const& x, int i) {
  return static_cast<u32>(x.words[i / 8] >> (i % 8 * 8)) & 255u;
}

FOURSCALE_HD bool scale_is_nan(mma_format const& f, u32 scales, int j) {
  const u32 code = scales >> (8 * j) & 255u;
  return f.scale == scale_type::ue8m0 ? code == 255 : code % 128 == 127;
}

/// Element k of a row.
FOURSCALE_HD double value_at(mma_format const& f, element_type type, operand_row const& x, int k) {
  if (f.kind == mma_kind::mxf8f6f4) return element_value(type, byte_of(x, k));
  return test::value_of<e2m1>(static_cast<int>(byte_of(x, k / 2) >> (k % 2 * 4) & 15u));
}

FOURSCALE_HD float oracle(mma_format const& f, operand_row const& a, operand_row const& b, float c) {
  const float nan = bit_cast<float>(0x7fff'ffffu);
  const int chunks = f.kind == mma_kind::mxf8f6f4 ? 1 : 64 / f.block;
  for (int j = 0; j < chunks; ++j)
    if (scale_is_nan(f, a.scales, j) || scale_is_nan(f, b.scales, j)) return nan;
  if (c != c) return nan;
  if (std::fabs(c) > 0x1.fffffep127f) return c;
  adder sum;
  sum.add(static_cast<double>(c), exponent_of(static_cast<double>(c), -126));
  const int k_count = f.kind == mma_kind::mxf8f6f4 ? 32 : 64, group = f.kind == mma_kind::mxf8f6f4 ? 1 : 16;
  for (int first = 0; first < k_count; first += group) {
    const int j = first / f.block;
    const double x = scale_value(f.scale, a.scales >> (8 * j) & 255u),
                 y = scale_value(f.scale, b.scales >> (8 * j) & 255u);
    const int lowest = f.scale == scale_type::ue8m0 ? -127 : -6;
    double products = 0;
    for (int k = first; k < first + group; ++k) products += value_at(f, f.a, a, k) * value_at(f, f.b, b, k);
    int exponent = exponent_of(x, lowest) + exponent_of(y, lowest);
    if (group == 1)
      exponent += exponent_of(value_at(f, f.a, a, first), lowest_exponent(f.a)) +
                  exponent_of(value_at(f, f.b, b, first), lowest_exponent(f.b));
    sum.add((f.negate ? -1 : 1) * products * x * y, exponent);
  }
  return sum.sum(f.kind == mma_kind::mxf8f6f4 ? 25 : 35);
}

// ---- inputs

FOURSCALE_HD float accumulator(u64 i) {
  const u64 r = test::mix(i * 31 + 7);
  if (i % 7 == 0) return test::ugly(r);
  if (i % 7 == 1) return 0.0f;
  const u32 field = static_cast<u32>(100 + r % 50);
  return bit_cast<float>(static_cast<u32>(r >> 32 & 0x807f'ffffu) | field << 23);
}

/// Row i: elements at random, some all zero, some with a few non-zeros; NaN and infinite codes left out.
FOURSCALE_HD operand_row row(mma_format const& f, element_type type, u64 i) {
  operand_row x;
  for (u64 w = 0; w < 4; ++w) {
    const u64 sparse =
        i % 5 == 0 ? test::mix(i + w) & test::mix(i ^ w << 20) & test::mix(i * 3 + w) : ~u64{0};
    x.words[w] = i % 11 == 0 ? 0 : test::mix(i * 4 + w) & sparse;
  }
  if (f.kind == mma_kind::mxf8f6f4 && (type == element_type::e4m3 || type == element_type::e5m2))
    for (u64& word : x.words)  // clears an exponent bit where all are set
      for (int at = 0; at < 64; at += 8)
        if ((word >> at & 0x78) == 0x78) word ^= u64{0x40} << at;
  x.scales = static_cast<u32>(test::mix(i * 13 + 5));
  const u32 near = f.scale == scale_type::ue8m0 ? 0x7f80'7e81u : 0x3840'3036u;
  if (i % 3 == 0) x.scales = near ^ (x.scales & 0x0303'0303u);
  if (i % 3 == 1 && f.scale == scale_type::ue4m3) x.scales &= 0x8787'8787u;  // subnormal, and signs
  return x;
}

struct matches_the_restatement {
  mma_format f;
  FOURSCALE_HD bool operator()(u64 i) const {
    operand_row a = row(f, f.a, 2 * i), b = row(f, f.b, 2 * i + 1);
    if (i % 4 == 2)  // the second half of each word cancels the first
      for (int w = 0; w < 4; ++w) {
        a.words[w] = (a.words[w] & 0xffff'ffffu) * 0x1'0000'0001u;
        const u64 sign = f.kind == mma_kind::mxf8f6f4 ? 0x8080'8080'0000'0000u : 0x8888'8888'0000'0000u;
        b.words[w] = ((b.words[w] & 0xffff'ffffu) * 0x1'0000'0001u) ^ sign;
      }
    const float c = accumulator(i);
    return bit_cast<u32>(block_scaled_dot(f, a, b, c)) == bit_cast<u32>(oracle(f, a, b, c));
  }
};

/// One product, scales one: the exact product of the decoded elements.
struct one_product {
  mma_format f;
  FOURSCALE_HD bool operator()(u64 i) const {
    operand_row a{{}, 0x7f7f'7f7fu}, b{{}, 0x7f7f'7f7fu};
    const u64 place = test::mix(i) % 32;
    a.words[place / 8] = (i & 255) << (place % 8 * 8), b.words[place / 8] = (i >> 8) << (place % 8 * 8);
    const double x = element_value(f.a, static_cast<u32>(i & 255)),
                 y = element_value(f.b, static_cast<u32>(i >> 8));
    const u32 got = bit_cast<u32>(block_scaled_dot(f, a, b, 0.0f));
    const u32 na = i & 127, nb = i >> 8 & 127;
    const bool a5 = f.a == element_type::e5m2, b5 = f.b == element_type::e5m2;
    const bool a_inf = a5 && na == 0x7c, b_inf = b5 && nb == 0x7c;
    const bool a_nan = a5 ? na > 0x7c : f.a == element_type::e4m3 && na == 0x7f;
    const bool b_nan = b5 ? nb > 0x7c : f.b == element_type::e4m3 && nb == 0x7f;
    const bool invalid = (a_inf && y == 0) || (b_inf && x == 0);
    if (a_nan || b_nan || invalid) return got == 0x7fff'ffffu;
    if (a_inf || b_inf) return got == ((x < 0) != (y < 0) ? 0xff80'0000u : 0x7f80'0000u);
    return got == bit_cast<u32>(static_cast<float>(x * y) + 0.0f);
  }
};

constexpr mma_format mxf8(element_type a, element_type b) {
  return {mma_kind::mxf8f6f4, 32, scale_type::ue8m0, a, b};
}
constexpr element_type types[] = {element_type::e4m3, element_type::e5m2, element_type::e2m3,
                                  element_type::e3m2, element_type::e2m1};

// ---- by hand

constexpr u64 sixes = 0x7777'7777'7777'7777u;
constexpr operand_row all_six(u32 scales) { return {{sixes, sixes, sixes, sixes}, scales}; }
/// 0.5 in element 0 of group g.
constexpr operand_row half_in(int g, u32 scales, bool negative = false) {
  operand_row x{{}, scales};
  x.words[g] = negative ? 9 : 1;
  return x;
}
constexpr u32 nvfp4_bits(operand_row a, operand_row b, float c) {
  return bit_cast<u32>(block_scaled_dot(nvfp4_mma, a, b, c));
}
constexpr u32 f32_bits(float x) { return bit_cast<u32>(x); }

static_assert(nvfp4_bits(all_six(0x3838'3838), all_six(0x3838'3838), 0.0f) == f32_bits(2304.0f));
static_assert(nvfp4_bits(all_six(0x7e7e'7e7e), all_six(0x7e7e'7e7e), 0.0f) == f32_bits(2304.0f * 448 * 448));
static_assert(nvfp4_bits(all_six(0xb838'38b8), all_six(0x3838'3838), 0.0f) == f32_bits(2304.0f),
              "the sign of UE4M3 is ignored");
// The smallest product, 0.25 * 2^-9 * 2^-9 = 2^-20, added to 16, whose ulp is 2^-19 above and 2^-20 below.
static_assert(nvfp4_bits(half_in(2, 0x0001'0000), half_in(2, 0x0001'0000), 16.0f) == f32_bits(16.0f));
static_assert(nvfp4_bits(half_in(2, 0x0001'0000), half_in(2, 0x0001'0000), -16.0f) == 0xc17f'ffffu,
              "toward zero");
// 35 bits below 2^16: a group that cancels still pushes 2^-20 out of the adder, 2^-19 stays.
constexpr operand_row cancels_a{{0x77, 0, 1, 0}, 0x0001'007e}, cancels_b{{0x7f, 0, 1, 0}, 0x0001'007e};
static_assert(nvfp4_bits(cancels_a, cancels_b, 0.0f) == 0u);
constexpr operand_row kept_a{{0x77, 0, 2, 0}, 0x0001'007e};
static_assert(nvfp4_bits(kept_a, cancels_b, 0.0f) == f32_bits(0x1p-19f));
static_assert(nvfp4_bits(half_in(2, 0x0001'0038), half_in(2, 0x0001'0038), 0.0f) == f32_bits(0x1p-20f));
static_assert(nvfp4_bits(all_six(0x387f'3838), all_six(0x3838'3838), 0.0f) == 0x7fff'ffffu);
static_assert(nvfp4_bits(all_six(0x3838'3838), all_six(0xff38'3838), 0.0f) == 0x7fff'ffffu);
static_assert(nvfp4_bits({}, {}, bit_cast<float>(0xffc0'0001u)) == 0x7fff'ffffu);
static_assert(nvfp4_bits({}, {}, bit_cast<float>(0x8000'0000u)) == 0u, "-0 comes back as +0");
// Blocks of 32: byte 1 of the scales serves elements 32 to 63, and bytes 2 and 3 nobody.
static_assert(f32_bits(block_scaled_dot(mxfp4_mma, half_in(3, 0xffff'807f), half_in(3, 0xffff'7f7f), 0.0f)) ==
              f32_bits(0.5f));
static_assert(f32_bits(block_scaled_dot(mxfp4_mma, half_in(0, 0), half_in(0, 0x7f), 0.0f)) == 0x0010'0000u,
              "UE8M0 0x00 is 2^-127, and f32 subnormals are kept");
// mxf8f6f4 keeps 25 bits: 2^-25 added to 1 counts, 2^-26 does not.
constexpr operand_row e4m3_one(u32 scale) { return {{0x38, 0, 0, 0}, scale}; }
static_assert(f32_bits(block_scaled_dot(mxfp8_mma, e4m3_one(127 - 25), e4m3_one(127), -1.0f)) ==
              0xbf7f'ffffu);
static_assert(f32_bits(block_scaled_dot(mxfp8_mma, e4m3_one(127 - 26), e4m3_one(127), -1.0f)) ==
              0xbf80'0000u);
static_assert(f32_bits(block_scaled_dot(mxfp8_mma, e4m3_one(254), e4m3_one(254), -1.0f)) == 0x7f80'0000u);
static_assert(f32_bits(block_scaled_dot(mxfp8_mma, e4m3_one(0xff), e4m3_one(127), 0.0f)) == 0x7fff'ffffu);

// Infinities of E5M2 and of C obey IEEE rules; of the two elements the first is infinite, the second
// -infinite.
constexpr mma_format e5m2_mma{mma_kind::mxf8f6f4, 32, scale_type::ue8m0, element_type::e5m2,
                              element_type::e5m2};
constexpr u32 e5m2_bits(u64 a, u64 b, float c) {
  return f32_bits(block_scaled_dot(e5m2_mma, {{a, 0, 0, 0}, 127}, {{b, 0, 0, 0}, 127}, c));
}
constexpr float infinity = bit_cast<float>(float_inf_bits);
static_assert(e5m2_bits(0x7c, 0x3c, 0.0f) == 0x7f80'0000u &&
              e5m2_bits(0x7c, 0x3c, -infinity) == 0x7fff'ffffu);
static_assert(e5m2_bits(0xfc7c, 0x3c3c, 0.0f) == 0x7fff'ffffu &&
              e5m2_bits(0xfc7c, 0xbc3c, 0.0f) == 0x7f80'0000u);
static_assert(e5m2_bits(0x7c, 0x3c, infinity) == 0x7f80'0000u &&
              e5m2_bits(0x3c, 0x3c, -infinity) == 0xff80'0000u);
static_assert(nvfp4_bits({}, {}, -infinity) == 0xff80'0000u);

// PTX ISA table 57.
static_assert(nvfp4_mma.valid() && mxfp4_mma.valid() && mxfp8_mma.valid());
static_assert(mma_format{mma_kind::mxf4nvf4, 16, scale_type::ue8m0}.valid());
static_assert(mma_format{mma_kind::mxf4, 32, scale_type::ue8m0}.valid());
static_assert(!mma_format{mma_kind::mxf4nvf4, 32, scale_type::ue4m3}.valid());
static_assert(!mma_format{mma_kind::mxf4, 16, scale_type::ue8m0}.valid());
static_assert(!mma_format{mma_kind::mxf8f6f4, 32, scale_type::ue4m3}.valid());
static_assert(!mma_format{mma_kind::mxf4, 32, scale_type::ue8m0, element_type::e4m3}.valid());

}  // namespace

TEST_CASE("block_scaled_dot: mxf4nvf4 and mxf4 equal a restatement in double", "[model][block_scaled_dot]") {
  const u64 n = test::exhaustive() ? 10'000'000 : 40'000;
  test::check_everywhere(n, matches_the_restatement{nvfp4_mma});
  test::check_everywhere(n, matches_the_restatement{mxfp4_mma});
  test::check_everywhere(n, matches_the_restatement{{mma_kind::mxf4nvf4, 16, scale_type::ue8m0}});
  test::check_everywhere(n / 4, matches_the_restatement{{mma_kind::mxf4, 32, scale_type::ue8m0}});
  mma_format negated = nvfp4_mma;
  negated.negate = true;
  test::check_everywhere(n / 4, matches_the_restatement{negated});
}

TEST_CASE("block_scaled_dot: mxf8f6f4 equals a restatement in double, any two types",
          "[model][block_scaled_dot]") {
  for (const element_type a : types)
    for (const element_type b : types)
      test::check_everywhere(test::exhaustive() ? 1'000'000 : 6'000, matches_the_restatement{mxf8(a, b)});
}

TEST_CASE("block_scaled_dot: a single product is exact, for every pair of codes",
          "[model][block_scaled_dot]") {
  for (const element_type a : types)
    for (const element_type b : types)
      if (a == b || a == element_type::e5m2) test::check_everywhere(65536, one_product{mxf8(a, b)});
}
