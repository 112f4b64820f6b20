// SPDX-License-Identifier: Apache-2.0
// A linear layer under te_nvfp4 on the device: every bit is the host's; in a graph; what it refuses.
#include "linear_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe te = presets::te_nvfp4().linear;

/// An amax that another rank has: larger than those of these tensors.
constexpr float of_other_rank = 9.0f;

}  // namespace

TEST_CASE("device linear: te_nvfp4 equals the host", "[device][recipe][linear]") {
  check_linear<te>({48, 64, 80});
  check_linear<te>({32, 128, 64});
  check_linear<te>({272, 144, 400});
  check_linear<te>({16, 16, 16});
}

TEST_CASE("device linear: te_nvfp4 drawn at random equals the host", "[device][recipe][linear]") {
  check_drawn_linear<te>(16, 20);
}

TEST_CASE("device linear: amaxes are reduced between amax and quantize", "[device][recipe][linear]") {
  if (!gpu_or_warn()) return;
  linear_case<te> h({48, 64, 80});
  linear_on_device<te> d(h);
  const decltype(h)::layer on_host;
  const decltype(d)::layer on_device;
  REQUIRE(on_host.amax(h.in_x(), h.key, h.t.x) == errc::ok);
  REQUIRE(on_device.amax(d.in_x(), h.key, d.t.x) == errc::ok);
  float amaxes[2] = {};
  REQUIRE(cudaMemcpy(amaxes, d.t.x.amax, sizeof amaxes, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(amaxes[0] == h.t.x.amax[0]);
  CHECK(amaxes[1] == h.t.x.amax[1]);
  for (float& a : amaxes) a = of_other_rank;
  h.t.x.amax[0] = h.t.x.amax[1] = of_other_rank;
  REQUIRE(cudaMemcpy(d.t.x.amax, amaxes, sizeof amaxes, cudaMemcpyHostToDevice) == cudaSuccess);
  REQUIRE(on_host.quantize(h.in_x(), h.key, &h.t.x) == errc::ok);
  REQUIRE(on_device.quantize(d.in_x(), h.key, &d.t.x) == errc::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  const bool same = d.saved.to_host() == h.saved;
  CHECK(same);
  CHECK(d.t.x.signs == h.t.x.signs);
}

TEST_CASE("device linear: a step in a graph equals the host", "[device][recipe][linear]") {
  if (!gpu_or_warn()) return;
  linear_case<te> h({48, 64, 80});
  linear_on_device<te> d(h);
  REQUIRE(d.forward() == errc::ok);  // loads the kernels
  REQUIRE(d.backward() == errc::ok);
  REQUIRE(h.forward() == errc::ok);
  REQUIRE(h.backward() == errc::ok);
  const captured_step step([&d](cudaStream_t stream) { return d.step(1.0f, stream); });
  for (int microbatch = 0; microbatch < 3; ++microbatch) {
    step.launch();
    REQUIRE(h.forward() == errc::ok);
    REQUIRE(h.backward(1.0f) == errc::ok);
  }
  check_same_as_host(d);
}

TEST_CASE("device linear: what it refuses stays unwritten", "[device][recipe][linear]") {
  if (!gpu_or_warn()) return;
  linear_case<te> h({48, 64, 80});
  linear_on_device<te> d(h);
  using layer = decltype(d)::layer;
  const layer run;
  const auto place = [&](i64 fewer_weights, i64 fewer_saved, i64 fewer_workspace) {
    return layer::place(d.s, {d.weights.data(), d.n.weights - fewer_weights},
                        {d.saved.data(), d.n.saved - fewer_saved},
                        {d.workspace.data(), d.n.workspace - fewer_workspace}, &d.t);
  };
  CHECK(place(1, 0, 0) == errc::no_workspace);
  CHECK(place(0, 1, 0) == errc::no_workspace);
  CHECK(place(0, 0, 1) == errc::no_workspace);
  CHECK(place(0, 0, 0) == errc::ok);
  const matrix_view<bf16 const> short_x{d.x.data(), 32, 64};
  const matrix_view<bf16> narrow_dx{d.dx.data(), 48, 48};
  const matrix_view<float> narrow_dw{d.dw.data(), 80, 48};
  CHECK(run.amax(short_x, h.key, d.t.x) == errc::shape_mismatch);
  CHECK(run.quantize(short_x, h.key, &d.t.x) == errc::shape_mismatch);
  CHECK(run.forward(short_x, d.in_w(), h.key, &d.t, d.out_y()) == errc::shape_mismatch);
  CHECK(run.forward(d.in_x(), d.in_w(), h.key, &d.t, d.out_dx()) == errc::shape_mismatch);
  CHECK(run.backward(d.in_dy(), h.key, &d.t, d.out_dx(), d.out_dw(), 0.0f) == errc::no_copy);
  CHECK(run.fprop({}, d.out_y()) == errc::empty_matrix);
  check_same_as_host(d);  // both machines have what they began with

  REQUIRE(d.forward() == errc::ok);
  REQUIRE(h.forward() == errc::ok);
  CHECK(run.backward(d.in_dy(), h.key, &d.t, narrow_dx, d.out_dw(), 0.0f) == errc::shape_mismatch);
  CHECK(run.backward(d.in_dy(), h.key, &d.t, d.out_dx(), narrow_dw, 0.0f) == errc::shape_mismatch);
  check_same_as_host(d);
}
