// SPDX-License-Identifier: Apache-2.0
// A linear layer under te_nvfp4 whose GEMMs cuBLASLt multiplies: within the bound of the exact products, also
// in a graph; what it refuses.
#include "cublaslt_handle.cuh"
#include "device/linear_native_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe te = presets::te_nvfp4().linear;
using interop::cublaslt_linear_plans;
using by_plans = accumulate::native<cublaslt_linear_plans>;
using on_device = linear_on_device<te, linear, by_plans>;

/// A layer on both machines, and plans, which are not made yet.
struct planned_layer {
  cublaslt_handle lt;
  cublaslt_linear_plans plans;
  linear_case<te> h;
  on_device d;

  explicit planned_layer(linear_shape s) : h(s), d(h) { d.how = {&plans}; }
  errc make_plans() { return make_plans(d.out_dw()); }
  errc make_plans(matrix_view<float> const& dw) {
    return device::plan_native(lt.handle, d.t, d.out_y(), d.out_dx(), dw, plans);
  }
  /// Matrices and memory that outlives a step, as when they were made.
  bool is_untouched() const {
    return d.weights.to_host() == h.weights && d.saved.to_host() == h.saved &&
           same_bits(d.y.to_host(), h.y) && same_bits(d.dx.to_host(), h.dx) &&
           same_bits(d.dw.to_host(), h.dw);
  }
  /// Gives what plan_native overwrote the host's values again.
  void restore() {
    REQUIRE(cudaMemcpy(d.y.data(), h.y.data(), h.y.size() * sizeof(bf16), cudaMemcpyHostToDevice) ==
            cudaSuccess);
    REQUIRE(cudaMemcpy(d.dx.data(), h.dx.data(), h.dx.size() * sizeof(bf16), cudaMemcpyHostToDevice) ==
            cudaSuccess);
    REQUIRE(cudaMemcpy(d.dw.data(), h.dw.data(), h.dw.size() * sizeof(float), cudaMemcpyHostToDevice) ==
            cudaSuccess);
  }
};

}  // namespace

TEST_CASE("cublaslt linear: Y, dX and dW are within the bound", "[interop][cublaslt][linear]") {
  if (!gpu_or_warn()) return;
  for (const linear_shape s : {linear_shape{48, 64, 80}, {272, 144, 400}, {16, 16, 16}, {32, 512, 48}}) {
    planned_layer p(s);
    REQUIRE(p.make_plans() == errc::ok);
    CHECK(p.plans.count == (s.in == s.out ? 2 : 3));
    check_two_microbatches(p.d);
  }
}

TEST_CASE("cublaslt linear: GEMMs of one shape share a plan", "[interop][cublaslt][linear]") {
  if (!gpu_or_warn()) return;
  planned_layer p({48, 96, 96});
  REQUIRE(p.make_plans() == errc::ok);
  CHECK(p.plans.count == 2);  // dW is float
  check_two_microbatches(p.d);
}

TEST_CASE("cublaslt linear: a step in a graph", "[interop][cublaslt][linear]") {
  if (!gpu_or_warn()) return;
  planned_layer p({48, 64, 80});
  REQUIRE(p.make_plans() == errc::ok);
  REQUIRE(p.d.step(0.0f, nullptr) == errc::ok);
  check_captured(p.d);
}

TEST_CASE("cublaslt linear: no plan, or one for another layer, is refused and nothing is written",
          "[interop][cublaslt][linear]") {
  if (!gpu_or_warn()) return;
  planned_layer p({48, 64, 80}), other({32, 64, 80});
  CHECK(p.d.forward() == errc::other_plan);  // none was made
  p.d.how = {};
  CHECK(p.d.forward() == errc::null_pointer);
  REQUIRE(other.make_plans() == errc::ok);
  p.d.how = {&other.plans};
  CHECK(p.d.forward() == errc::other_plan);
  CHECK(p.is_untouched());

  // All but wgrad have a plan: dX must not be written before that shows.
  const device_buffer<float> wide(80 * 72);
  REQUIRE(p.make_plans({wide.data(), 80, 64, 72}) == errc::ok);
  p.restore();
  p.d.how = {&p.plans};
  REQUIRE(p.d.forward() == errc::ok);
  REQUIRE(p.h.forward() == errc::ok);
  CHECK(p.d.backward() == errc::other_plan);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(same_bits(p.d.dx.to_host(), p.h.dx));
  CHECK(same_bits(p.d.dw.to_host(), p.h.dw));
}

