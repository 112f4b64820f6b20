// SPDX-License-Identifier: Apache-2.0
// Four over six against a restatement of Transformer Engine's loop: every operation in double, then rounded
// to float, which gives the correctly rounded result of +, * and / (53 >= 2 * 24 + 2).
#include <fourscale/block/quantize.hpp>
#include <fourscale/scaling/four_over_six.hpp>

#include "support/data.hpp"
#include "support/everywhere.hpp"
#include "support/grid.hpp"

using namespace fourscale;
using test::check_everywhere;

namespace {

/// Rounded to binary32.
FOURSCALE_HD constexpr double r(double x) { return static_cast<double>(static_cast<float>(x)); }

constexpr double float_limit = 0x1.fffffep+127;
FOURSCALE_HD constexpr double at_most(double x, double limit) { return x < limit ? x : limit; }

struct candidate {
  int scale;
  double multiplier, error;
};

/// One candidate and its error, for the stored scale s.
template <error_norm Norm, int ScaleMax>
FOURSCALE_HD candidate weigh(float const (&x)[16], double s, double encode, double amax) {
  candidate c{test::nearest_code<e4m3>(at_most(s, 448.0)), 0, 0};
  const double scale = test::value_of<e4m3>(c.scale);
  const double product = r(scale * r(1 / encode));
  c.multiplier = product == 0 ? float_limit : at_most(1 / product, float_limit);
  c.multiplier = r(c.multiplier);
  for (int i = 0; i < 16; ++i) {
    const double xi = static_cast<double>(x[i]), v = r(xi * c.multiplier);
    const double code = test::value_of<e2m1>(test::nearest_code<e2m1>(v < 0 ? -v : v)) * (v < 0 ? -1 : 1);
    const double d = r(r(r(r(code * scale) * amax) / (6.0 * ScaleMax)) - xi);
    c.error = r(c.error + (Norm == error_norm::mean_square ? r(d * d) : d < 0 ? -d : d));
  }
  return c;
}

/// bf16 values of block i; every fourth block is of coarse values, where the two errors are often equal.
FOURSCALE_HD constexpr void fill(u64 i, float (&x)[16]) {
  for (u64 k = 0; k < 16; ++k) {
    const float g = to_float(from_float<bf16>(test::gaussian(i * 16 + k)));
    x[k] = i % 4 ? g : static_cast<float>(static_cast<int>(g * 4.0f)) * 0.25f;
  }
}

template <error_norm Norm, int ScaleMax>
struct choice {
  candidate six, four;
  bool picked_four;
  FOURSCALE_HD choice(float const (&x)[16], float tensor_amax) {
    const double amax = static_cast<double>(tensor_amax), encode = r(6.0 * ScaleMax / amax);
    double block = 0;
    for (const float v : x) {
      const double magnitude = static_cast<double>(v < 0 ? -v : v);
      block = magnitude > block ? magnitude : block;
    }
    const double base = r(r(block / 6) * encode);
    six = weigh<Norm, ScaleMax>(x, base, encode, amax);
    four = weigh<Norm, ScaleMax>(x, r(base * 1.5), encode, amax);
    picked_four = four.error < six.error;
  }
};

template <error_norm Norm, int ScaleMax>
struct picks_the_lighter {
  FOURSCALE_HD bool operator()(u64 i) const {
    const four_over_six<Norm, ScaleMax> rule;
    const float amax = 4.0f + static_cast<float>(i % 97) * 0.0312519f;
    const tensor_scale<nvfp4> tensor = tensor_scale_for<nvfp4>(rule, amax);
    float x[16];
    fill(i, x);
    const choice<Norm, ScaleMax> expected(x, amax);
    const candidate c = expected.picked_four ? expected.four : expected.six;
    const block_scale<nvfp4> s = choose_scale<nvfp4>(x, rule, tensor, position{});
    return s.scale.bits == c.scale && static_cast<double>(s.multiplier) == c.multiplier &&
           static_cast<double>(rule.error(nvfp4{}, x, s, tensor)) == c.error;
  }
};

template <error_norm Norm, int ScaleMax>
void check_rule() {
  constexpr u64 blocks = 20'000;
  check_everywhere(blocks, picks_the_lighter<Norm, ScaleMax>{});
  u64 fours = 0, ties = 0;
  for (u64 i = 0; i < blocks; ++i) {
    float x[16];
    fill(i, x);
    const choice<Norm, ScaleMax> c(x, 4.0f + static_cast<float>(i % 97) * 0.0312519f);
    fours += c.picked_four;
    ties += c.four.error == c.six.error && c.four.scale != c.six.scale;
  }
  CAPTURE(ScaleMax, fours, ties);
  CHECK(fours > blocks / 10);
  CHECK(fours < blocks * 9 / 10);
}

static_assert(fast_weighing_scaling_policy<four_over_six<>, nvfp4> &&
              fast_weighing_scaling_policy<four_over_six<error_norm::mean_square, 448>, nvfp4>);
static_assert(!fast_amax_scaling_policy<four_over_six<>, nvfp4>, "it weighs");

}  // namespace

