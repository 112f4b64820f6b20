// SPDX-License-Identifier: Apache-2.0
// The two MX rules against their definitions: comparisons with powers of two in double.
#include <fourscale/scaling/power_of_two.hpp>

#include "support/everywhere.hpp"
#include "support/grid.hpp"

using namespace fourscale;
using test::check_everywhere;
using test::power;

namespace {

/// Every bf16 magnitude and, within a binade of them, floats next to F's largest value times a power of two,
/// where a rule that rounds once too often goes wrong.
template <block_format F>
FOURSCALE_HD constexpr float nth_amax(u64 i) {
  if (i < 0x7f80) return bit_cast<float>(static_cast<u32>(i) << 16);
  const u64 k = (i - 0x7f80) / 9, step = (i - 0x7f80) % 9;
  const double largest = test::value_of<typename F::element>(F::element::max_bits);
  const float at = static_cast<float>(largest * power(static_cast<int>(k) - 130));
  return bit_cast<float>(bit_cast<u32>(at) + static_cast<u32>(step) - 4);
}
constexpr u64 amax_count = 0x7f80 + 240 * 9;

/// The smallest code whose power of two is not below v.
FOURSCALE_HD constexpr int smallest_power(double v) {
  int e = 0;
  while (e < 254 && power(e - 127) < v) ++e;
  return e;
}

/// Multiplying by the inverse must undo the scale exactly.
FOURSCALE_HD constexpr bool inverts(block_scale<mxfp4> s) {
  return static_cast<double>(s.multiplier) == power(127 - s.scale.bits);
}
template <block_format F>
FOURSCALE_HD constexpr bool inverts(block_scale<F> s) {
  return inverts(block_scale<mxfp4>{s.scale, s.multiplier});
}

template <block_format F>
struct up_holds_amax {
  FOURSCALE_HD bool operator()(u64 i) const {
    const float amax = nth_amax<F>(i);
    if (bit_cast<u32>(amax) >= float_inf_bits) return true;
    const block_scale<F> s = power_of_two_up{}(F{}, amax, {});
    const double largest = test::value_of<typename F::element>(F::element::max_bits);
    const double a = static_cast<double>(amax), quotient = a / largest;
    // Where the quotient is a normal float the rule is the smallest power of two that holds amax. Below, it
    // is that of the product as binary32 rounds it.
    const double rounded =
        quotient >= power(-126) ? quotient : static_cast<double>(static_cast<float>(a * (1 / largest)));
    return s.scale.bits == smallest_power(rounded) && inverts(s);
  }
};

template <block_format F>
struct floor_is_the_definition {
  FOURSCALE_HD bool operator()(u64 i) const {
    const float amax = nth_amax<F>(i);
    if (bit_cast<u32>(amax) >= float_inf_bits) return true;
    const block_scale<F> s = power_of_two_floor{}(F{}, amax, {});
    const double a = static_cast<double>(amax);
    int exponent = -149;  // floor(log2 amax)
    while (exponent < 127 && power(exponent + 1) <= a) ++exponent;
    const int emax = F::element::max_bits / (1 << F::element::mantissa_bits) - F::element::bias;
    const int expected = exponent - emax + 127;
    return s.scale.bits == (a == 0 || expected < 0 ? 0 : expected) && inverts(s);
  }
};

template <block_format F>
void check_rules() {
  INFO(F::name);
  check_everywhere(amax_count, up_holds_amax<F>{});
  check_everywhere(amax_count, floor_is_the_definition<F>{});
  const float infinity = bit_cast<float>(float_inf_bits), quiet_nan = bit_cast<float>(0x7fc0'0000u);
  CHECK(power_of_two_up{}(F{}, 0.0f, {}).scale.bits == 0);
  CHECK(power_of_two_up{}(F{}, infinity, {}).scale.bits == 254);
  CHECK(power_of_two_floor{}(F{}, infinity, {}).scale.bits == 254);
  CHECK(bit_cast<u32>(power_of_two_up{}(F{}, infinity, {}).multiplier) == 0x0040'0000);
  CHECK(power_of_two_up{}(F{}, quiet_nan, {}).scale.bits == 255);
  CHECK(power_of_two_floor{}(F{}, quiet_nan, {}).scale.bits == 255);
  const float poisoned = power_of_two_up{}(F{}, quiet_nan, {}).multiplier;
  CHECK(poisoned != poisoned);
}

// OCP MX v1.0 section 6.3 and the NVIDIA rule differ exactly where the largest value would saturate.
static_assert(power_of_two_up{}(mxfp4{}, 6.0f, {}).scale.bits == 127);
static_assert(power_of_two_up{}(mxfp4{}, 0x1.800002p2f, {}).scale.bits == 128);
static_assert(power_of_two_floor{}(mxfp4{}, 0x1.fffffep2f, {}).scale.bits == 127);
static_assert(power_of_two_floor{}(mxfp4{}, 8.0f, {}).scale.bits == 128);
static_assert(power_of_two_up{}(mxfp8{}, 448.0f, {}).scale.bits == 127);
static_assert(power_of_two_up{}(mxfp8{}, 0x1.c00002p8f, {}).scale.bits == 128);

}  // namespace

TEST_CASE("power_of_two: up holds amax, floor truncates its exponent: mxfp4", "[scaling][power_of_two]") {
  check_rules<mxfp4>();
}
TEST_CASE("power_of_two: up holds amax, floor truncates its exponent: mxfp6", "[scaling][power_of_two]") {
  check_rules<mxfp6_e2m3>();
  check_rules<mxfp6_e3m2>();
}
TEST_CASE("power_of_two: up holds amax, floor truncates its exponent: mxfp8", "[scaling][power_of_two]") {
  check_rules<mxfp8_e4m3>();
  check_rules<mxfp8_e5m2>();
}
