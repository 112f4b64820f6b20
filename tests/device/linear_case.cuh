// SPDX-License-Identifier: Apache-2.0
// A linear layer on both machines: memories, amaxes and outputs of the device are those of the host.
#pragma once

#include <fourscale/recipe/linear.cuh>

#include "matches_host.cuh"
#include "recipe/linear_case.hpp"
#include "support/drawn_values.hpp"
#include "support/same_bits.hpp"

namespace fourscale::test {

/// What outlives a step on the device is what the host has, padding and gaps between the parts included.
template <class OnDevice>
void check_same_as_host(OnDevice const& d) {
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  const bool same_w = d.weights.to_host() == d.h.weights, same_saved = d.saved.to_host() == d.h.saved,
             same_dw = same_bits(d.dw.to_host(), d.h.dw);
  CHECK(same_w);
  CHECK(same_saved);
  CHECK(same_bits(d.y.to_host(), d.h.y));
  CHECK(same_bits(d.dx.to_host(), d.h.dx));
  CHECK(same_dw);
}

/// A graph of what step(stream) does, which returns an errc.
class captured_step {
 public:
  template <class Step>
  explicit captured_step(Step const& step, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    REQUIRE(cudaStreamCreate(&stream_) == cudaSuccess);
    REQUIRE(cudaStreamBeginCapture(stream_, mode) == cudaSuccess);
    const errc result = step(stream_);
    const cudaError_t failed = cudaPeekAtLastError();
    REQUIRE(cudaStreamEndCapture(stream_, &graph_) == cudaSuccess);
    INFO(cudaGetErrorString(failed));
    REQUIRE(result == errc::ok);
    REQUIRE(cudaGraphInstantiate(&instance_, graph_, 0) == cudaSuccess);
  }
  captured_step(captured_step const&) = delete;
  ~captured_step() {
    cudaGraphExecDestroy(instance_);
    cudaGraphDestroy(graph_);
    cudaStreamDestroy(stream_);
  }
  void launch() const { REQUIRE(cudaGraphLaunch(instance_, stream_) == cudaSuccess); }

 private:
  cudaStream_t stream_{};
  cudaGraph_t graph_{};
  cudaGraphExec_t instance_{};
};

/// The device's side of a linear_case: the same matrices, memory filled with the same poison.
template <linear_recipe R, class L = linear, class How = accumulate::blackwell>
struct linear_on_device {
  using layer = device::linear_layer<R, L, How>;
  linear_case<R, L>& h;
  How how{};
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
    return layer(stream, how).forward(in_x(), in_w(), h.key, &t, out_y());
  }
  errc backward(float beta = 0.0f, cudaStream_t stream = nullptr) {
    return layer(stream, how).backward(in_dy(), h.key, &t, out_dx(), out_dw(), beta);
  }
  /// Both.
  errc step(float beta, cudaStream_t stream) {
    const errc e = forward(stream);
    return e != errc::ok ? e : backward(beta, stream);
  }
};

/// Forward, backward, and the gradient of the weights once more on top of itself. `prepare` changes the case.
template <linear_recipe R, class L = linear, class How = accumulate::blackwell>
void check_linear(linear_shape s, auto const& prepare) {
  if (!gpu_or_warn()) return;
  INFO(s.tokens << " x " << s.in << " x " << s.out);
  linear_case<R, L> h(s);
  prepare(h);
  linear_on_device<R, L, How> d(h);
  REQUIRE(h.forward() == errc::ok);
  REQUIRE(d.forward() == errc::ok);
  for (const float beta : {0.0f, 1.0f}) {
    REQUIRE(h.backward(beta) == errc::ok);
    REQUIRE(d.backward(beta) == errc::ok);
  }
  check_same_as_host(d);
}
template <linear_recipe R, class L = linear, class How = accumulate::blackwell>
void check_linear(linear_shape s) {
  check_linear<R, L, How>(s, [](auto const&) {});
}

/// Layers drawn at random: of the first `count` seeds, or of ten times as many if the test is exhaustive.
template <linear_recipe R, class L = linear>
void check_drawn_linear(i64 unit, u64 count) {
  for (u64 seed = 0; seed < (exhaustive() ? 10 * count : count); ++seed) {
    INFO("seed " << seed);
    dice d(seed);
    const linear_shape s{unit * d.size(400 / unit), unit * d.size(400 / unit), unit * d.size(400 / unit)};
    check_linear<R, L>(s, [&](linear_case<R, L>& h) {
      h.x = drawn_values<bf16>(d, s.tokens, s.in), h.dy = drawn_values<bf16>(d, s.tokens, s.out);
      h.w = drawn_values<float>(d, s.out, s.in);
    });
  }
}

}  // namespace fourscale::test
