// SPDX-License-Identifier: Apache-2.0
// Kinds of data that a GEMM meets, quantized: from sums that are exact to those that are not.
#pragma once

#include <cmath>
#include <fourscale/host/amax.hpp>
#include <fourscale/host/buffer.hpp>
#include <fourscale/host/quantize.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/data.hpp"

namespace fourscale::test {

enum class kind {
  gaussian,
  student_2,
  lognormal_rows,
  lognormal_blocks,
  lognormal_steps,  ///< steps are exact, and their sums are rounded
  channels_50,
  zero_rows,
  cancelling,
  outliers,         ///< activation(): not among `kinds`
  lognormal_tokens  ///< along K, nor this
};
constexpr kind kinds[] = {kind::gaussian,         kind::student_2,       kind::lognormal_rows,
                          kind::lognormal_blocks, kind::lognormal_steps, kind::channels_50,
                          kind::zero_rows,        kind::cancelling};
constexpr char const* name_of(kind what) {
  constexpr char const* names[] = {
      "Gaussian",     "t(2)",      "lognormal rows",   "lognormal blocks", "lognormal steps",
      "x50 channels", "zero rows", "cancelling pairs", "outliers",         "lognormal tokens"};
  return names[static_cast<int>(what)];
}

/// About 2^x: right where x is an integer, a line between. The same bits on every machine, as everything
/// here: no function of libm, and no product whose rounding an fma would skip.
constexpr float about_exp2(double x) {
  const int whole = static_cast<int>(x) - (x < static_cast<int>(x));
  const auto power = bit_cast<double>(static_cast<u64>(1023 + whole) << 52);
  return static_cast<float>(power * (1.0 + (x - whole)));
}

/// Value (row, col) of a matrix of that kind.
inline float value_of(kind what, i64 row, i64 col, u64 seed) {
  const auto normal = [&](i64 r, i64 c) { return gaussian(static_cast<u64>(r * 65536 + c) * 64 + seed); };
  // exp(sigma * normal): factors of 24 bits, so that their product in double is exact.
  const auto lognormal = [&](float sigma, i64 r, i64 c) {
    return about_exp2(double{sigma * 1.4375f} * double{normal(r, c)});
  };
  const float x = normal(row, col);
  switch (what) {
    case kind::student_2: {
      const double a{normal(row, col + 20000)}, b{normal(row, col + 40000)};
      return x / static_cast<float>(std::sqrt((a * a + b * b) / 2 + 1e-9));
    }
    case kind::lognormal_rows:
      return x * lognormal(2.0f, row, 60000);
    case kind::lognormal_blocks:
      return x * lognormal(1.5f, row, 30000 + col / 16);
    case kind::lognormal_steps:
      return x * lognormal(2.5f, row % 8, 50000 + col / 64);
    case kind::lognormal_tokens:
      return x * lognormal(3.0f, 70000, col);
    case kind::channels_50:
      return col % 97 == 5 ? 50 * x : x;
    case kind::zero_rows:
      return row % 2 == 0 ? 0.0f : x;
    case kind::cancelling:
      return col % 128 < 64 ? normal(row, col) : -normal(row, col - 64);
    case kind::outliers:
      return activation(static_cast<u64>(row), static_cast<u64>(row * 65536 + col) * 64 + seed);
    default:
      return x;
  }
}

template <class F, class Layout>
host_buffer<F, Layout> operand(kind what, i64 rows, i64 k, u64 seed) {
  std::vector<float> x(static_cast<size_t>(rows * k));
  for (i64 r = 0; r < rows; ++r)
    for (i64 c = 0; c < k; ++c) x[static_cast<size_t>(r * k + c)] = value_of(what, r, c, seed);
  const matrix_view<float const> m{x, rows, k};
  float amax = 0;
  REQUIRE(host::amax(m, &amax) == errc::ok);
  host_buffer<F, Layout> q(rows, k, amax_value(amax));
  REQUIRE(host::quantize(m, q.view()) == errc::ok);
  return q;
}

/// So many rows: those of q, again and again.
template <class F>
host_buffer<F, linear> repeated(host_buffer<F, linear> const& q, i64 rows) {
  host_buffer<F, linear> all(rows, q.cols, q.amax);
  for (size_t i = 0; i < all.codes.size(); ++i) all.codes[i] = q.codes[i % q.codes.size()];
  for (size_t i = 0; i < all.scales.size(); ++i) all.scales[i] = q.scales[i % q.scales.size()];
  return all;
}

}  // namespace fourscale::test
