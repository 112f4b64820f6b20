// SPDX-License-Identifier: Apache-2.0
// The fast forms of rounding policies and of random bits compared with their definitions. What encode_lane
// does with its bits, formats/convert_lanes_test.cpp has swept; here policies put bits and values together.
#include <fourscale/rounding/nearest_even.hpp>
#include <fourscale/rounding/stochastic.hpp>

#include "support/catch.hpp"
#include "support/data.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;

namespace {

static_assert(lane_rounding_policy<nearest_even, e2m1> && lane_rounding_policy<nearest_even, e4m3>);
static_assert(drawing_lane_rounding_policy<stochastic<>, e2m1> && lane_random_bits<philox<7>>);
static_assert(drawing_lane_rounding_policy<stochastic_te_software<>, e2m1> &&
              !drawing_lane_rounding_policy<stochastic_te_software<>, e4m3>);

/// Random bits of a user, without a fast form.
struct own_bits {
  FOURSCALE_HD u32 operator()(position where) const {
    return static_cast<u32>(test::mix(static_cast<u64>(where.row * 1000003 + where.col)));
  }
};
static_assert(!lane_random_bits<own_bits> && drawing_lane_rounding_policy<stochastic<own_bits>, e2m1>);

template <class Bits>
u64 word_differences(Bits const& bits) {
  u64 differences = 0;
  for (const i64 row : {i64{0}, i64{77}, i64{1} << 31, (i64{1} << 32) - 1})
    for (const i64 col : {i64{0}, i64{16}, i64{160000}, (i64{1} << 36) - 640}) {
      u32 words[4 * 67];
      for (const int count : {1, 2, 7, 16, 40}) {
        bits.draw_lanes({row, col}, count, words);
        for (int i = 0; i < 4 * count; ++i) differences += words[i] != bits(position{row, col + 4 * i});
      }
    }
  return differences;
}

/// `count` fours of x from `where` on, by both forms.
template <class F, class Round>
u64 code_differences(Round const& round, position where, int count, float const* x, u32* drawn) {
  u64 differences = 0;
  round.draw_lanes(F{}, where, count, drawn);
  for (int i = 0; i < count; ++i) {
    const float four[4] = {x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]};
    const auto want = round(F{}, four, where.right(4 * i));
    for (int k = 0; k < 4; ++k) {
      const u32 pair = drawn[2 * i + k / 2], bits = k % 2 ? pair >> 16 : pair & 0xffffu;
      differences += round.encode_lane(F{}, four[k], bits) != u32{want.get(k).bits} << (32 - F::width);
    }
  }
  return differences;
}

template <class F, class Round>
u64 differences(Round const& round) {
  constexpr int fours = 200;
  float x[4 * fours];
  u32 drawn[2 * fours];
  u64 sum = 0;
  for (i64 row = 0; row < 400; ++row) {
    for (u64 i = 0; i < 4 * fours; ++i) {
      const u64 index = static_cast<u64>(row) * 4 * fours + i;
      x[i] = index % 2 ? test::ugly(index) : test::gaussian(index) * 3.0f;
    }
    for (const int count : {1, 3, 64, 199})
      sum += code_differences<F>(round, {row, 4 * row}, count, x, drawn);
  }
  return sum;
}

/// All 2^8 draws of Transformer Engine's software rounding, with values from far below to beyond the grid.
u64 te_differences() {
  struct same_byte {
    u32 byte;
    FOURSCALE_HD u32 operator()(position) const { return byte * 0x0101'0101u; }
  };
  u64 sum = 0;
  for (u32 byte = 0; byte < 256; ++byte)
    for (u64 i = 0; i < 65536; i += 3) {
      const float x = bit_cast<float>(static_cast<u32>(i << 16 | ((i * 0x9e37u) & 0xffffu)));
      const stochastic_te_software<same_byte> round{same_byte{byte}};
      const auto want = round(e2m1{}, {x, x, x, x}, position{});
      sum += round.encode_lane(e2m1{}, x, byte) != u32{want.get(0).bits} << 28;
    }
  return sum;
}

}  // namespace

TEST_CASE("lanes: the words of philox are those of its definition", "[rounding][lanes]") {
  CHECK(word_differences(philox{0x1234'5678'9abc'def0ull, 0xfedc'ba98'7654'3210ull}) == 0);
  CHECK(word_differences(philox<7>{1, 2}) == 0);
  CHECK(word_differences(prepared_philox<10>{philox{3, 4}}) == 0);
}

TEST_CASE("lanes: stochastic rounding is the definition, from any column", "[rounding][lanes]") {
  CHECK(differences<e2m1>(stochastic{philox{1, 2}}) == 0);
  CHECK(differences<e2m1>(stochastic{own_bits{}}) == 0);
  CHECK(differences<e2m3>(stochastic{philox<7>{1, 2}}) == 0);
  CHECK(differences<e4m3>(stochastic{philox{5}}) == 0);
  CHECK(differences<e5m2>(stochastic{own_bits{}}) == 0);
}

TEST_CASE("lanes: Transformer Engine's software rounding is the definition", "[rounding][lanes]") {
  CHECK(differences<e2m1>(stochastic_te_software{philox{1, 2}}) == 0);
  CHECK(te_differences() == 0);
}
