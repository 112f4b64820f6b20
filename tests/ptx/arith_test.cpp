// SPDX-License-Identifier: Apache-2.0
// One rounding an operation, also where the compiler could join two; bits and bytes. CMake compiles this file
// with -O3 -mfma where that exists, because only then g++ would.
#include <fourscale/ptx/arith.hpp>

#include "support/data.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;

namespace {

/// A product, then a sum, each rounded. In double the product of two floats is exact, and rounding the double
/// sum of two floats to float gives their float sum (53 >= 2 * 24 + 2); `volatile` keeps compilers from
/// seeing that.
struct rounds_twice {
  FOURSCALE_HD bool operator()(u64 i) const {
    volatile float inputs[3] = {test::gaussian(3 * i), test::gaussian(3 * i + 1), test::gaussian(3 * i + 2)};
    const float a = inputs[0], b = inputs[1], c = inputs[2];
    volatile double exact = static_cast<double>(inputs[0]) * static_cast<double>(inputs[1]);
    volatile float product = static_cast<float>(exact);
    volatile double sum = static_cast<double>(product) + static_cast<double>(inputs[2]);
    return ptx::add_rn_f32(ptx::mul_rn_f32(a, b), c) == static_cast<float>(sum);
  }
};

/// The same in a loop, which g++ vectorizes. The addends are the products but for their sign, so that only
/// what the products lost would be left.
i64 count_joined() {
  constexpr int n = 1000;
  static float a[n], b[n], c[n], sums[n];
  for (int i = 0; i < n; ++i) {
    a[i] = test::gaussian(static_cast<u64>(2 * i));
    b[i] = test::gaussian(static_cast<u64>(2 * i + 1));
    volatile float product = a[i] * b[i];
    c[i] = -product;
  }
  for (int i = 0; i < n; ++i) sums[i] = ptx::add_rn_f32(ptx::mul_rn_f32(a[i], b[i]), c[i]);
  i64 joined = 0;
  for (const float sum : sums) joined += sum != 0.0f;
  return joined;
}

/// Rounding the double quotient of two floats to float gives their float quotient (53 >= 2 * 24 + 2).
struct divides {
  FOURSCALE_HD bool operator()(u64 i) const {
    const float a = test::gaussian(2 * i), b = test::gaussian(2 * i + 1);
    if (b == 0.0f) return true;
    return ptx::div_rn_f32(a, b) == static_cast<float>(static_cast<double>(a) / static_cast<double>(b));
  }
};

/// Magnitudes of E2M1, in halves, times four bits: with this addend the sum is exact in double.
struct rounds_up {
  FOURSCALE_HD bool operator()(u64 i) const {
    constexpr float halves[] = {1, 2, 3, 4, 6, 8, 12};
    const u64 r = test::mix(i);
    const float a = halves[r % 7],
                b = static_cast<float>(8 + (r >> 8) % 8) *
                    bit_cast<float>(static_cast<u32>(104 + (r >> 16) % 32) << 23),
                c = (r >> 24) % 2 == 0 ? 0x1p23f
                                       : bit_cast<float>(127u << 23 | static_cast<u32>(r >> 40) >> 1);
    const double exact = static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c);
    const float nearest = static_cast<float>(exact);
    const u32 up = static_cast<double>(nearest) < exact ? 1 : 0;
    return bit_cast<u32>(ptx::fma_rp_f32(a, b, c)) == bit_cast<u32>(nearest) + up;
  }
};

/// In the order of bits, in which -0 comes before +0.
struct takes_the_larger {
  FOURSCALE_HD bool operator()(u64 i) const {
    const auto place = [](float x) {
      const u32 bits = bit_cast<u32>(x);
      return bits >> 31 != 0 ? ~bits : bits | 0x8000'0000u;
    };
    const float a = test::ugly(2 * i), b = test::ugly(2 * i + 1);
    const float larger = a != a || b != b ? bit_cast<float>(0x7fff'ffffu) : place(a) < place(b) ? b : a;
    return bit_cast<u32>(ptx::max_nan_f32(a, b)) == bit_cast<u32>(larger);
  }
};

/// Bit by bit.
struct selects {
  FOURSCALE_HD bool operator()(u64 i) const {
    const u32 mask = static_cast<u32>(test::mix(3 * i)), a = static_cast<u32>(test::mix(3 * i + 1)),
              b = static_cast<u32>(test::mix(3 * i + 2)), selected = ptx::lop3_select_b32(mask, a, b);
    for (int bit = 0; bit < 32; ++bit)
      if ((selected >> bit & 1u) != ((mask >> bit & 1u) != 0 ? a >> bit & 1u : b >> bit & 1u)) return false;
    return true;
  }
};

/// Byte by byte.
struct permutes {
  FOURSCALE_HD bool operator()(u64 i) const {
    const u32 a = static_cast<u32>(test::mix(3 * i)), b = static_cast<u32>(test::mix(3 * i + 1)),
              selector = static_cast<u32>(test::mix(3 * i + 2)) & 0xffffu,
              permuted = ptx::prmt_b32(a, b, selector);
    for (u32 k = 0; k < 4; ++k) {
      const u32 from = selector >> (4 * k) & 7u, byte = (from < 4 ? a : b) >> (8 * (from % 4)) & 0xffu,
                sign = byte >= 128 ? 255 : 0;
      if ((permuted >> (8 * k) & 0xffu) != ((selector >> (4 * k) & 8u) != 0 ? sign : byte)) return false;
    }
    return true;
  }
};

bool cpu_can_run_this() {
#if defined(__FMA__) && defined(__GNUC__)
  return __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

}  // namespace

TEST_CASE("arith: a product and a sum are two roundings", "[ptx][arith]") {
  if (!cpu_can_run_this()) return;
  test::check_everywhere(100000, rounds_twice{});
  test::check_everywhere(100000, divides{});
  test::check_everywhere(100000, rounds_up{});
  test::check_everywhere(100000, takes_the_larger{});
  CHECK(count_joined() == 0);
}

TEST_CASE("arith: division by zero is infinite, but for zero and NaN", "[ptx][arith]") {
  const float infinity = bit_cast<float>(float_inf_bits), quiet_nan = bit_cast<float>(0x7fc0'0000u);
  for (const float zero : {0.0f, -0.0f}) {
    const float sign = bit_cast<u32>(zero) == 0 ? 1.0f : -1.0f;
    for (const float x : {0x1p-149f, 3.0f, float_max, infinity}) {
      CHECK(ptx::div_rn_f32(x, zero) == sign * infinity);
      CHECK(ptx::div_rn_f32(-x, zero) == -sign * infinity);
    }
    for (const float x : {0.0f, -0.0f, quiet_nan, -quiet_nan})
      CHECK(ptx::div_rn_f32(x, zero) != ptx::div_rn_f32(x, zero));
  }
}

TEST_CASE("arith: bits selected by a mask, bytes and their signs by a selector", "[ptx][arith]") {
  if (!cpu_can_run_this()) return;
  test::check_everywhere(100000, selects{});
  test::check_everywhere(100000, permutes{});
}
