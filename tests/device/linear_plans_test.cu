// SPDX-License-Identifier: Apache-2.0
// A linear layer by accumulate::native asks for what its plan needs, and refuses GEMMs that its plan is not
// for, before it writes anything or calls CUDA. All memory here is the host's: nothing may be launched.
#include "linear_case.cuh"
#include "linear_plan.cuh"
#include "recipe/grouped_case.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe te = presets::te_nvfp4().linear;
using planned = accumulate::native<plan_but_for>;
using layer = device::linear_layer<te, linear, planned>;
using experts = device::grouped_linear_layer<te, linear, planned>;

/// A layer and memory that it must not touch. in = 64, out = 80, tokens = 48: three values of K.
struct untouched_layer {
  linear_case<te> h{{48, 64, 80}};
  linear_bytes n = layer::bytes(h.s);
  std::vector<u8> weights = h.bytes(n.weights), saved = h.bytes(n.saved), workspace = h.bytes(n.workspace);
  layer::tensors t;

  untouched_layer() {
    REQUIRE(layer::place(h.s, h.all_of(weights), h.all_of(saved), h.all_of(workspace), &t) == errc::ok);
    t.x.made_under(h.key);  // as forward() leaves it
  }
  errc forward(planned how) { return layer(nullptr, how).forward(h.in_x(), h.in_w(), h.key, &t, h.out_y()); }
  errc backward(planned how) {
    return layer(nullptr, how).backward(h.in_dy(), h.key, &t, h.out_dx(), h.out_dw(), 0.0f);
  }
  errc validate_forward(planned how) { return layer(nullptr, how).validate_forward(h.in_x(), &t, h.out_y()); }
  errc validate_backward(planned how) {
    return layer(nullptr, how).validate_backward(h.in_dy(), h.key, &t, h.out_dx(), h.out_dw());
  }
  bool is_untouched() const {
    const linear_case<te> as_it_was(h.s);
    return weights == h.bytes(n.weights) && saved == h.bytes(n.saved) && workspace == h.bytes(n.workspace) &&
           same_values(h.y, as_it_was.y) && same_values(h.dx, as_it_was.dx) && h.dw == as_it_was.dw;
  }
};

}  // namespace

TEST_CASE("device linear: a layer asks for the bytes of its plan", "[device][recipe][linear][native]") {
  constexpr linear_shape s{96, 64, 160};
  constexpr i64 of_plan = mma::decoded_operand::alignment + plan_but_for::workspace_bytes;
  const linear_bytes of_blackwell = device::linear_layer<te>::bytes(s);
  linear_bytes with_plan = of_blackwell;
  with_plan.workspace += of_plan;
  CHECK(device::linear_layer<te, linear, accumulate::native<>>::bytes(s) == of_blackwell);
  CHECK(layer::bytes(s) == with_plan);
  // A library multiplies for one expert after the other; on a CPU GEMMs need no workspace.
  CHECK(experts::bytes(s, 3).workspace ==
        host::grouped_linear_layer<te>::bytes(s, 3).workspace + layer::gemm_bytes(s));
  constexpr linear_recipe mx = presets::mxfp4().linear;
  CHECK(device::linear_layer<mx, linear, planned>::bytes(s) == device::linear_layer<mx>::bytes(s));
}

TEST_CASE("device linear: a GEMM that the plan is not for is refused before anything is written",
          "[device][recipe][linear][native]") {
  untouched_layer u;
  CHECK(u.forward({}) == errc::null_pointer);
  CHECK(u.backward({}) == errc::null_pointer);
  const plan_but_for all, no_fprop{64}, no_dgrad{80}, no_wgrad{48};
  CHECK(u.forward({&no_fprop}) == errc::other_plan);
  CHECK(u.backward({&no_dgrad}) == errc::other_plan);
  CHECK(u.backward({&no_wgrad}) == errc::other_plan);
  CHECK(u.is_untouched());
  for (plan_but_for const* plan : {&all, &no_dgrad, &no_wgrad}) CHECK(u.validate_forward({plan}) == errc::ok);
  for (plan_but_for const* plan : {&all, &no_fprop}) CHECK(u.validate_backward({plan}) == errc::ok);
  // Each GEMM by itself; a wrong shape comes before a wrong plan.
  const layer run(nullptr, {&no_fprop});
  CHECK(run.fprop(u.t, u.h.out_y()) == errc::other_plan);
  CHECK(run.fprop(u.t, u.h.out_dx()) == errc::shape_mismatch);
  CHECK(layer(nullptr, {&no_dgrad}).dgrad(u.t, u.h.out_dx()) == errc::other_plan);
  u.t.dy.made_under(u.h.key);
  CHECK(layer(nullptr, {&no_wgrad}).wgrad(u.t, u.h.out_dw(), 1.0f) == errc::other_plan);
  CHECK(u.is_untouched());
}

TEST_CASE("device linear: no pass begins without the memory that its GEMMs work in",
          "[device][recipe][linear][native]") {
  untouched_layer u;
  const plan_but_for all;
  u.t.gemm.bytes = 0;
  CHECK(u.forward({&all}) == errc::no_workspace);
  CHECK(u.backward({&all}) == errc::no_workspace);
  CHECK(u.is_untouched());
}

TEST_CASE("device linear: no expert begins if the plan is not for the last one's tokens",
          "[device][recipe][linear][grouped][native]") {
  const linear_shape s{112, 64, 80};
  grouped_case<te> h(s, {0, 32, 64, 112});
  const std::vector<bf16> y = h.y, dx = h.dx;
  const std::vector<float> dw = h.dw;
  const linear_bytes n = experts::bytes(s, h.count);
  using memory = linear_case<te>;
  std::vector<u8> weights = memory::bytes(n.weights), saved = memory::bytes(n.saved),
                  workspace = memory::bytes(n.workspace);
  experts::tensors t[3];
  REQUIRE(experts::place(s, {h.offsets.data(), 3}, memory::all_of(weights), memory::all_of(saved),
                         memory::all_of(workspace), t) == errc::ok);
  for (u32 i = 0; i < 3; ++i) t[i].x.made_under(h.key.of_expert(i));
  const plan_but_for no_last_wgrad{48}, no_fprop{64};
  const experts run(nullptr, {&no_last_wgrad});
  CHECK(run.backward(h.in_dy(), h.key, {t, 3}, h.out_dx(), h.out_dw(), false) == errc::other_plan);
  CHECK(experts(nullptr, {&no_fprop}).forward(h.in_x(), h.in_w(), h.key, {t, 3}, h.out_y()) ==
        errc::other_plan);
  CHECK(same_values(h.y, y));
  CHECK(same_values(h.dx, dx));
  CHECK(same_values(h.dw, dw));
  CHECK(weights == memory::bytes(n.weights));
  CHECK(workspace == memory::bytes(n.workspace));
}
