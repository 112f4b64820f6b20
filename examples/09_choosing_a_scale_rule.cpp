// SPDX-License-Identifier: Apache-2.0
// How to choose a rule for block scales. The table compares rules on values of similar size (Gaussian) and on
// values with outliers (heavy tails). SQNR is the ratio of signal to quantization noise: larger is better.
// Gain is <x, Q(x)> / <x, x>, the length of the quantized tensor along the original: below 1, values shrink.
#include "support/tools.hpp"

using namespace example;

struct result {
  double sqnr, gain;
};

template <class F, class Scale>
result measure(matrix const& x, Scale const& scale) {
  quantized<F> q(x.rows, x.cols);
  quantize(x.view(), q, f4::quantizer{f4::nearest_even{}, scale});
  const matrix y = values_of(q.view());
  double xy = 0, xx = 0;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const double v = x.values[i];
    xy += v * static_cast<double>(y.values[i]);
    xx += v * v;
  }
  return {decibels(relative_square_error(y.values, x.values)), xy / xx};
}

/// One row of the table: both tensors under one rule.
struct row {
  result even, heavy;
};
template <class F, class Scale>
row print(char const* rule, matrix const& even, matrix const& heavy, Scale const& scale, char const* remark) {
  const row r{measure<F>(even, scale), measure<F>(heavy, scale)};
  std::printf("%-10s  %-18s %8.2f %7.4f %10.2f %7.4f   %s\n", F::name, rule, r.even.sqnr, r.even.gain,
              r.heavy.sqnr, r.heavy.gain, remark);
  return r;
}

int main() {
  const matrix even = normal(512, 1024, 1.0f, 1), heavy = tailed(512, 1024, 1.0f, 1);
  std::printf("                                    Gaussian          heavy tails\n");
  std::printf("format      rule                SQNR dB    gain    SQNR dB    gain   for\n");
  const row two = print<f4::nvfp4>("two_level", even, heavy, f4::two_level{}, "the default, NVIDIA's rule");
  const row six =
      print<f4::nvfp4>("four_over_six", even, heavy, f4::four_over_six<>{}, "weights and activations");
  const row room = print<f4::nvfp4>("two_level_headroom", even, heavy, f4::two_level_headroom{},
                                    "not this, but stochastic rounding: example 08");
  const row up =
      print<f4::mxfp4>("power_of_two_up", even, heavy, f4::power_of_two_up{}, "the default, NVIDIA's rule");
  const row floor = print<f4::mxfp4>("power_of_two_floor", even, heavy, f4::power_of_two_floor{},
                                     "the OCP standard; saturates, so values shrink");
  const row fine = print<f4::mxfp8>("power_of_two_up", even, heavy, f4::power_of_two_up{}, "twice the bytes");
  return six.even.sqnr > two.even.sqnr && room.even.sqnr <= two.even.sqnr &&
                 two.even.sqnr > up.even.sqnr + 1 && floor.even.gain < up.even.gain &&
                 fine.even.sqnr > two.even.sqnr + 8
             ? 0
             : 1;
}
