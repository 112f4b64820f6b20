// SPDX-License-Identifier: Apache-2.0
// Experts on the device, with the matrices of those on the host.
#pragma once

#include "linear_case.cuh"
#include "recipe/grouped_case.hpp"

namespace fourscale::test {

/// The device's side of a grouped_case.
template <linear_recipe R, class L = linear, class How = accumulate::blackwell>
struct grouped_on_device {
  using layer = device::grouped_linear_layer<R, L, How>;
  grouped_case<R, L>& h;
  linear_bytes n = layer::bytes(h.all, h.count);
  device_buffer<u8> weights{n.weights}, saved{n.saved}, workspace{n.workspace};
  device_buffer<bf16> x{h.x}, dy{h.dy}, y{h.y}, dx{h.dx};
  device_buffer<float> w{h.w}, dw{h.dw};
  std::vector<typename layer::tensors> t{static_cast<size_t>(h.count)};

  explicit grouped_on_device(grouped_case<R, L>& host) : h(host) {
    REQUIRE(layer::place(h.all, {h.offsets.data(), h.count}, {weights.data(), n.weights},
                         {saved.data(), n.saved}, {workspace.data(), n.workspace}, t.data()) == errc::ok);
  }
  typename layer::experts experts() { return {t.data(), h.count}; }
  matrix_view<float> out_dw() const { return {dw.data(), h.count * h.all.out, h.all.in}; }

  errc forward(cudaStream_t stream = nullptr) {
    return layer(stream).forward(matrix_view<bf16 const>{x.data(), h.all.tokens, h.all.in},
                                 matrix_view<float const>{w.data(), h.count * h.all.out, h.all.in}, h.key,
                                 experts(), matrix_view<bf16>{y.data(), h.all.tokens, h.all.out});
  }
  errc backward(bool add, cudaStream_t stream = nullptr) {
    return layer(stream).backward(matrix_view<bf16 const>{dy.data(), h.all.tokens, h.all.out}, h.key,
                                  experts(), matrix_view<bf16>{dx.data(), h.all.tokens, h.all.in}, out_dw(),
                                  add);
  }
};

}  // namespace fourscale::test