TEST_CASE("cublaslt linear: plans that cannot be made stay as they were", "[interop][cublaslt][linear]") {
  if (!gpu_or_warn()) return;
  planned_layer p({48, 64, 80});
  auto& d = p.d;
  const auto make = [&](cublasLtHandle_t handle, auto const& t, matrix_view<float> const& dw) {
    return device::plan_native(handle, t, d.out_y(), d.out_dx(), dw, p.plans);
  };
  auto no_room = d.t, not_placed = d.t;
  not_placed = {};
  no_room.gemm.bytes = device::linear_layer<te>::bytes(d.s).workspace;  // of a layer without plans
  CHECK(make(nullptr, d.t, d.out_dw()) == errc::null_pointer);
  CHECK(make(p.lt.handle, not_placed, d.out_dw()) == errc::empty_matrix);
  CHECK(make(p.lt.handle, no_room, d.out_dw()) == errc::no_workspace);
  CHECK(make(p.lt.handle, d.t, {d.dw.data(), 64, 80}) == errc::shape_mismatch);
  CHECK(p.plans.count == 0);
  CHECK(p.is_untouched());
}

TEST_CASE("cublaslt linear: experts with as many tokens each have the bits of layers by themselves",
          "[interop][cublaslt][linear][grouped]") {
  if (!gpu_or_warn()) return;
  using experts = device::grouped_linear_layer<te, linear, by_plans>;
  planned_layer alone({48, 64, 80});
  REQUIRE(alone.make_plans() == errc::ok);
  constexpr i64 count = 2;
  const linear_shape s = alone.h.s, all{count * s.tokens, s.in, s.out};
  const std::vector<i64> offsets{0, s.tokens, 2 * s.tokens};
  const linear_bytes n = experts::bytes(all, count);
  const device_buffer<u8> weights(n.weights), saved(n.saved), workspace(n.workspace);
  const device_buffer<bf16> x(random_values<bf16>(all.tokens * s.in, 1)),
      dy(random_values<bf16>(all.tokens * s.out, 2)), y(all.tokens * s.out), dx(all.tokens * s.in);
  const device_buffer<float> w(random_values<float>(count * s.out * s.in, 3, 0.1f)), dw(count * s.out * s.in);
  experts::tensors t[count];
  REQUIRE(experts::place(all, {offsets.data(), count}, {weights.data(), n.weights}, {saved.data(), n.saved},
                         {workspace.data(), n.workspace}, t) == errc::ok);
  const experts run(nullptr, {&alone.plans});
  const draw_key key = alone.h.key;
  REQUIRE(run.forward(matrix_view<bf16>{x.data(), all.tokens, s.in},
                      matrix_view<float>{w.data(), count * s.out, s.in}, key, {t, count},
                      matrix_view<bf16>{y.data(), all.tokens, s.out}) == errc::ok);
  REQUIRE(run.backward(matrix_view<bf16>{dy.data(), all.tokens, s.out}, key, {t, count},
                       matrix_view<bf16>{dx.data(), all.tokens, s.in},
                       matrix_view<float>{dw.data(), count * s.out, s.in}, false) == errc::ok);
  const auto rows = [](auto const& m, i64 first, i64 rows_of_one, i64 cols) {
    return matrix_view{m.data() + first * cols, rows_of_one, cols};
  };
  const auto part = [](auto const& m, i64 first, i64 size) {
    const auto v = m.to_host();
    return std::vector(v.begin() + first, v.begin() + first + size);
  };
  const on_device::layer layer(nullptr, {&alone.plans});
  for (u32 e = 0; e < count; ++e) {
    auto& d = alone.d;
    const draw_key of = key.of_expert(e);
    REQUIRE(layer.forward(rows(x, e * s.tokens, s.tokens, s.in), rows(w, e * s.out, s.out, s.in), of, &d.t,
                          d.out_y()) == errc::ok);
    REQUIRE(layer.backward(rows(dy, e * s.tokens, s.tokens, s.out), of, &d.t, d.out_dx(), d.out_dw(), 0.0f) ==
            errc::ok);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(same_bits(d.y.to_host(), part(y, e * s.tokens * s.out, s.tokens * s.out)));
    CHECK(same_bits(d.dx.to_host(), part(dx, e * s.tokens * s.in, s.tokens * s.in)));
    CHECK(same_bits(d.dw.to_host(), part(dw, e * s.out * s.in, s.out * s.in)));
  }
}
