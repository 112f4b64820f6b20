// SPDX-License-Identifier: Apache-2.0
// numeric_limits, packed words and block formats: facts that a reader of the OCP specifications can check by
// eye.
#include <cstdio>
#include <cstdlib>
#include <fourscale/formats/block_formats.hpp>
#include <fourscale/formats/convert.hpp>
#include <fourscale/formats/limits.hpp>

#include "support/everywhere.hpp"

using namespace fourscale;

namespace {

template <class F>
using limits = std::numeric_limits<F>;

template <format F>
constexpr bool values_are(float lowest, float min, float denorm_min, float max, float epsilon,
                          float round_error = 0.5f) {
  return decode(limits<F>::lowest()) == lowest && decode(limits<F>::min()) == min &&
         decode(limits<F>::denorm_min()) == denorm_min && decode(limits<F>::max()) == max &&
         decode(limits<F>::epsilon()) == epsilon && decode(limits<F>::round_error()) == round_error;
}
// OCP MX v1.0 tables 2 to 5 and OCP OFP8 v1.0 table 1.
static_assert(values_are<e2m1>(-6, 1, 0.5f, 6, 0.5f));
static_assert(values_are<e2m3>(-7.5f, 1, 0.125f, 7.5f, 0.125f));
static_assert(values_are<e3m2>(-28, 0.25f, 0.0625f, 28, 0.25f));
static_assert(values_are<e4m3>(-448, 0x1p-6f, 0x1p-9f, 448, 0.125f));
static_assert(values_are<e5m2>(-57344, 0x1p-14f, 0x1p-16f, 57344, 0.25f));
static_assert(values_are<e8m0>(0x1p-127f, 0x1p-127f, 0x1p-127f, 0x1p127f, 1));
// A grid of whole numbers: the step above 1 is 1, and half of that is none of its numbers.
static_assert(values_are<e1m2>(-7, 4, 1, 7, 1, 0));

static_assert(limits<e4m3>::max_exponent == 9 && limits<e4m3>::min_exponent == -5 &&
              limits<e4m3>::digits == 4);
static_assert(limits<e5m2>::max_exponent == 16 && limits<e5m2>::min_exponent == -13);
static_assert(limits<e5m2>::max_exponent10 == 4 && limits<e5m2>::min_exponent10 == -4);
static_assert(limits<e8m0>::max_exponent == 128 && limits<e8m0>::min_exponent == -126);
static_assert(limits<e2m1>::is_specialized && !limits<e2m1>::has_quiet_NaN && !limits<e2m1>::has_infinity);
static_assert(limits<e5m2>::has_infinity && limits<e5m2>::infinity().bits == 0x7c);
static_assert(limits<e4m3>::quiet_NaN().bits == 0x7f && limits<e8m0>::quiet_NaN().bits == 0xff);

static_assert(max_exponent<e2m1> == 2 && max_exponent<e4m3> == 8 && max_exponent<e5m2> == 15);
static_assert(max_exponent<e2m3> == 2 && max_exponent<e3m2> == 4);

static_assert(nvfp4::block_size == 16 && mxfp8::block_size == 32 && block_code_bytes<nvfp4> == 8);
static_assert(block_code_bytes<mxfp4> == 16 && block_code_bytes<mxfp6> == 24 &&
              block_code_bytes<mxfp8> == 32);
static_assert(block_format<nvfp4> && block_format<mxfp6_e3m2> && block_format<mxfp8_e5m2>);

static_assert(sizeof(e2m1x2) == 1 && sizeof(e2m1x4) == 2 && sizeof(e2m1x8) == 4 && e2m3x4::bytes == 3);
static_assert(__is_trivially_copyable(e4m3) && __is_trivially_copyable(e2m1x8));

/// Sets each element of a word in turn and sees the others unchanged.
template <class Packed>
struct set_touches_one_element {
  FOURSCALE_HD bool operator()(u64 i) const {
    using element = decltype(Packed{}.get(0));
    Packed p{};
    for (int k = 0; k < Packed::size; ++k)
      p.set(k, element{static_cast<u8>((i + static_cast<u64>(k) * 5) % 16)});
    const int changed = static_cast<int>(i % Packed::size);
    Packed q = p;
    q.set(changed, element{9});
    for (int k = 0; k < Packed::size; ++k)
      if (q.get(k) != (k == changed ? element{9} : p.get(k))) return false;
    typename Packed::word from_bytes = 0;
    for (int k = 0; k < Packed::bytes; ++k)
      from_bytes =
          static_cast<typename Packed::word>(from_bytes | typename Packed::word{p.byte(k)} << (8 * k));
    return from_bytes == p.bits;
  }
};

}  // namespace

TEST_CASE("packed: set and get by element, bytes in memory order", "[formats][packed]") {
  test::check_everywhere(256, set_touches_one_element<e2m1x2>{});
  test::check_everywhere(256, set_touches_one_element<e2m1x8>{});
  test::check_everywhere(256, set_touches_one_element<e2m3x4>{});
  test::check_everywhere(256, set_touches_one_element<e3m2x8>{});
  test::check_everywhere(256, set_touches_one_element<e4m3x4>{});
  test::check_everywhere(256, set_touches_one_element<e5m2x8>{});
}

/// Every number, printed with max_digits10 digits, reads back as itself.
template <format F>
void check_digits() {
  INFO(F::name);
  for (u32 bits = 0; bits < 1u << F::width; ++bits) {
    const F code{static_cast<u8>(bits)};
    const float x = decode(code);
    if (x != x || (x - x != x - x)) continue;
    char text[64];
    std::snprintf(text, sizeof text, "%.*e", limits<F>::max_digits10 - 1, static_cast<double>(x));
    CHECK(encode<F>(std::strtof(text, nullptr)) == code);
  }
}

TEST_CASE("limits: max_digits10 digits tell all numbers of a format apart", "[formats][limits]") {
  check_digits<e2m1>();
  check_digits<e1m2>();
  check_digits<e2m3>();
  check_digits<e3m2>();
  check_digits<e4m3>();
  check_digits<e5m2>();
  check_digits<e8m0>();
}

/// What the constants above say, at run time.
template <format F>
void check_values(float lowest, float denorm_min, float epsilon) {
  INFO(F::name);
  CHECK(decode(limits<F>::lowest()) == lowest);
  CHECK(decode(limits<F>::denorm_min()) == denorm_min);
  CHECK(decode(limits<F>::epsilon()) == epsilon);
}

TEST_CASE("limits: the numbers of the specifications, at run time", "[formats][limits]") {
  check_values<e2m1>(-6, 0.5f, 0.5f);
  check_values<e4m3>(-448, 0x1p-9f, 0.125f);
  check_values<e8m0>(0x1p-127f, 0x1p-127f, 1);
  check_values<e1m2>(-7, 1, 1);
}
