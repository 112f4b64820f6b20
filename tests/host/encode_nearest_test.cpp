// SPDX-License-Identifier: Apache-2.0
// The encoders of the CPU's loops beside the definition.
#include <fourscale/formats/convert.hpp>
#include <fourscale/host/run.hpp>

#include "support/catch.hpp"

using namespace fourscale;

namespace {

/// Where the two differ, over every 61st float and all of both signs near a code or a midpoint.
template <class E>
u64 count_differences() {
  u64 differences = 0;
  const auto check = [&](u32 bits) {
    const float x = bit_cast<float>(bits);
    const E want = portable::encode<E>(x);
    const u32 top = u32{want.bits} << (32 - E::width);
    const host::detail::nearest_code got = host::detail::encode_by_anchor<E>(x);
    const float value = bit_cast<float>(bit_cast<u32>(decode(want)) & 0x7fff'ffffu);
    differences += host::detail::encode_nearest<E>(x) != top || got.top != top ||
                   (x == x && bit_cast<u32>(got.value) != bit_cast<u32>(value));
  };
  for (u64 bits = 0; bits < u64{1} << 32; bits += 61) check(static_cast<u32>(bits));
  for (u32 k = 0; k < E::max_bits; ++k) {
    const float below = decode(E{static_cast<u8>(k)}), above = decode(E{static_cast<u8>(k + 1)});
    for (float x : {below, above, (below + above) * 0.5f})
      for (u32 near = 0; near < 5; ++near)
        for (u32 sign : {0u, 0x8000'0000u}) check((bit_cast<u32>(x) + near - 2) ^ sign);
  }
  for (u32 special : {0x7f80'0000u, 0xff80'0000u, 0x7f80'0001u, 0xffff'ffffu, 0x7f7f'ffffu, 0x8000'0001u})
    check(special);
  return differences;
}

}  // namespace

TEST_CASE("host: the encoders of the loops are the definition", "[host][encode_nearest]") {
  CHECK(count_differences<e2m1>() == 0);
  CHECK(count_differences<e1m2>() == 0);
  CHECK(count_differences<e4m3>() == 0);
  CHECK(count_differences<e5m2>() == 0);
  CHECK(count_differences<e2m3>() == 0);
  CHECK(count_differences<e3m2>() == 0);
}
