// SPDX-License-Identifier: Apache-2.0
// A kernel that makes activations can quantize them before they ever reach memory. SwiGLU to NVFP4 in one
// pass reads 4 bytes a value and writes 0.56; SwiGLU, amax() and quantize() as three kernels move 10.56. The
// fused kernel is in fused/swiglu.cuh; the sinks that take its values are in fused/sinks.cuh. It gives the
// bits of the three kernels, which this example checks.
#include "fused/compare.cuh"
#include "fused/swiglu.cuh"

using namespace fused;

namespace {

template <class Layout>
bool check(i64 rows, i64 cols) {
  array<bf16> gate_up(rows * 2 * cols);
  fill(gate_up, 6.0f, 1);
  gate_up[0] = f4::from_float<bf16>(-200.0f);  // e^200 overflows: silu is 0 there
  const auto silu_times_up = [&](i64 row, i64 col) {
    const double gate = f4::to_float(gate_up[row * 2 * cols + col]),
                 up = f4::to_float(gate_up[row * 2 * cols + cols + col]);
    return std::fabs(gate) < 100 ? gate / (1 + std::exp(-gate)) * up : 0.0;
  };
  const swiglu producer{{gate_up.data, rows, 2 * cols}};
  return compare<Layout>(Layout::has_padding ? "SwiGLU, swizzled scales" : "SwiGLU", producer, rows, cols,
                         silu_times_up);
}

}  // namespace

int main() {
  need_gpu();
  // 300 x 4112 values have 257 blocks in a row. Rows and blocks end inside a tile of scales, so the scales
  // have padding, which must be zero.
  const bool good =
      check<f4::linear>(128, 4096) & check<f4::swizzled_128x4>(300, 4112) & check<f4::linear>(3, 16);
  return good ? 0 : 1;
}
