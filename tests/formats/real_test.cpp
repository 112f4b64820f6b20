// SPDX-License-Identifier: Apache-2.0
// bf16 and fp16: every pattern back and forth, and every float to the nearest, against the definition in
// double.
#include <fourscale/formats/real.hpp>

#include "support/everywhere.hpp"
#include "support/grid.hpp"

using namespace fourscale;
using test::check_everywhere;
using test::float_count;
using test::nth_float;

namespace {

/// The fields of a 16-bit IEEE-like type, and the value of its finite magnitudes.
template <class T>
constexpr int mantissa_bits = same_type<T, bf16> ? 7 : 10;
template <class T>
constexpr int bias = same_type<T, bf16> ? 127 : 15;
template <class T>
constexpr u32 infinity = same_type<T, bf16> ? 0x7f80 : 0x7c00;

template <class T>
FOURSCALE_HD double value_of(u32 magnitude) {
  const int e = static_cast<int>(magnitude >> mantissa_bits<T>);
  const double m = static_cast<double>(magnitude & ((1u << mantissa_bits<T>)-1)) / (1 << mantissa_bits<T>);
  return e == 0 ? test::power(1 - bias<T>) * m : test::power(e - bias<T>) * (1 + m);
}

template <class T>
struct every_pattern_survives {
  FOURSCALE_HD bool operator()(u64 i) const {
    const T value{static_cast<u16>(i)};
    const u32 magnitude = value.bits & 0x7fffu, x = bit_cast<u32>(to_float(value));
    if (magnitude > infinity<T>) return (x & 0x7fff'ffffu) > float_inf_bits;
    if (magnitude == infinity<T>)
      return (x & 0x7fff'ffffu) == float_inf_bits && from_float<T>(to_float(value)) == value;
    return static_cast<double>(bit_cast<float>(x & 0x7fff'ffffu)) == value_of<T>(magnitude) &&
           from_float<T>(to_float(value)) == value;
  }
};

template <class T>
struct rounds_to_nearest_even {
  u64 count;
  FOURSCALE_HD bool operator()(u64 i) const {
    const u32 u = bit_cast<u32>(nth_float(i, count)), magnitude = u & 0x7fff'ffffu;
    const u32 code = from_float<T>(bit_cast<float>(u)).bits;
    if (magnitude > float_inf_bits) return code == 0x7fff;
    const double a = static_cast<double>(bit_cast<float>(magnitude));
    u32 below = 0, above = infinity<T>;  // infinity stands for the next power of two when rounding
    if (magnitude == float_inf_bits) return code == ((u >> 16 & 0x8000u) | above);
    while (above - below > 1) {
      const u32 middle = (below + above) / 2;
      (value_of<T>(middle) <= a ? below : above) = middle;
    }
    const double down = a - value_of<T>(below), up = value_of<T>(above) - a;
    const u32 nearest = down < up || (down == up && below % 2 == 0) ? below : above;
    return code == ((u >> 16 & 0x8000u) | nearest);
  }
};

static_assert(from_float<bf16>(1.0f).bits == 0x3f80 && from_float<fp16>(1.0f).bits == 0x3c00);
static_assert(from_float<fp16>(65519.0f).bits == 0x7bff && from_float<fp16>(65520.0f).bits == 0x7c00);

static_assert(largest_real<float>() == float_max && largest_real<bf16>() == 0x1.fep127f);
static_assert(largest_real<fp16>() == 65504.0f);

/// Two at a time as one by one.
template <class T>
struct pairs_round_alike {
  u64 count;
  FOURSCALE_HD bool operator()(u64 i) const {
    const float hi = nth_float(i, count), lo = nth_float(count - 1 - i, count);
    return pair_from_floats<T>(hi, lo) == (u32{from_float<T>(hi).bits} << 16 | from_float<T>(lo).bits);
  }
};

}  // namespace

TEST_CASE("bf16: exact to float, nearest even back", "[formats][bf16]") {
  check_everywhere(65536, every_pattern_survives<bf16>{});
  check_everywhere(float_count(), rounds_to_nearest_even<bf16>{float_count()});
  check_everywhere(float_count(), pairs_round_alike<bf16>{float_count()});
}

TEST_CASE("fp16: exact to float, nearest even back", "[formats][fp16]") {
  check_everywhere(65536, every_pattern_survives<fp16>{});
  check_everywhere(float_count(), rounds_to_nearest_even<fp16>{float_count()});
  check_everywhere(float_count(), pairs_round_alike<fp16>{float_count()});
}
