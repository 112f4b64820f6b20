// SPDX-License-Identifier: Apache-2.0
// A whole matrix on the CPU, in three calls: amax() finds its largest magnitude, quantize() makes codes and
// scales, dequantize() makes values of them again. Then: how much was lost.
#include <cmath>
#include <cstdio>
#include <fourscale/fourscale.hpp>
#include <random>
#include <vector>

namespace f4 = fourscale;

int main() {
  constexpr int rows = 256, cols = 1024;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 0.02f);  // about as large as the weights of a model
  std::vector<f4::bf16> x(rows * cols), y(rows * cols);
  for (f4::bf16& value : x) value = f4::from_float<f4::bf16>(normal(random));

  // The library allocates nothing. You own the bytes; a view says what they are. (f4::host_buffer, an opt-in
  // header, holds two such vectors for you.)
  std::vector<f4::u8> codes(f4::code_bytes<f4::nvfp4>(rows, cols)),
      scales(f4::scale_bytes<f4::nvfp4>(rows, cols));
  const f4::matrix_view<f4::bf16> from(x, rows, cols), to(y, rows, cols);
  f4::block_scaled_view<f4::nvfp4> q(codes, scales, rows, cols);

  // NVFP4 has two levels of scales: one for each block, and one for the tensor. The tensor scale follows from
  // the amax of the tensor. The view holds the address of that amax, for every function that reads or writes
  // the codes. It could also hold the number itself: amax_value(number).
  float amax = 0;
  q.amax = f4::amax_in(&amax);

  // Each function checks its arguments and returns an error code, which message() puts into a sentence.
  f4::errc e = f4::host::amax(from, &amax);
  if (e == f4::errc::ok) e = f4::host::quantize(from, q);
  if (e == f4::errc::ok) e = f4::host::dequantize(q, to);
  if (e != f4::errc::ok) return std::printf("%s\n", f4::message(e)), 1;

  double signal = 0, noise = 0, largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double before = f4::to_float(x[i]), error = f4::to_float(y[i]) - before;
    signal += before * before;
    noise += error * error;
    largest = std::fmax(largest, std::fabs(error));
  }
  const double sqnr = 10 * std::log10(signal / noise);
  std::printf("%d x %d values, amax %g\n", rows, cols, amax);
  std::printf("  bf16   %7zu bytes\n  nvfp4  %7zu bytes, %.2f bits a value\n", x.size() * sizeof x[0],
              codes.size() + scales.size(),
              8.0 * static_cast<double>(codes.size() + scales.size()) / (rows * cols));
  std::printf("  signal to quantization noise %.1f dB; largest error %.4f\n", sqnr, largest);

  // What a mistake looks like: a row must hold whole blocks of 16, and 1000 is no multiple of 16.
  e = f4::host::quantize(f4::matrix_view<f4::bf16>(x, rows, 1000),
                         f4::block_scaled_view<f4::nvfp4>(codes, scales, rows, 1000));
  std::printf("  1000 columns: %s\n", f4::message(e));
  return sqnr > 20.0 && sqnr < 21.0 && e == f4::errc::partial_block ? 0 : 1;
}
