// SPDX-License-Identifier: Apache-2.0
// The error of each quantizer on a million values, compared with figures that were measured with other code
// (relative mean square error |Q - x|^2 / |x|^2, and gain <x, Q> / <x, x>).
#include <cmath>
#include <fourscale/fourscale.hpp>
#include <vector>

#include "support/amax.hpp"
#include "support/data.hpp"

using namespace fourscale;

namespace {

constexpr i64 n = 1024;

/// A true standard normal value (Box and Muller).
double normal(u64 i) {
  const auto uniform = [](u64 k) { return (static_cast<double>(test::mix(k) >> 11) + 0.5) * 0x1p-53; };
  return std::sqrt(-2.0 * std::log(uniform(2 * i))) * std::cos(6.283185307179586 * uniform(2 * i + 1));
}

enum class kind { gaussian, outliers, lognormal };

/// N(0, 1); with one value in 200 a hundred times larger; N * exp(N).
std::vector<float> make(kind which, u64 seed = 0) {
  std::vector<float> x(n * n);
  for (u64 i = 0; i < x.size(); ++i) {
    const u64 k = i + (seed << 32);
    double v = normal(k);
    if (which == kind::outliers && test::mix(k ^ 0xabcd'0000'0000) % 200 == 0) v *= 100;
    if (which == kind::lognormal) v *= std::exp(normal(k + (u64{1} << 40)));
    x[i] = static_cast<float>(v);
  }
  return x;
}

struct figures {
  double error, gain;
};

figures measure(std::vector<float> const& x, std::vector<float> const& q) {
  double xx = 0, xq = 0, ee = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = static_cast<double>(x[i]), b = static_cast<double>(q[i]);
    xx += a * a, xq += a * b, ee += (b - a) * (b - a);
  }
  return {ee / xx, xq / xx};
}

/// Of Q(x), or of Q(T(x)) compared with T(x).
template <class F, class Quantizer, class Blocks = blocks_1d>
figures round_trip(std::vector<float> const& x, Quantizer const& recipe, Blocks shape = {}) {
  const matrix_view<float const> m{x, n, n};
  std::vector<u8> codes(static_cast<size_t>(code_bytes<F>(n, n))),
      scales(static_cast<size_t>(scale_bytes<F>(n, n)));
  block_scaled_view<F> q{codes.data(), scales.data(), n, n};
  std::vector<float> y(n * n), t(n * n);
  q.amax = {amax_value(test::amax_of<F>(m, recipe.transform)), recipe};
  REQUIRE(host::quantize(m, q, recipe, shape) == errc::ok);
  REQUIRE(host::dequantize(q, matrix_view<float>{y, n, n}) == errc::ok);
  REQUIRE(host::transform<F::block_size>(m, matrix_view<float>{t, n, n}, recipe.transform) == errc::ok);
  return measure(t, y);
}

figures eden(std::vector<float> const& x) {
  const matrix_view<float const> m{x, n, n};
  const ms_eden recipe{philox{3, 1}, {0x0123'4567'89ab'cdef, 0xfeed'1234'5678'90ab}};
  std::vector<u8> codes(static_cast<size_t>(code_bytes<nvfp4>(n, n))),
      scales(static_cast<size_t>(scale_bytes<nvfp4>(n, n)));
  block_scaled_view<nvfp4> q{codes, scales, n, n};
  std::vector<float> y(n * n), t(n * n);
  q.amax = {amax_value(test::amax_of<128>(m, recipe.transform)), recipe};
  REQUIRE(host::quantize(m, q, recipe) == errc::ok);
  REQUIRE(host::dequantize(q, matrix_view<float>{y, n, n}) == errc::ok);
  REQUIRE(host::transform<128>(m, matrix_view<float>{t, n, n}, recipe.transform) == errc::ok);
  return measure(t, y);
}

/// Scales never rounded down: a policy of our own.
struct scale_rounded_up {
  FOURSCALE_HD constexpr block_scale<nvfp4> operator()(nvfp4, float amax,
                                                       tensor_scale<nvfp4> const& tensor) const {
    const e4m3 code = encode_up<e4m3>(amax * (tensor.encode / 6.0f));
    return {code, 1.0f / (decode(code) * tensor.decode)};
  }
};

constexpr philox draws{5, 1};

/// The table holds for one million values each, so where a few outliers carry all the energy its own figures
/// scatter: over six seeds of ours the standard deviation of a row was 1 to 3.7 % for outliers, 2.7 % under
/// stochastic rounding. There we compare a mean over four matrices, and allow 2 % and 2.7 %.
void check(char const* what, figures f, double error, double gain, double tolerance = 0.02) {
  INFO(what << ": error " << f.error << " compared with " << error << ", gain " << f.gain << " compared with "
            << gain);
  CHECK(std::abs(f.error / error - 1) < tolerance);
  CHECK((gain == 0 || std::abs(f.gain - gain) < 0.0006));
}

}  // namespace

