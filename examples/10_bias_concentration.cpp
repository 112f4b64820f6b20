// SPDX-License-Identifier: Apache-2.0
// Noise averages out over the steps of a training run; bias does not. To tell them apart, this averages K
// estimates of one weight gradient dW = dY^T X. The error of the mean falls as 1/K for an unbiased estimator,
// and stops falling for a biased one. Draws bias_concentration.svg. The experiment is Quartet II's (arXiv
// 2601.22813).
#include "support/plot.hpp"
#include "support/tools.hpp"

using namespace example;

constexpr int tokens = 512, channels = 128, draws = 256;

// Each of these makes a quantizer, or its signs, from the number of a random stream. Operand n of draw k has
// stream 2k + n: n = 0 for dY, 1 for X.
const auto nearest = [](f4::u64) { return f4::quantizer{}; };
const auto stochastic = [](f4::u64 stream) { return f4::quantizer{f4::stochastic{f4::philox{1, stream}}}; };
const auto headroom = [](f4::u64 stream) {
  return f4::quantizer{f4::stochastic{f4::philox{1, stream}}, f4::two_level_headroom{}};
};
const auto fixed_signs = [](f4::u64) { return f4::te_signs; };
const auto fresh_signs = [](f4::u64 stream) {  // the same for both operands, so that the rotation cancels
  return f4::sign_vector{f4::philox{2, stream / 2}(f4::position{}) & 0xffff};
};
const auto rotated = [](auto quantizer, auto signs) {
  return [=](f4::u64 stream) {
    const auto q = quantizer(stream);
    return f4::quantizer{q.round, q.scale, f4::hadamard<16>{signs(stream)}};
  };
};
const auto ms_eden = [](f4::u64 stream) {
  const auto [w] = f4::philox4x32(static_cast<f4::u32>(stream / 2), 0, 0, 0, 3);
  const f4::sign_vector signs{w[0] | f4::u64{w[1]} << 32, w[2] | f4::u64{w[3]} << 32};
  return f4::ms_eden{f4::philox{1, stream}, signs};
};

/// MS-EDEN is more than the three policies of a quantizer: it rotates 128 values, and corrects their mean by
/// the scales. So it has a function of its own.
template <class M, class Bits>
void quantize(M const& m, quantized<>& q, f4::ms_eden<Bits> const& quantizer) {
  float amax = 0;
  check(f4::host::amax<128>(m, quantizer.transform, &amax));
  q.amax = {f4::amax_value(amax), quantizer};
  check(f4::host::quantize(m, q.view(), quantizer));
}

/// The values of m as the GEMM sees them: quantized in blocks along the tokens.
template <class Quantizer>
matrix estimate(matrix const& m, Quantizer const& quantizer) {
  quantized<> q(channels, tokens);
  quantize(f4::transposed(m.view()), q, quantizer);
  matrix values(tokens, channels);
  check(f4::host::dequantize(q.view(), f4::transposed(values.view())));
  return values;
}

int main() {
  const matrix x = tailed(tokens, channels, 0.5f, 1), dy = tailed(tokens, channels, 2.0f, 3);
  matrix exact(channels, channels);
  add_product(exact, dy, x);
  plot figure{"Which estimates of a weight gradient become right on average?",
              "dW = dY^T X in NVFP4, 512 tokens, 128 x 128 weights; mean of K estimates against the exact dW",
              "K, the number of estimates averaged",
              "|mean - dW|^2 / |dW|^2",
              1e-4,
              1e-1,
              {1, 4, 16, 64, 256}};
  std::printf("|mean of K estimates - dW|^2 / |dW|^2\n\n%-33s", "");
  for (const double k : figure.x) std::printf("   K = %-3g", k);
  std::printf("\n");
  bool ok = true;
  // Prints one row and adds one curve. `recorded` is the known error at K = 256, which must come out again.
  const auto row = [&](char const* name, char const* color, char const* dash, auto for_dy, auto for_x,
                       double recorded, char const* verdict) {
    curve c{name, color, dash, {}};
    matrix sum(channels, channels), mean = sum;
    for (int k = 0; k < draws; ++k) {
      const auto stream = static_cast<f4::u64>(2 * k);
      add_product(sum, estimate(dy, for_dy(stream)), estimate(x, for_x(stream + 1)));
      if (figure.x[c.y.size()] != k + 1) continue;
      for (std::size_t i = 0; i < sum.values.size(); ++i)
        mean.values[i] = sum.values[i] / static_cast<float>(k + 1);
      c.y.push_back(relative_square_error(mean.values, exact.values));
    }
    std::printf("%-33s", name);
    for (const double y : c.y) std::printf("  %.2e", y);
    std::printf("   %s\n", verdict);
    ok &= std::fabs(c.y.back() / recorded - 1) < 0.02;
    figure.curves.push_back(c);
  };
  row("nearest dY, nearest X", "#444", "", nearest, nearest, 1.05e-2, "biased");
  row("stochastic dY, nearest X", "#0072b2", "", stochastic, nearest, 8.66e-3, "the bias of X is left");
  row("the same, RHT with fixed signs", "#56b4e9", "8 4", rotated(stochastic, fixed_signs),
      rotated(nearest, fixed_signs), 9.42e-3, "the same: NVIDIA's recipe");
  row("the same, RHT with fresh signs", "#009e73", "", rotated(stochastic, fresh_signs),
      rotated(nearest, fresh_signs), 1.85e-4, "almost 1/K");
  row("nearest both, RHT, fresh signs", "#e69f00", "8 4", rotated(nearest, fresh_signs),
      rotated(nearest, fresh_signs), 3.43e-3, "nearest shrinks values");
  row("stochastic both", "#d55e00", "", stochastic, stochastic, 7.56e-4, "saturation is left");
  row("stochastic both, headroom", "#cc79a7", "3 3", headroom, headroom, 1.59e-4, "1/K: unbiased");
  row("MS-EDEN both, RHT of 128", "#7a5195", "8 4", ms_eden, ms_eden, 5.72e-4, "little noise, little bias");
  ok &= figure.write("bias_concentration.svg");
  std::printf("\nThe picture: bias_concentration.svg%s\n", ok ? "" : "\nThese are not the recorded numbers.");
  return ok ? 0 : 1;
}
