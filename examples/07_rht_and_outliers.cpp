// SPDX-License-Identifier: Apache-2.0
// What the random Hadamard transform (RHT) does, and what it does not. The weight gradient dW = dY^T X sums
// over tokens, so its operands have blocks of 16 tokens. A token with large activations determines the scale
// of its block, and its neighbours are rounded to almost nothing. This loss is the same in every step. The
// RHT mixes the 16 tokens before they are quantized; in the product, the transforms of the two operands
// cancel. This turns the loss into noise, which is no smaller in one step, but averages out over steps with
// fresh signs.
#include "support/tools.hpp"

using namespace example;

constexpr int tokens = 512, channels = 128, period = 64;

bool is_outlier(int token) { return token % period == 37; }
bool is_neighbour(int token) { return token % period / 16 == 37 / 16 && !is_outlier(token); }

/// Undoes hadamard<16>{signs} along each row: H is its own inverse; the signs are then undone, too.
void rotate_back(matrix& m, f4::sign_vector signs) {
  for (int r = 0; r < m.rows; ++r)
    for (int first = 0; first < m.cols; first += 16) {
      float x[16];
      for (int i = 0; i < 16; ++i) x[i] = m(r, first + i);
      f4::hadamard<16, float>{}(x);
      for (int i = 0; i < 16; ++i) m(r, first + i) = signs.negative(i) ? -x[i] : x[i];
    }
}

/// The values of the columnwise copy of x (channels x tokens), quantized without an RHT.
matrix plain(matrix const& x) {
  quantized<> q(channels, tokens);
  quantize(f4::transposed(x.view()), q);
  return values_of(q.view());
}
/// The same, quantized after an RHT and rotated back.
matrix rotated(matrix const& x, f4::sign_vector signs) {
  quantized<> q(channels, tokens);
  quantize(f4::transposed(x.view()), q,
           f4::quantizer{f4::nearest_even{}, f4::amax_scale{}, f4::hadamard<16>{signs}});
  matrix y = values_of(q.view());
  rotate_back(y, signs);
  return y;
}

/// SQNR in dB of a columnwise copy y, over the tokens of x that `which` selects.
double sqnr(matrix const& y, matrix const& x, bool (*which)(int)) {
  double error = 0, size = 0;
  for (int t = 0; t < tokens; ++t)
    for (int c = 0; which(t) && c < channels; ++c) {
      const double value = x(t, c), difference = y(c, t) - x(t, c);
      error += difference * difference;
      size += value * value;
    }
  return decibels(error / size);
}

int main() {
  std::printf("SQNR in dB of X as the WGRAD GEMM sees it. One token in %d is larger.\n\n", period);
  std::printf("            all tokens       its 15 neighbours\n");
  std::printf(" larger    plain    RHT      plain    RHT    mean of 32 RHTs with fresh signs\n");
  bool ok = true;
  for (const float factor : {1.0f, 4.0f, 16.0f, 64.0f}) {
    matrix x = normal(tokens, channels, 1.0f, 1);
    for (int t = 0; t < tokens; ++t)
      for (int c = 0; is_outlier(t) && c < channels; ++c) x(t, c) *= factor;
    const matrix without = plain(x), with = rotated(x, f4::te_signs);
    matrix mean(channels, tokens);
    for (f4::u64 k = 0; k < 32; ++k) {
      const matrix y = rotated(x, f4::sign_vector{f4::philox{1, k}(f4::position{}) & 0xffff});
      for (std::size_t i = 0; i < y.values.size(); ++i) mean.values[i] += y.values[i] / 32;
    }
    const auto all = [](int) { return true; };
    const double lost = sqnr(without, x, is_neighbour), averaged = sqnr(mean, x, is_neighbour);
    std::printf("%5gx %9.1f %7.1f %9.1f %7.1f %7.1f\n", factor, sqnr(without, x, all), sqnr(with, x, all),
                lost, sqnr(with, x, is_neighbour), averaged);
    ok &= averaged > lost + 3;
  }
  std::printf(
      "\nThe mean gains less the larger the outlier: it then decides alone how all 16 mixed values are "
      "rounded.\n");
  return ok ? 0 : 1;
}
