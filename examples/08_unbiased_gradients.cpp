// SPDX-License-Identifier: Apache-2.0
// Why gradients are rounded stochastically. Rounding to nearest makes the same error every time, and over
// many steps the errors add up. Stochastic rounding is right on average, so over many steps its errors
// cancel. One bias is left: the scale of a block is itself rounded, and where it is rounded down, the largest
// values of the block saturate. The scale rule two_level_headroom leaves room for them.
#include "support/tools.hpp"

using namespace example;

/// The mean of `draws` quantizations of x, each with fresh random bits.
template <class Scale>
matrix mean_of(matrix const& x, int draws, Scale const& scale) {
  quantized<> q(x.rows, x.cols);
  std::vector<double> sum(x.values.size());
  matrix y(x.rows, x.cols);
  for (int draw = 0; draw < draws; ++draw) {
    const f4::philox bits{42, static_cast<f4::u64>(draw)};  // seed, stream: there is no state to carry
    quantize(x.view(), q, f4::quantizer{f4::stochastic{bits}, scale});
    check(f4::host::dequantize(q.view(), y.view()));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(y.values[i]);
  }
  for (std::size_t i = 0; i < sum.size(); ++i) y.values[i] = static_cast<float>(sum[i] / draws);
  return y;
}

matrix to_nearest(matrix const& x) {
  quantized<> q(x.rows, x.cols);
  quantize(x.view(), q);
  return values_of(q.view());
}

int main() {
  const matrix x = normal(128, 256, 1e-3f, 1);
  const double nearest = relative_square_error(to_nearest(x).values, x.values);
  std::printf("|mean - x|^2 / |x|^2 of the mean of K quantized gradients:\n\n");
  std::printf("   K    nearest   stochastic   stochastic, two_level_headroom\n");
  double first = 0, saturating = 0, unbiased = 0;
  for (int draws = 1; draws <= 1024; draws *= 4) {
    saturating = relative_square_error(mean_of(x, draws, f4::two_level{}).values, x.values);
    unbiased = relative_square_error(mean_of(x, draws, f4::two_level_headroom{}).values, x.values);
    if (draws == 1) first = unbiased;
    std::printf("%4d   %.2e     %.2e   %.2e\n", draws, nearest, saturating, unbiased);
  }
  std::printf(
      "\nA single gradient is nearest to the truth when it is rounded to nearest. Of 1024 the stochastic "
      "ones are,\n");
  std::printf("and with headroom against saturation their error goes on falling as 1/K: here to 1/%.0f.\n",
              first / unbiased);
  return first > nearest && saturating < nearest / 10 && unbiased < saturating / 2 && first / unbiased > 900
             ? 0
             : 1;
}
