// SPDX-License-Identifier: Apache-2.0
// Your own rounding in a few lines. A rounding policy is a value with a const call operator that turns four
// scaled values into four codes. It works wherever the library's own policies do: in blocks, matrices and
// kernels.
#include "support/tools.hpp"

using namespace example;

/// Rounds to nearest, ties away from zero, as schoolbooks do; the default takes ties to the even code. This
/// code runs on a GPU as well.
struct nearest_away {
  template <f4::element_format F>
  FOURSCALE_HD constexpr f4::packed<F, 4> operator()(F, float const (&x)[4], f4::position) const {
    f4::packed<F, 4> codes;
    for (int i = 0; i < 4; ++i) {
      const F low = f4::encode_down<F>(x[i]), high = f4::encode_up<F>(x[i]);
      const float to_low = x[i] - f4::decode(low), to_high = f4::decode(high) - x[i];
      codes.set(i, to_low < to_high || (to_low == to_high && x[i] < 0.0f) ? low : high);
    }
    return codes;
  }
};

/// Rounds toward zero: the magnitude is truncated. The call operator is the definition. In addition there is
/// a fast form for whole matrices on a CPU, encode_lane(): straight-line arithmetic that gives the code of
/// one value in the top bits of a word. It is stochastic rounding with random bits of 0, which never round
/// up.
struct toward_zero {
  template <f4::element_format F>
  FOURSCALE_HD constexpr f4::packed<F, 4> operator()(F, float const (&x)[4], f4::position) const {
    f4::packed<F, 4> codes;
    for (int i = 0; i < 4; ++i) codes.set(i, x[i] < 0.0f ? f4::encode_up<F>(x[i]) : f4::encode_down<F>(x[i]));
    return codes;
  }
  template <f4::element_format F>
  FOURSCALE_HD constexpr f4::u32 encode_lane(F, float x) const {
    return f4::lanes::encode_stochastic<F>(x, 0);
  }
};

static_assert(f4::rounding_policy<nearest_away, f4::e2m1> && f4::lane_rounding_policy<toward_zero, f4::e2m1>);

/// A fast form must agree with its definition in every bit. This compares them for every bf16.
bool same_codes(toward_zero const& round) {
  for (f4::u32 bits = 0; bits < 65536; ++bits) {
    const float x = f4::to_float(f4::bf16{static_cast<f4::u16>(bits)});
    const f4::e2m1 code = round(f4::e2m1{}, {x, x, x, x}, f4::position{}).get(0);
    if (round.encode_lane(f4::e2m1{}, x) >> 28 != code.bits) return false;
  }
  return true;
}

struct result {
  double error, gain;  ///< gain: <x, Q(x)> / <x, x>, less than 1 where values shrink
};

/// Quantizes x under `round`. Prints how five values are rounded, and what quantization does to x.
template <class Round>
result measure(char const* name, matrix const& x, Round const& round) {
  quantized<> q(x.rows, x.cols);
  quantize(x.view(), q, f4::quantizer{round});
  const matrix y = values_of(q.view());
  double xy = 0, xx = 0;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    xy += static_cast<double>(x.values[i]) * static_cast<double>(y.values[i]);
    xx += static_cast<double>(x.values[i]) * static_cast<double>(x.values[i]);
  }
  const result r{relative_square_error(y.values, x.values), xy / xx};
  std::printf("  %-13s", name);
  for (const float v : {0.25f, 1.75f, 2.5f, -2.5f, 5.0f})
    std::printf(" %5g", f4::decode(round(f4::e2m1{}, {v, v, v, v}, f4::position{}).get(0)));
  std::printf("   %5.1f dB   %.3f\n", decibels(r.error), r.gain);
  return r;
}

int main() {
  const matrix x = normal(512, 1024, 1.0f, 1);
  std::printf("  %-13s %5g %5g %5g %5g %5g   %8s   %s\n", "value:", 0.25, 1.75, 2.5, -2.5, 5.0, "SQNR",
              "gain");
  const result even = measure("nearest_even", x, f4::nearest_even{});
  const result away = measure("nearest_away", x, nearest_away{});
  const result zero = measure("toward_zero", x, toward_zero{});
  std::printf("Which way ties go hardly matters; chopping costs 5 dB and shrinks the tensor.\n");
  return same_codes(toward_zero{}) && std::fabs(decibels(even.error) - decibels(away.error)) < 0.3 &&
                 decibels(zero.error) < decibels(even.error) - 4 && zero.gain < 0.9
             ? 0
             : 1;
}
