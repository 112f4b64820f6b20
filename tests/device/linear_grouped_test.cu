// SPDX-License-Identifier: Apache-2.0
// Experts in one call on the device: every bit is the host's; also in a graph.
#include "linear_grouped_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe te = presets::te_nvfp4().linear;

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