TEST_CASE("error table: normal values", "[host][error_table]") {
  const std::vector<float> x = make(kind::gaussian);
  using enum error_norm;
  check("nvfp4 1x16", round_trip<nvfp4>(x, quantizer{}), 9.05e-3, .9955);
  check("scale rounded up", round_trip<nvfp4>(x, quantizer{nearest_even{}, scale_rounded_up{}}), 1.00e-2,
        1.0072);
  check("nvfp4 16x16", round_trip<nvfp4>(x, quantizer{}, blocks_2d<16, 16>{}), 1.24e-2, .9912);
  check("4/6 mse", round_trip<nvfp4>(x, quantizer{nearest_even{}, four_over_six<mean_square>{}}), 7.56e-3,
        .9965);
  check("4/6 mae", round_trip<nvfp4>(x, quantizer{nearest_even{}, four_over_six<>{}}), 7.79e-3, .9965);
  check("stochastic", round_trip<nvfp4>(x, quantizer{stochastic{draws}}), 1.88e-2, .9964);
  check("16/17", round_trip<nvfp4>(x, quantizer{stochastic{draws}, two_level_headroom{}}), 2.36e-2, .9996);
  check("nvint4", round_trip<nvint4>(x, quantizer{}), 7.45e-3, 1.0002);
  check("mxfp4 up", round_trip<mxfp4>(x, quantizer{}), 1.33e-2, .9901);
  check("mxfp4 floor", round_trip<mxfp4>(x, quantizer{nearest_even{}, power_of_two_floor{}}), 1.32e-2, .9804);
  check("mxfp4 stochastic", round_trip<mxfp4>(x, quantizer{stochastic{draws}}), 2.71e-2, 1.0002);
  check("ms_eden", eden(x), 9.75e-3, .9995);
  const quantizer rht{nearest_even{}, two_level{}, hadamard<16>{te_signs}};
  check("rht16", round_trip<nvfp4>(x, rht), 9.05e-3, .9957);
  check("e4m3 per tensor", round_trip<fp8_e4m3>(x, quantizer{}), 6.97e-4, .9993);
  check("e5m2 per tensor", round_trip<fp8_e5m2>(x, quantizer{}), 2.78e-3, .9973);
}

/// The mean of `run` over matrices.
template <class Run>
figures mean(std::vector<std::vector<float>> const& matrices, Run run) {
  figures sum{0, 0};
  for (std::vector<float> const& x : matrices) {
    const figures f = run(x);
    sum.error += f.error / static_cast<double>(matrices.size());
  }
  return sum;
}

TEST_CASE("error table: one value in 200 a hundred times larger", "[host][error_table]") {
  const std::vector<std::vector<float>> several = {make(kind::outliers, 1), make(kind::outliers, 2),
                                                   make(kind::outliers, 3), make(kind::outliers, 4)};
  const auto row = [&](char const* what, auto run, double error) {
    check(what, mean(several, run), error, 0, 0.047);
  };
  using matrix = std::vector<float> const&;
  using enum error_norm;
  row(
      "nvfp4 1x16", [](matrix x) { return round_trip<nvfp4>(x, quantizer{}); }, 2.10e-3);
  row(
      "nvfp4 16x16", [](matrix x) { return round_trip<nvfp4>(x, quantizer{}, blocks_2d<16, 16>{}); },
      1.48e-2);
  row(
      "4/6 mse",
      [](matrix x) {
        return round_trip<nvfp4>(x, quantizer{nearest_even{}, four_over_six<mean_square>{}});
      },
      1.64e-3);
  row(
      "stochastic", [](matrix x) { return round_trip<nvfp4>(x, quantizer{stochastic{draws}}); }, 1.09e-2);
  row(
      "16/17",
      [](matrix x) {
        return round_trip<nvfp4>(x, quantizer{stochastic{draws}, two_level_headroom{}});
      },
      2.46e-2);
  row(
      "nvint4", [](matrix x) { return round_trip<nvint4>(x, quantizer{}); }, 2.14e-3);
  row(
      "mxfp4 up", [](matrix x) { return round_trip<mxfp4>(x, quantizer{}); }, 1.31e-2);
  row(
      "mxfp4 stochastic", [](matrix x) { return round_trip<mxfp4>(x, quantizer{stochastic{draws}}); },
      4.05e-2);
  row(
      "ms_eden", [](matrix x) { return eden(x); }, 9.2e-3);
  // A transform spreads an outlier over its block, so the error that all share grows: NVFP4 had stored it
  // well.
  row(
      "rht16",
      [](matrix x) {
        return round_trip<nvfp4>(x, quantizer{nearest_even{}, two_level{}, hadamard<16>{te_signs}});
      },
      5.07e-3);
  row(
      "e4m3 per tensor", [](matrix x) { return round_trip<fp8_e4m3>(x, quantizer{}); }, 7.3e-4);
}

TEST_CASE("error table: normal times lognormal values", "[host][error_table]") {
  const std::vector<float> x = make(kind::lognormal);
  check("nvfp4 1x16", round_trip<nvfp4>(x, quantizer{}), 7.67e-3, 0);
  check("nvfp4 16x16", round_trip<nvfp4>(x, quantizer{}, blocks_2d<16, 16>{}), 3.55e-2, 0);
  check("4/6 mse", round_trip<nvfp4>(x, quantizer{nearest_even{}, four_over_six<error_norm::mean_square>{}}),
        7.2e-3, 0);
  check("stochastic", round_trip<nvfp4>(x, quantizer{stochastic{draws}}), 1.77e-2, 0);
  check("16/17", round_trip<nvfp4>(x, quantizer{stochastic{draws}, two_level_headroom{}}), 2.87e-2, 0);
  check("nvint4", round_trip<nvint4>(x, quantizer{}), 1.33e-2, 0);
  check("mxfp4 up", round_trip<mxfp4>(x, quantizer{}), 2.46e-2, 0);
  check("mxfp4 stochastic", round_trip<mxfp4>(x, quantizer{stochastic{draws}}), 5.45e-2, 0);
  check("ms_eden", eden(x), 1.01e-2, 0);
  const quantizer rht{nearest_even{}, two_level{}, hadamard<16>{te_signs}};
  check("rht16", round_trip<nvfp4>(x, rht), 1.05e-2, 0);
  check("e4m3 per tensor", round_trip<fp8_e4m3>(x, quantizer{}), 7.0e-4, 0);
}
