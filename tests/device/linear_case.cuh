// SPDX-License-Identifier: Apache-2.0
// A linear layer on both machines: memories, amaxes and outputs of the device are those of the host.
#pragma once

#include <fourscale/recipe/linear.cuh>

#include "matches_host.cuh"
#include "recipe/linear_case.hpp"

namespace fourscale::test {

/// The device's side of a linear_case: the same matrices, memory filled with the same poison.
template <linear_recipe R, class L = linear>
struct linear_on_device {
  using layer = device::linear_layer<R, L>;
  linear_case<R, L>& h;
  linear_shape s = h.s;
  linear_bytes n = layer::bytes(s);
  device_buffer<u8> weights{n.weights}, saved{n.saved}, workspace{n.workspace};
  device_buffer<bf16> x{h.x}, dy{h.dy}, y{h.y}, dx{h.dx};
  device_buffer<float> w{h.w}, dw{h.dw};
  typename layer::tensors t;

  explicit linear_on_device(linear_case<R, L>& host) : h(host) {
    REQUIRE(layer::place(s, {weights.data(), n.weights}, {saved.data(), n.saved},
                         {workspace.data(), n.workspace}, &t) == errc::ok);
  }

  matrix_view<bf16 const> in_x() const { return {x.data(), s.tokens, s.in}; }
  matrix_view<float const> in_w() const { return {w.data(), s.out, s.in}; }
  matrix_view<bf16 const> in_dy() const { return {dy.data(), s.tokens, s.out}; }
  matrix_view<bf16> out_y() const { return {y.data(), s.tokens, s.out}; }
  matrix_view<bf16> out_dx() const { return {dx.data(), s.tokens, s.in}; }
  matrix_view<float> out_dw() const { return {dw.data(), s.out, s.in}; }

  errc forward(cudaStream_t stream = nullptr) {
    return layer{stream}.forward(in_x(), in_w(), h.key, &t, out_y());
  }
  errc backward(float beta = 0.0f, cudaStream_t stream = nullptr) {
    return layer{stream}.backward(in_dy(), h.key, &t, out_dx(), out_dw(), beta);
  }

  /// Everything that outlives a step is equal, padding and gaps between the parts included.
  void check_same() const {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    const bool same_w = weights.to_host() == h.weights, same_saved = saved.to_host() == h.saved,
               same_dw = dw.to_host() == h.dw;
    CHECK(same_w);
    CHECK(same_saved);
    CHECK(same_values(y.to_host(), h.y));
    CHECK(same_values(dx.to_host(), h.dx));
    CHECK(same_dw);
  }
};

/// Forward, backward, and the gradient of the weights once more on top of itself.
template <linear_recipe R, class L = linear>
void check_linear(linear_shape s) {
  if (!gpu_or_warn()) return;
  INFO(s.tokens << " x " << s.in << " x " << s.out);
  linear_case<R, L> h(s);
  linear_on_device<R, L> d(h);
  REQUIRE(h.forward() == errc::ok);
  REQUIRE(d.forward() == errc::ok);
  for (const float beta : {0.0f, 1.0f}) {
    REQUIRE(h.backward(beta) == errc::ok);
    REQUIRE(d.backward(beta) == errc::ok);
  }
  d.check_same();
}

}  // namespace fourscale::test
