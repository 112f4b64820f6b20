// SPDX-License-Identifier: Apache-2.0
// Experts in one call on the device: every bit is the host's; also in a graph.
#include "linear_case.cuh"
#include "recipe/grouped_case.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe te = presets::te_nvfp4().linear;

/// The device's side of a grouped_case.
template <linear_recipe R, class L>
struct grouped_on_device {
  using layer = device::grouped_linear_layer<R, L>;
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

template <linear_recipe R, class L = linear>
void check_experts(linear_shape all, std::vector<i64> const& offsets) {
  if (!gpu_or_warn()) return;
  grouped_case<R, L> h(all, offsets);
  grouped_on_device<R, L> d(h);
  for (const bool add : {false, true}) {
    REQUIRE(h.forward() == errc::ok);
    REQUIRE(d.forward() == errc::ok);
    REQUIRE(h.backward(add) == errc::ok);
    REQUIRE(d.backward(add) == errc::ok);
  }
  check_same_as_host(d);
}

}  // namespace

TEST_CASE("device linear: experts equal the host", "[device][recipe][linear][grouped]") {
  check_experts<te>({160, 64, 80}, {0, 48, 48, 64, 144});
  check_experts<te, swizzled_128x4>({336, 144, 272}, {0, 0, 144, 160, 336});
  check_experts<presets::mxfp4().linear>({128, 64, 32}, {0, 32, 32, 128});
}

TEST_CASE("device linear: a step of experts in a graph equals the host",
          "[device][recipe][linear][grouped]") {
  if (!gpu_or_warn()) return;
  grouped_case<te> h({96, 64, 80}, {0, 48, 48, 96});
  grouped_on_device<te, linear> d(h);
  const captured_step step([&d](cudaStream_t stream) {
    const errc e = d.forward(stream);
    return e != errc::ok ? e : d.backward(false, stream);
  });
  step.launch();
  REQUIRE(h.forward() == errc::ok);
  REQUIRE(h.backward() == errc::ok);
  check_same_as_host(d);
}
