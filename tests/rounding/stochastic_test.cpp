// SPDX-License-Identifier: Apache-2.0
// Stochastic rounding, exhaustively over the dither: how often each fraction goes up, which bits of the
// random word each element sees, and the policies on top.
#include <fourscale/block/quantize.hpp>
#include <fourscale/rounding/stochastic.hpp>

#include "support/data.hpp"
#include "support/everywhere.hpp"
#include "support/grid.hpp"

using namespace fourscale;
using test::check_everywhere;
using test::value_of;

namespace {

/// Fractions of the step between two codes, in units of 2^-18: a code itself, less than any dither shows, the
/// least that one shows, a half and its neighbours, the most.
constexpr u32 fractions[] = {0, 1, 3, 4, 5, 0x1ffff, 0x20000, 0x20001, 0x3fffb, 0x3fffc, 0x3ffff, 0x12345};
constexpr u64 fraction_count = sizeof fractions / sizeof fractions[0];

/// x between codes `code` and `code + 1`, exactly; x is negative for odd fractions.
template <element_format F>
struct between {
  int code;
  u32 fraction;
  float x;
  FOURSCALE_HD explicit constexpr between(u64 i)
      : code(static_cast<int>(i / fraction_count)), fraction(0), x(0) {
    constexpr u32 all[] = {0, 1, 3, 4, 5, 0x1ffff, 0x20000, 0x20001, 0x3fffb, 0x3fffc, 0x3ffff, 0x12345};
    static_assert(sizeof all == sizeof fractions);
    fraction = all[i % fraction_count];
    const double g = value_of<F>(code), step = value_of<F>(code + 1) - g;
    const double magnitude = g + step * (static_cast<double>(fraction) * 0x1p-18);
    x = static_cast<float>(negative() ? -magnitude : magnitude);
  }
  FOURSCALE_HD constexpr bool negative() const { return fraction % 2; }
  FOURSCALE_HD constexpr u32 rounded(bool up) const {
    return static_cast<u32>(code + up) | (negative() ? 1u << (F::width - 1) : 0u);
  }
};

/// Of the 65,536 dithers exactly the floor(65536 * fraction) largest round away from zero.
template <element_format F>
struct goes_up_as_often_as_its_fraction {
  FOURSCALE_HD bool operator()(u64 i) const {
    const between<F> b(i);
    u32 ups = 0;
    for (u32 dither = 0; dither < 65536; ++dither) {
      const u32 code = portable::encode_stochastic<F>(b.x, dither).bits;
      const bool up = code == b.rounded(true);
      if (!up && code != b.rounded(false)) return false;
      if (up != (dither >= 65536 - b.fraction / 4)) return false;
      ups += up;
    }
    return ups == b.fraction / 4;
  }
};

/// Bit of the word that has weight 2^(15 - j) for memory element k: the map measured on a B200 for e2m1x4
/// (the operands f, e, b, a of cvt.rs), and for e4m3x4 and e5m2x4, as lists of (first, last) bits.
struct bit_run {
  int first, last;
};
constexpr bit_run e2m1_map[4][2] = {
    {{23, 16}, {7, 0}}, {{0, 7}, {16, 23}}, {{31, 24}, {15, 8}}, {{8, 15}, {24, 31}}};
constexpr bit_run wide_map[4][2] = {
    {{15, 8}, {7, 0}}, {{0, 7}, {8, 15}}, {{31, 24}, {23, 16}}, {{16, 23}, {24, 31}}};

struct bit_map {
  bit_run runs[4][2];
  FOURSCALE_HD constexpr int bit(int element, int j) const {
    const bit_run r = runs[element][j / 8];
    return r.first < r.last ? r.first + j % 8 : r.first - j % 8;
  }
};
constexpr bit_map make_map(bit_run const (&runs)[4][2]) {
  bit_map m{};
  for (int k = 0; k < 8; ++k) m.runs[k / 2][k % 2] = runs[k / 2][k % 2];
  return m;
}

/// Every dither at every place, in a word whose other bits are random.
template <element_format F>
struct places_see_their_bits {
  bit_map map;
  FOURSCALE_HD bool operator()(u64 i) const {
    const u32 dither = static_cast<u32>(i % 65536);
    const int place = static_cast<int>(i / 65536);
    u32 word = static_cast<u32>(test::mix(i));
    for (int j = 0; j < 16; ++j) {
      const u32 bit = 1u << map.bit(place, j);
      word = dither >> (15 - j) & 1 ? word | bit : word & ~bit;
    }
    if (dither_bits<F>(word, place) != dither) return false;
    float x[4];
    for (u64 k = 0; k < 4; ++k) x[k] = between<F>(test::mix(i + k) % (fraction_count * F::max_bits)).x;
    const F code = encode_stochastic<F>(x, word).get(place);
    return code == portable::encode_stochastic<F>(x[place], dither);
  }
};

/// Beyond the largest code, NaN and zeros the dither changes nothing; otherwise the result is encode_down or
/// encode_up.
template <element_format F>
struct special_values {
  u64 count;
  FOURSCALE_HD bool operator()(u64 i) const {
    const float x = test::nth_float(i, count);
    const u32 dither = static_cast<u32>(test::mix(i) % 65536);
    const F code = portable::encode_stochastic<F>(x, dither);
    const F down = encode_down<F>(x), up = encode_up<F>(x);
    const F toward_zero = bit_cast<u32>(x) >> 31 ? up : down;
    return (code == down || code == up) && portable::encode_stochastic<F>(x, 0) == toward_zero;
  }
};

template <element_format F>
void check_format(bit_run const (&map)[4][2]) {
  INFO(F::name);
  check_everywhere(fraction_count * F::max_bits, goes_up_as_often_as_its_fraction<F>{});
  check_everywhere(4 * 65536, places_see_their_bits<F>{make_map(map)});
  check_everywhere(test::float_count(), special_values<F>{test::float_count()});
}

/// To bf16: the low half of the word for the first value, the high half for the second.
struct bf16_goes_up_by_its_half {
  u64 count;
  FOURSCALE_HD bool operator()(u64 i) const {
    const u32 word = static_cast<u32>(test::mix(i));
    const float x[2] = {test::nth_float(i, count), test::nth_float((i * 7 + 3) % count, count)};
    bf16 y[2];
    encode_stochastic(x[0], x[1], word, y);
    for (int k = 0; k < 2; ++k) {
      const u32 u = bit_cast<u32>(x[k]), dither = k ? word >> 16 : word % 65536;
      u32 expected = u / 65536 + (u % 65536 + dither >= 65536);  // a carry may reach infinity
      if (x[k] != x[k]) expected = 0x7fff;
      if ((u & 0x7fff'ffff) == float_inf_bits) expected = u / 65536;
      if (y[k].bits != expected) return false;
    }
    return true;
  }
};

/// The policy draws the word of the first element's position, whatever else is being rounded.
struct draws_by_position {
  FOURSCALE_HD bool operator()(u64 i) const {
    const philox bits{11, 22};
    const position where{static_cast<i64>(i % 37), static_cast<i64>(i / 37 * 4)};
    float x[4];
    for (u64 k = 0; k < 4; ++k) x[k] = test::gaussian(4 * i + k);
    return stochastic{bits}(e2m1{}, x, where) == encode_stochastic<e2m1>(x, bits(where)) &&
           stochastic{bits}(e5m2{}, x, where) == encode_stochastic<e5m2>(x, bits(where));
  }
};

// Golden words: one bit of the dither's top, in each place of the measured map, decides 0.75 alone.
constexpr u32 codes_of(u32 word) {
  const float x[4] = {0.75f, 0.75f, 0.75f, 0.75f};
  return encode_stochastic<e2m1>(x, word).bits;
}
static_assert(codes_of(0) == 0x1111 && codes_of(0xffff'ffff) == 0x2222);
static_assert(codes_of(0x0080'0000) == 0x1112 && codes_of(0x0000'0001) == 0x1121);
static_assert(codes_of(0x8000'0000) == 0x1211 && codes_of(0x0000'0100) == 0x2111);

// Which policies have a fast form, so that none loses it unseen.
struct any_word {
  FOURSCALE_HD constexpr u32 operator()(position) const { return 0; }
};
static_assert(fast_rounding_policy<nearest_even> && fast_rounding_policy<stochastic<philox<>>>);
static_assert(fast_rounding_policy<stochastic<prepared_philox<10>>>, "as kernels take it");
static_assert(fast_rounding_policy<stochastic<any_word>>, "random bits of one's own lose nothing");
static_assert(!fast_rounding_policy<stochastic_te_software<philox<>>>);

}  // namespace

/// Four values of the sweep at once, whatever instructions do it.
template <element_format F>
struct four_at_once {
  u64 count;
  FOURSCALE_HD bool operator()(u64 i) const {
    const u32 word = static_cast<u32>(test::mix(i));
    float x[4];
    for (u64 k = 0; k < 4; ++k) x[k] = test::nth_float((i + k * (count / 4 + 1)) % count, count);
    const auto four = encode_stochastic<F>(x, word);
    for (int k = 0; k < 4; ++k)
      if (four.get(k) != portable::encode_stochastic<F>(x[k], dither_bits<F>(word, k))) return false;
    return true;
  }
};

TEST_CASE("stochastic: four at once are the four one by one, for any float", "[rounding][stochastic]") {
  test::check_everywhere(test::float_count(), four_at_once<e2m1>{test::float_count()});
  test::check_everywhere(test::float_count(), four_at_once<e4m3>{test::float_count()});
}

TEST_CASE("stochastic: e2m1, every dither and every place", "[rounding][stochastic]") {
  check_format<e2m1>(e2m1_map);
}
TEST_CASE("stochastic: e2m3 and e3m2, every dither and every place", "[rounding][stochastic]") {
  check_format<e2m3>(wide_map);
  check_format<e3m2>(wide_map);
}
TEST_CASE("stochastic: e4m3, every dither and every place", "[rounding][stochastic]") {
  check_format<e4m3>(wide_map);
}
TEST_CASE("stochastic: e5m2, every dither and every place", "[rounding][stochastic]") {
  check_format<e5m2>(wide_map);
}

/// A scale is drawn by the low half of its word; what is no number, or too large a one, is stored as the
/// largest.
struct scale_draws_from_the_low_half {
  FOURSCALE_HD bool operator()(u64 i) const {
    const float x = 400.0f * static_cast<float>(i) * 0x1p-12f;
    const u32 word = static_cast<u32>(test::mix(i));
    const float beyond[] = {bit_cast<float>(0x7fc0'0000u), bit_cast<float>(float_inf_bits), float_max,
                            449.0f};
    for (const float large : beyond)
      if (encode_stochastic_scale<e4m3>(large, word).bits != e4m3::max_bits) return false;
    return encode_stochastic_scale<e4m3>(x, word) == portable::encode_stochastic<e4m3>(x, word & 0xffffu) &&
           encode_stochastic_scale<e4m3>(x, word) == encode_stochastic_scale<e4m3>(x, word ^ 0xffff'0000u);
  }
};

TEST_CASE("stochastic: a scale by the low half of its word", "[rounding][stochastic]") {
  test::check_everywhere(4096, scale_draws_from_the_low_half{});
}

TEST_CASE("stochastic: bf16, by the halves of the word", "[rounding][stochastic]") {
  check_everywhere(test::float_count(), bf16_goes_up_by_its_half{test::float_count()});
}

TEST_CASE("stochastic: the policy is a function of the position", "[rounding][stochastic]") {
  check_everywhere(5000, draws_by_position{});
  // Another stream, row or group of columns has other words.
  u64 same = 0;
  for (i64 i = 0; i < 1000; ++i) {
    const u32 word = philox{5, 0}({i, 4 * i});
    same += word == philox{5, 1}({i, 4 * i});
    same += word == philox{6, 0}({i, 4 * i});
    same += word == philox{5, 0}({i + 1, 4 * i});
    same += word == philox{5, 0}({i, 4 * i + 4});
  }
  CHECK(same == 0);
}

TEST_CASE("stochastic: two copies with streams of their own round independently", "[rounding][stochastic]") {
  u64 differ = 0, up[2] = {0, 0};
  constexpr u64 n = 1 << 14;
  for (u64 i = 0; i < n; ++i) {
    const float x[4] = {0.75f, 0.75f, 0.75f, 0.75f};
    const position where{static_cast<i64>(i / 64), static_cast<i64>(i % 64 * 4)};
    const u32 a = stochastic{philox{1, 0}}(e2m1{}, x, where).get(1).bits;
    const u32 b = stochastic{philox{1, 1}}(e2m1{}, x, where).get(1).bits;
    differ += a != b, up[0] += a == 2, up[1] += b == 2;
  }
  // Each count is binomial with p = 1/2: 5 standard deviations are 5 * sqrt(n) / 2 = 320.
  for (const u64 count : {differ, up[0], up[1]}) {
    CHECK(count > n / 2 - 320);
    CHECK(count < n / 2 + 320);
  }
}
