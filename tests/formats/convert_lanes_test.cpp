// SPDX-License-Identifier: Apache-2.0
// The lane forms of encode and decode compared with the definition, and not only one value at a time: in a
// loop, as compilers vectorize it.
#include <fourscale/formats/convert_lanes.hpp>

#include "support/catch.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;

namespace {

constexpr u32 specials[] = {0x7f80'0000u, 0xff80'0000u, 0x7f80'0001u, 0xffff'ffffu,
                            0x7f7f'ffffu, 0x8000'0001u, 0x0000'0001u, 0x0080'0000u};

/// Calls check(bits) for every `step`th float, and for all near a code of E or a midpoint.
template <class E, class Check>
void sweep(u64 step, Check check) {
  for (u64 bits = 0; bits < u64{1} << 32; bits += step) check(static_cast<u32>(bits));
  for (u32 k = 0; k < E::max_bits; ++k) {
    const float below = decode(E{static_cast<u8>(k)}), above = decode(E{static_cast<u8>(k + 1)});
    for (float x : {below, above, (below + above) * 0.5f})
      for (u32 near = 0; near < 5; ++near)
        for (u32 sign : {0u, 0x8000'0000u}) check((bit_cast<u32>(x) + near - 2) ^ sign);
  }
  for (u32 special : specials) check(special);
}

template <class E>
u32 top(E code) {
  return u32{code.bits} << (32 - E::width);
}

template <class E>
u64 nearest_differences() {
  u64 differences = 0;
  sweep<E>(test::exhaustive() ? 1 : 61, [&](u32 bits) {
    const float x = bit_cast<float>(bits);
    const E want = portable::encode<E>(x);
    const lanes::nearest_code got = lanes::encode_by_anchor<E>(x);
    const float value = bit_cast<float>(bit_cast<u32>(decode(want)) & 0x7fff'ffffu);
    differences += lanes::encode_nearest<E>(x) != top(want) || got.top != top(want) ||
                   (x == x && bit_cast<u32>(got.value) != bit_cast<u32>(value));
  });
  return differences;
}

/// A sweep of x with some dithers, and all dithers with some x.
template <class E>
u64 stochastic_differences() {
  u64 differences = 0;
  const auto check = [&](u32 bits, u32 dither) {
    const float x = bit_cast<float>(bits);
    differences += lanes::encode_stochastic<E>(x, dither) != top(portable::encode_stochastic<E>(x, dither));
  };
  sweep<E>(test::exhaustive() ? 1 : 331, [&](u32 bits) {
    for (u32 dither : {0u, 1u, 0x7fffu, 0x8000u, 0xffffu, bits * 0x9e37'79b9u >> 16}) check(bits, dither);
  });
  const auto all_dithers = [&](u32 bits) {
    for (u32 dither = 0; dither < 65536; ++dither) check(bits, dither);
  };
  for (u32 i = 0; i < 64; ++i)  // from 2^-20 of a code to beyond the largest
    all_dithers((u32{128 - E::bias - 20} << 23) + i * (((u32{E::exponent_bits} + 24) << 23) / 64 + 12345));
  for (u32 special : specials) all_dithers(special);
  return differences;
}

template <class E>
u64 decode_differences() {
  u64 differences = 0;
  u32 all[256];
  float got[256];
  for (u32 i = 0; i < 256; ++i) all[i] = i;
  for (u32 i = 0; i < 256; ++i) got[i] = lanes::decode_bits<E>(all[i]);
  for (u32 i = 0; i < 256; ++i) {
    const E code{static_cast<u8>(i & ((1u << E::width) - 1))};
    differences += bit_cast<u32>(got[i]) != bit_cast<u32>(portable::decode(code));
  }
  return differences;
}

template <class S>
u64 scale_differences() {
  u64 differences = 0;
  for (u32 i = 0; i < 256; ++i) {
    const S scale{static_cast<u8>(i)};
    differences += bit_cast<u32>(lanes::decode_scale(scale)) != bit_cast<u32>(portable::decode(scale));
  }
  return differences;
}

template <template <class> class Check>
void check_all_formats() {
  CHECK(Check<e2m1>{}() == 0);
  CHECK(Check<e1m2>{}() == 0);
  CHECK(Check<e4m3>{}() == 0);
  CHECK(Check<e5m2>{}() == 0);
  CHECK(Check<e2m3>{}() == 0);
  CHECK(Check<e3m2>{}() == 0);
}
template <class E>
struct nearest {
  u64 operator()() const { return nearest_differences<E>(); }
};
template <class E>
struct by_random_bits {
  u64 operator()() const { return stochastic_differences<E>(); }
};
template <class E>
struct decoding {
  u64 operator()() const { return decode_differences<E>(); }
};

}  // namespace

TEST_CASE("lanes: encode to nearest is the definition", "[formats][lanes]") { check_all_formats<nearest>(); }

TEST_CASE("lanes: encode by random bits is the definition", "[formats][lanes]") {
  check_all_formats<by_random_bits>();
}

TEST_CASE("lanes: decode of every code and scale is the definition", "[formats][lanes]") {
  check_all_formats<decoding>();
  CHECK(scale_differences<e4m3>() == 0);
  CHECK(scale_differences<e8m0>() == 0);
}

TEST_CASE("lanes: infinity and NaN become FLT_MAX, all else stays", "[formats][lanes]") {
  u64 differences = 0;
  sweep<e2m1>(61, [&](u32 bits) {
    const float x = bit_cast<float>(bits), want = x <= float_max ? x : float_max;
    differences += bit_cast<u32>(lanes::finite(x)) != bit_cast<u32>(want);
  });
  CHECK(differences == 0);
}
