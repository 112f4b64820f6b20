// SPDX-License-Identifier: Apache-2.0
// encode and decode of every format against the grid written out from its definition: every code, and every
// float under
// `./run test --exhaustive`.
#include <fourscale/formats/convert.hpp>

#include "support/everywhere.hpp"
#include "support/grid.hpp"

using namespace fourscale;
using test::check_everywhere;
using test::float_count;
using test::nearest_code;
using test::nth_float;
using test::value_of;

namespace {

FOURSCALE_HD constexpr u32 magnitude_of(float x) { return bit_cast<u32>(x) & 0x7fff'ffffu; }
FOURSCALE_HD constexpr bool is_nan(float x) { return magnitude_of(x) > float_inf_bits; }
FOURSCALE_HD constexpr u32 sign_of(float x) { return bit_cast<u32>(x) >> 31; }

template <element_format F>
struct decodes_to_its_value {
  FOURSCALE_HD bool operator()(u64 i) const {
    const F code{static_cast<u8>(i)};
    const float x = decode(code);
    const u32 magnitude = code.bits & magnitude_mask<F>;
    if (magnitude > F::max_bits)
      return F::has_infinity && magnitude == F::max_bits + 1u ? magnitude_of(x) == float_inf_bits : is_nan(x);
    return static_cast<double>(x) == value_of<F>(code.bits) &&
           sign_of(x) == static_cast<u32>(code.bits >> (F::width - 1));
  }
};

template <element_format F>
struct decode_then_encode_is_the_code {
  FOURSCALE_HD bool operator()(u64 i) const {
    const F code{static_cast<u8>(i)};
    if ((code.bits & magnitude_mask<F>) > F::max_bits) return true;
    const float x = decode(code);
    return encode<F>(x) == code && encode_up<F>(x) == code && encode_down<F>(x) == code;
  }
};

template <element_format F>
struct encodes_to_nearest {
  u64 count;
  FOURSCALE_HD bool operator()(u64 i) const {
    const float x = nth_float(i, count);
    const u32 magnitude =
        is_nan(x) ? F::nan_bits
                  : static_cast<u32>(nearest_code<F>(static_cast<double>(bit_cast<float>(magnitude_of(x)))));
    const u32 expected = magnitude | (is_nan(x) ? 0 : sign_of(x) << (F::width - 1));
    return encode<F>(x).bits == expected && portable::encode<F>(x).bits == expected;
  }
};

template <element_format F>
struct pairs_and_words_agree_with_single_values {
  u64 count;
  FOURSCALE_HD bool operator()(u64 i) const {
    float x[8];
    for (u64 j = 0; j < 8; ++j) x[j] = nth_float((i * 8 + j * 131) % count, count);
    const auto two = encode<F>(x[0], x[1]);
    const auto eight = encode<F>(x);
    for (int j = 0; j < 8; ++j)
      if (eight.get(j) != encode<F>(x[j])) return false;
    return two.get(0) == encode<F>(x[0]) && two.get(1) == encode<F>(x[1]);
  }
};

template <element_format F>
struct up_and_down_bracket_the_value {
  u64 count;
  FOURSCALE_HD bool operator()(u64 i) const {
    const float x = nth_float(i, count);
    const F up = encode_up<F>(x), down = encode_down<F>(x);
    if (is_nan(x)) return up.bits == F::nan_bits && down.bits == F::nan_bits;
    const double v = static_cast<double>(x), largest = value_of<F>(F::max_bits);
    const double above = value_of<F>(up.bits), below = value_of<F>(down.bits);
    if (v >= largest) return above == largest && below == largest;
    if (v <= -largest) return above == -largest && below == -largest;
    // The two are the nearest codes on either side: none lies between them but the value itself.
    const int steps = above == below ? 0 : 1;
    const int up_order = up.bits >> (F::width - 1) ? -(up.bits & int(magnitude_mask<F>)) : up.bits;
    const int down_order = down.bits >> (F::width - 1) ? -(down.bits & int(magnitude_mask<F>)) : down.bits;
    return below <= v && v <= above && (below == v) == (above == v) && up_order - down_order == steps;
  }
};

struct e8m0_brackets_the_magnitude {
  u64 count;
  FOURSCALE_HD bool operator()(u64 i) const {
    const float x = nth_float(i, count);
    const u32 up = encode_up<e8m0>(x).bits, down = encode_down<e8m0>(x).bits, near = encode<e8m0>(x).bits;
    if (is_nan(x)) return up == 0xff && down == 0xff && near == 0xff;
    const double v = static_cast<double>(bit_cast<float>(magnitude_of(x)));
    u32 lower = 0, above = 255;  // lower becomes the largest code whose power does not exceed v
    while (above - lower > 1) {
      const u32 middle = (lower + above) / 2;
      (test::power(static_cast<int>(middle) - 127) <= v ? lower : above) = middle;
    }
    const double p = test::power(static_cast<int>(lower) - 127);
    const u32 upper = v <= p || lower == 254 ? lower : lower + 1;
    const double to_lower = v - p, to_upper = 2 * p - v;
    const u32 nearest =
        upper == lower || to_lower < to_upper || (to_lower == to_upper && lower % 2 == 0) ? lower : upper;
    return up == upper && down == lower && near == nearest;
  }
};

template <element_format F>
void check_format() {
  INFO(F::name);
  check_everywhere(u64{1} << F::width, decodes_to_its_value<F>{});
  check_everywhere(u64{1} << F::width, decode_then_encode_is_the_code<F>{});
  check_everywhere(float_count(), encodes_to_nearest<F>{float_count()});
  check_everywhere(float_count() / 8, pairs_and_words_agree_with_single_values<F>{float_count()});
  check_everywhere(float_count(), up_and_down_bracket_the_value<F>{float_count()});
}

// The text of PTX ISA 9.7.9.21 and OCP MX v1.0 as facts of the compiler.
static_assert(encode<e2m1>(0.25f).bits == 0 && encode<e2m1>(0.75f).bits == 2 &&
              encode<e2m1>(1.25f).bits == 2);
static_assert(encode<e2m1>(1.75f).bits == 4 && encode<e2m1>(2.5f).bits == 4 && encode<e2m1>(3.5f).bits == 6);
static_assert(encode<e2m1>(5.0f).bits == 6 && encode<e2m1>(0x1.400002p2f).bits == 7);
static_assert(encode<e2m1>(6.0f, -0.5f).bits == 0x97, "element 0 is the low nibble");
static_assert(encode<e2m1>(-0.0f).bits == 0x8 && encode<e2m1>(-0.1f).bits == 0x8);
static_assert(encode<e2m1>(bit_cast<float>(0xffc0'0000u)).bits == 0x7, "NaN of either sign is +6");
static_assert(encode<e4m3>(bit_cast<float>(0xff80'0000u)).bits == 0xfe, "-infinity saturates to -448");
static_assert(encode<e4m3>(bit_cast<float>(0xffc0'0000u)).bits == 0x7f);
static_assert(encode<e4m3>(464.0f).bits == 0x7e && encode<e4m3>(0x1p-10f).bits == 0, "ties go to even");
static_assert(encode<e5m2>(1e30f).bits == 0x7b && decode(e5m2{0x7c}) == bit_cast<float>(float_inf_bits));
static_assert(encode_up<e8m0>(0.0f).bits == 0 && encode_up<e8m0>(0x1.000002p0f).bits == 128);
static_assert(encode_up<e8m0>(bit_cast<float>(float_inf_bits)).bits == 0xfe);
static_assert(decode(e8m0{0}) == 0x1p-127f && decode(e8m0{254}) == 0x1p127f);

}  // namespace

TEST_CASE("e2m1: every code, and every float to the nearest code", "[formats][e2m1]") {
  check_format<e2m1>();
}
TEST_CASE("e2m3: every code, and every float to the nearest code", "[formats][e2m3]") {
  check_format<e2m3>();
}
TEST_CASE("e3m2: every code, and every float to the nearest code", "[formats][e3m2]") {
  check_format<e3m2>();
}
TEST_CASE("e4m3: every code, and every float to the nearest code", "[formats][e4m3]") {
  check_format<e4m3>();
}
TEST_CASE("e5m2: every code, and every float to the nearest code", "[formats][e5m2]") {
  check_format<e5m2>();
}

TEST_CASE("e8m0: up, down and nearest are ceil, floor and round of log2", "[formats][e8m0]") {
  check_everywhere(float_count(), e8m0_brackets_the_magnitude{float_count()});
  for (int code = 0; code < 255; ++code)
    CHECK(static_cast<double>(decode(e8m0{static_cast<u8>(code)})) == test::power(code - 127));
  CHECK(is_nan(decode(e8m0{0xff})));
}
