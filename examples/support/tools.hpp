// SPDX-License-Identifier: Apache-2.0
// What most CPU examples share: random matrices, their quantized form, and the error between two matrices.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fourscale/fourscale.hpp>
#include <fourscale/host/buffer.hpp>
#include <random>
#include <vector>

namespace example {

namespace f4 = fourscale;

/// A row-major matrix of floats that owns them.
struct matrix {
  int rows, cols;
  std::vector<float> values;

  matrix(int r, int c)
      : rows(r), cols(c), values(static_cast<std::size_t>(r) * static_cast<std::size_t>(c)) {}
  float& operator()(int r, int c) { return values[static_cast<std::size_t>(r * cols + c)]; }
  float operator()(int r, int c) const { return values[static_cast<std::size_t>(r * cols + c)]; }
  f4::matrix_view<float> view() { return {values, rows, cols}; }
  f4::matrix_view<float const> view() const { return {values, rows, cols}; }
};

/// Normal numbers, N(0, sigma^2), rounded to bf16 as the tensors of a training run are. By Box and Muller,
/// because std::normal_distribution draws other numbers in every standard library.
inline matrix normal(int rows, int cols, float sigma, unsigned seed) {
  std::mt19937 random(seed);
  matrix m(rows, cols);
  for (float& x : m.values) {
    const double u = (static_cast<double>(random()) + 0.5) * 0x1p-32,
                 angle = static_cast<double>(random()) * 0x1p-32;
    const double z = std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979323846 * angle);
    x = f4::to_float(f4::from_float<f4::bf16>(static_cast<float>(sigma * z)));
  }
  return m;
}

/// Normal numbers times a lognormal factor of width `tail`. The larger `tail`, the fewer values hold most of
/// the tensor.
inline matrix tailed(int rows, int cols, float tail, unsigned seed) {
  matrix m = normal(rows, cols, 1.0f, seed);
  const matrix log_size = normal(rows, cols, tail, seed + 1);
  for (std::size_t i = 0; i < m.values.size(); ++i) m.values[i] *= std::exp(log_size.values[i]);
  return m;
}

/// A quantized matrix that owns its bytes; its view() is what the library works on.
template <class F = f4::nvfp4, class Layout = f4::linear>
using quantized = f4::host_buffer<F, Layout>;

/// Ends the example if the library refused its arguments.
inline void check(f4::errc e) {
  if (e == f4::errc::ok) return;
  std::printf("%s\n", f4::message(e));
  std::exit(1);
}

/// Quantizes m, a matrix or a transposed one, under its amax, which is taken after the transform of the
/// quantizer.
template <class M, class F, class Layout, class Quantizer = f4::quantizer<>>
void quantize(M const& m, f4::host_buffer<F, Layout>& q, Quantizer const& quantizer = {}) {
  float amax = 0;
  check(f4::host::amax<F>(m, quantizer.transform, &amax));
  q.amax = {f4::amax_value(amax), quantizer};
  check(f4::host::quantize(m, q.view(), quantizer));
}

/// The values of a quantized matrix.
template <class View>
matrix values_of(View const& q) {
  matrix m(static_cast<int>(q.rows), static_cast<int>(q.cols));
  check(f4::host::dequantize(q, m.view()));
  return m;
}

/// sum += A^T * B.
inline void add_product(matrix& sum, matrix const& a, matrix const& b) {
  for (int i = 0; i < a.cols; ++i) {
    float* __restrict row = &sum(i, 0);
    for (int k = 0; k < a.rows; ++k)
      for (int j = 0; j < b.cols; ++j) row[j] += a(k, i) * b(k, j);
  }
}

/// |a - b|^2 / |b|^2.
inline double relative_square_error(std::vector<float> const& a, std::vector<float> const& b) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    error += (x - y) * (x - y);
    size += y * y;
  }
  return error / size;
}

inline double decibels(double relative_square_error) { return -10 * std::log10(relative_square_error); }

}  // namespace example