TEST_CASE("four_over_six: the smaller sum of magnitudes wins", "[scaling][four_over_six]") {
  check_rule<error_norm::mean_absolute, 256>();
  check_rule<error_norm::mean_absolute, 448>();
}
TEST_CASE("four_over_six: the smaller sum of squares wins", "[scaling][four_over_six]") {
  check_rule<error_norm::mean_square, 256>();
  check_rule<error_norm::mean_square, 448>();
}

TEST_CASE("four_over_six: equal errors keep the candidate that maps to 6", "[scaling][four_over_six]") {
  // Under 2 these are 6, -3, 1.5, 3 and under 3 they are 4, -2, 1, 2: exact either way.
  const four_over_six<> rule;
  const tensor_scale<nvfp4> tensor = tensor_scale_for<nvfp4>(rule, 1536.0f);
  REQUIRE(tensor.encode == 1.0f);
  const float x[16] = {12.0f, -6.0f, 3.0f, 6.0f};
  block_scale<nvfp4> c[2] = {{e4m3{}, 0}, {e4m3{}, 0}};
  rule.candidates(nvfp4{}, 12.0f, tensor, c);
  CHECK(decode(c[0].scale) == 2.0f);
  CHECK(decode(c[1].scale) == 3.0f);
  REQUIRE(rule.error(nvfp4{}, x, c[0], tensor) == 0.0f);
  REQUIRE(rule.error(nvfp4{}, x, c[1], tensor) == 0.0f);
  CHECK(decode(choose_scale<nvfp4>(x, rule, tensor, position{}).scale) == 2.0f);
  // 9 = 3 * 3 is a code of the second only.
  const float y[16] = {12.0f, 9.0f};
  CHECK(decode(choose_scale<nvfp4>(y, rule, tensor, position{}).scale) == 3.0f);
}

TEST_CASE("four_over_six: 448 lets the larger scale saturate, 256 leaves room", "[scaling][four_over_six]") {
  const four_over_six<error_norm::mean_absolute, 448> all;
  const four_over_six<error_norm::mean_absolute, 256> room;
  block_scale<nvfp4> c[2] = {{e4m3{}, 0}, {e4m3{}, 0}};
  all.candidates(nvfp4{}, 1.0f, tensor_scale_for<nvfp4>(all, 1.0f), c);
  CHECK(decode(c[0].scale) == 448.0f);
  CHECK(decode(c[1].scale) == 448.0f);
  room.candidates(nvfp4{}, 1.0f, tensor_scale_for<nvfp4>(room, 1.0f), c);
  CHECK(decode(c[0].scale) == 256.0f);
  CHECK(decode(c[1].scale) == 384.0f);
}

namespace {

/// Bodies of the test below: the quotient of the i-th mantissa, in the middle of the range and near its end.
template <int ScaleMax>
struct quotient_is_rounded_once {
  FOURSCALE_HD bool operator()(u64 i) const {
    const float largest = 6.0f * static_cast<float>(ScaleMax);
    const u32 mantissa = static_cast<u32>(i);
    for (const u32 exponent : {127u, 58u}) {
      const float a = bit_cast<float>(exponent << 23 | mantissa);
      const float expected = static_cast<float>(static_cast<double>(a) / static_cast<double>(largest));
      if (detail::over_largest<ScaleMax>(a) != expected) return false;
    }
    return detail::over_largest<ScaleMax>(0.0f) == 0.0f;
  }
};

}  // namespace

TEST_CASE("four_over_six: the quotient without a division, of every mantissa", "[scaling][four_over_six]") {
  check_everywhere(u64{1} << 23, quotient_is_rounded_once<256>{});
  check_everywhere(u64{1} << 23, quotient_is_rounded_once<448>{});
}
