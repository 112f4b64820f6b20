// SPDX-License-Identifier: Apache-2.0
// RMSNorm to NVFP4 in one pass, also with the residual addition in front of it; the sum is then stored in
// bf16, too. A CTA keeps its row in registers from the sum of squares to the codes. The kernel is in
// fused/rmsnorm.cuh. The tensor scale is that of the step before (delayed scaling); the kernel also finds the
// amax for the next step.
#include "fused/compare.cuh"
#include "fused/rmsnorm.cuh"

using namespace fused;

namespace {

template <class Layout>
bool check(i64 rows, i64 cols, bool with_residual) {
  array<bf16> x(rows * cols), gamma(cols), residual(rows * cols), sum(rows * cols);
  fill(x, 2.0f, 1);
  fill(gamma, 1.0f, 2);
  fill(residual, 0.5f, 3);
  std::vector<double> factors(static_cast<size_t>(rows));
  const auto input = [&](i64 i) {
    const float value = f4::to_float(x[i]);
    return with_residual ? f4::to_float(f4::from_float<bf16>(value + f4::to_float(residual[i]))) : value;
  };
  for (i64 row = 0; row < rows; ++row) {
    double squares = 0;
    for (i64 col = 0; col < cols; ++col) squares += std::pow(input(row * cols + col), 2);
    factors[static_cast<size_t>(row)] = 1 / std::sqrt(squares / static_cast<double>(cols) + 1e-5);
  }
  rmsnorm producer{{x.data, rows, cols}, gamma.data, 1e-5f, nullptr, nullptr};
  if (with_residual) producer.residual = residual.data, producer.sum = sum.data;
  bool good = compare<Layout>(
      with_residual ? "residual + RMSNorm" : "RMSNorm", producer, rows, cols, [&](i64 row, i64 col) {
        return input(row * cols + col) * factors[static_cast<size_t>(row)] * f4::to_float(gamma[col]);
      });
  for (i64 i = 0; with_residual && i < rows * cols; ++i) good &= f4::to_float(sum[i]) == input(i);
  return good;
}

}  // namespace

int main() {
  need_gpu();
  // 300 x 4112 values have 257 blocks in a row. Rows and blocks end inside a tile of scales, so the scales
  // have padding, which must be zero.
  bool good = check<f4::linear>(128, 4096, false) & check<f4::linear>(64, 4096, true);
  good &= check<f4::swizzled_128x4>(300, 4112, false) & check<f4::swizzled_128x4>(300, 4112, true);
  good &= check<f4::linear>(8, 28672, false) & check<f4::linear>(8, 28672, true) &
          check<f4::linear>(3, 16, false);
  return good ? 0 : 1;
}
