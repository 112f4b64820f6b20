// SPDX-License-Identifier: Apache-2.0
// Transformer Engine's software rounding, restated in double: every random byte, every step of the grid.
#include <fourscale/rounding/stochastic.hpp>

#include "support/data.hpp"
#include "support/everywhere.hpp"
#include "support/grid.hpp"

using namespace fourscale;
using test::check_everywhere;
using test::value_of;

namespace {

/// The same word for every position.
struct fixed_word {
  u32 word;
  FOURSCALE_HD constexpr u32 operator()(position) const { return word; }
};

FOURSCALE_HD constexpr double step_at(double a) { return a < 2 ? 0.5 : a < 4 ? 1 : 2; }

/// t = fl(a + r / 256 * step(a)), then down to the grid of t's own step.
FOURSCALE_HD constexpr u32 restated(float x, u32 byte) {
  const u32 u = bit_cast<u32>(x);
  if ((u & 0x7fff'ffff) > float_inf_bits) return 7;
  const double a = static_cast<double>(bit_cast<float>(u & 0x7fff'ffff));
  u32 code = 7;
  if (a < 6) {
    const double t = static_cast<double>(static_cast<float>(a + byte / 256.0 * step_at(a)));
    while (code > 0 && value_of<e2m1>(static_cast<int>(code)) > t) --code;
  }
  return code | (u >> 31 << 3);
}

/// Value i: codes and what lies between them, and the floats next to each place where some byte decides.
FOURSCALE_HD constexpr float nth_value(u64 i) {
  const int code = static_cast<int>(i % 7);
  const double g = value_of<e2m1>(code), step = value_of<e2m1>(code + 1) - g;
  const u64 of_256 = i / 7 % 257;
  const float at = static_cast<float>(g + step * static_cast<double>(of_256) / 256);
  const u32 moved = bit_cast<u32>(at) + static_cast<u32>(i / 7 / 257 % 3);
  const float near = bit_cast<float>(moved ? moved - 1 : moved);
  return i / 7 / 257 / 3 % 2 ? -near : near;
}
constexpr u64 value_count = 7 * 257 * 3 * 2;

struct rounds_as_restated {
  FOURSCALE_HD bool operator()(u64 i) const {
    const float v = nth_value(i / 256), x[4] = {v, v, v, v};
    const u32 byte = static_cast<u32>(i % 256), other = static_cast<u32>(test::mix(i));
    for (int k = 0; k < 4; ++k) {
      const u32 word = (other & ~(0xffu << (8 * k))) | byte << (8 * k);
      const stochastic_te_software round{fixed_word{word}};
      if (round(e2m1{}, x, position{}).get(k).bits != restated(v, byte)) return false;
    }
    return true;
  }
};

struct any_float_as_restated {
  u64 count;
  FOURSCALE_HD bool operator()(u64 i) const {
    const float v = test::nth_float(i, count), x[4] = {v, v, v, v};
    const u32 word = static_cast<u32>(test::mix(i));
    // Below 2^-28 the sum is not exact in double; there t is the byte alone.
    const float magnitude = v < 0 ? -v : v;
    const float stand_in = magnitude < 0x1p-28f ? (bit_cast<u32>(v) >> 31 ? -0x1p-28f : 0x1p-28f) : v;
    const e2m1x4 codes = stochastic_te_software{fixed_word{word}}(e2m1{}, x, position{});
    for (int k = 0; k < 4; ++k)
      if (codes.get(k).bits != restated(stand_in, word >> (8 * k) & 255)) return false;
    return true;
  }
};

}  // namespace

TEST_CASE("stochastic_te_software: every byte over every step of the grid", "[rounding][te_software]") {
  check_everywhere(value_count * 256, rounds_as_restated{});
}

TEST_CASE("stochastic_te_software: any float, NaN and infinity too", "[rounding][te_software]") {
  check_everywhere(test::float_count(), any_float_as_restated{test::float_count()});
}

TEST_CASE("stochastic_te_software: its float sum rounds up where the instruction does not",
          "[rounding][te_software]") {
  const float below = 0x1.fffffep-3f, x[4] = {below, below, below, below};
  CHECK(stochastic_te_software{fixed_word{128}}(e2m1{}, x, position{}).get(0).bits == 1);
  CHECK(portable::encode_stochastic<e2m1>(below, 128 << 8).bits == 0);
}
