// SPDX-License-Identifier: Apache-2.0
// Elements to bf16 by shifts: each code, in each place of a word.
#include <cmath>
#include <fourscale/formats/convert.hpp>
#include <fourscale/mma/elements_to_bf16.hpp>

#include "support/catch.hpp"

using namespace fourscale;

namespace {

template <class E>
void check_all_codes() {
  INFO(E::name);
  const auto value_of = [](u32 half) { return bit_cast<float>(half << 16); };
  const double factor = static_cast<double>(value_of(mma::factor_of_bytes<E> & 0xffffu));
  CHECK(mma::factor_of_bytes<E> >> 16 == (mma::factor_of_bytes<E> & 0xffffu));
  CHECK(factor == std::ldexp(1.0, 127 - E::bias));
  int wrong = 0;
  for (u32 code = 0; code < 1u << E::width; ++code)
    for (u32 place = 0; place < 4; ++place)
      for (const u32 other : {0u, (1u << E::width) - 1}) {
        packed<E, 4> four;
        for (u32 i = 0; i < 4; ++i)
          four.set(static_cast<int>(i), E{static_cast<u8>(i == place ? code : other)});
        const u32 bytes = bytes_of_four<E>(static_cast<u32>(four.bits));
        u32 r[2];
        mma::bytes_to_bf16<E>(bytes, r);
        const bool special = mma::have_specials<E>(bytes);
        if (special) mma::with_specials<E>(bytes, r);
        bool any_special = false;
        for (u32 i = 0; i < 4; ++i) {
          const float expected = decode(four.get(static_cast<int>(i)));
          any_special = any_special || !std::isfinite(expected);
          const float got = value_of(r[i / 2] >> (16 * (i % 2)) & 0xffffu);
          if (std::isfinite(expected))
            wrong += static_cast<double>(got) * factor != static_cast<double>(expected) ||
                     std::signbit(got) != std::signbit(expected);
          else
            wrong += std::isnan(expected) ? !std::isnan(got) : got != expected;
        }
        wrong += special != any_special;
      }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("elements to bf16: all codes of all formats", "[mma]") {
  check_all_codes<e2m1>();
  check_all_codes<e2m3>();
  check_all_codes<e3m2>();
  check_all_codes<e4m3>();
  check_all_codes<e5m2>();
}
