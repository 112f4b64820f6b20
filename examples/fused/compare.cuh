// SPDX-License-Identifier: Apache-2.0
// Checks a fused kernel against the same kernel to bf16, then device::amax() and device::quantize(): codes,
// scales and amax must be equal in every bit. The bf16 activations are compared with the host's, in double.
#pragma once

#include <cmath>
#include <fourscale/device/amax.cuh>
#include <fourscale/device/quantize.cuh>

#include "../support/gpu.cuh"
#include "sinks.cuh"

namespace fused {

using example::array, example::need_gpu, example::require, example::to_host;

/// Uniform values from -size to size, one in 512 of them eight times larger.
inline void fill(array<bf16> const& x, float size, f4::u32 seed) {
  for (i64 i = 0; i < x.count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const float outlier = seed % 4096 < 8 ? 8.0f : 1.0f;
    x[i] = f4::from_float<bf16>(static_cast<float>(static_cast<f4::i32>(seed)) * 0x1p-31f * size * outlier);
  }
}

/// A quantized matrix on the device. Each of its bytes is 0xa5 until a kernel writes it.
template <class Layout>
f4::device_buffer<f4::nvfp4, Layout> poisoned(i64 rows, i64 cols, float const* amax) {
  f4::device_buffer<f4::nvfp4, Layout> buffer(rows, cols, f4::amax_in(amax));
  require(buffer.status());
  const auto q = buffer.view();
  require(cudaMemset(q.codes, 0xa5, static_cast<size_t>(q.code_capacity)));
  require(cudaMemset(q.scales, 0xa5, static_cast<size_t>(q.scale_capacity)));
  return buffer;
}

/// Runs both ways and prints the result; true if all is well. `producer`: a swiglu or an rmsnorm. `want(row,
/// col)`: the activation in double, from which the bf16 value may differ by 2^-7 of it.
template <class Layout, class Producer, class Want>
bool compare(char const* what, Producer const& producer, i64 rows, i64 cols, Want want) {
  array<float> amax(3);  // of the step before; of this step, fused and unfused
  array<bf16> y(rows * cols);
  amax[0] = 3.0f;
  amax[1] = 0.0f;
  const f4::matrix_view<bf16> activations{y.data, rows, cols};
  auto fused = poisoned<Layout>(rows, cols, amax.data), unfused = poisoned<Layout>(rows, cols, amax.data);

  require(launch(producer, to_nvfp4<Layout>{fused.view(), amax.data + 1}));
  require(launch(producer, to_bf16{activations}));
  require(f4::device::amax(activations, amax.data + 2));
  require(f4::device::quantize(activations, unfused.view()));

  const bool same = example::equal(to_host(fused), to_host(unfused)) && amax[1] == amax[2];
  i64 wrong = 0;
  for (i64 row = 0; row < rows; ++row)
    for (i64 col = 0; col < cols; ++col) {
      const double exact = want(row, col), got = f4::to_float(y[row * cols + col]);
      wrong += !(std::fabs(got - exact) <= 0x1p-7 * std::fabs(exact) + 1e-30);
    }
  std::printf("%-28s %lld x %lld, amax %g: fused = unfused %s, %lld activations off\n", what, rows, cols,
              amax[1], same ? "in every bit" : "NOT EQUAL", wrong);
  return same && wrong == 0;
}

}  // namespace fused
