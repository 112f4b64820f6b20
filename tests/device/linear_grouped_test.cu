// SPDX-License-Identifier: Apache-2.0
// Experts in one call on the device: every bit is the host's; also in a graph.
#include "linear_grouped_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe te = presets::te_nvfp4().linear;

template <linear_recipe R, class L = linear>
void check_experts(linear_shape all, std::vector<i64> const& offsets, auto const& prepare) {
  if (!gpu_or_warn()) return;
  grouped_case<R, L> h(all, offsets);
  prepare(h);
  grouped_on_device<R, L> d(h);
  for (const bool add : {false, true}) {
    REQUIRE(h.forward() == errc::ok);
    REQUIRE(d.forward() == errc::ok);
    REQUIRE(h.backward(add) == errc::ok);
    REQUIRE(d.backward(add) == errc::ok);
  }
  check_same_as_host(d);
}
template <linear_recipe R, class L = linear>
void check_experts(linear_shape all, std::vector<i64> const& offsets) {
  check_experts<R, L>(all, offsets, [](auto const&) {});
}

/// Experts drawn at random, some without tokens.
template <linear_recipe R, class L = linear>
void check_drawn_experts(i64 unit, u64 seed) {
  INFO("seed " << seed);
  dice d(seed);
  std::vector<i64> offsets{0};
  for (i64 i = d.size(20); i > 0; --i)
    offsets.push_back(offsets.back() + (d.one_in(4) ? 0 : unit * d.size(200 / unit)));
  const i64 between = d.one_in(3) ? 64 : 0;  // tokens of nobody, behind all others
  const linear_shape all{std::max(unit, offsets.back() + between), unit * d.size(300 / unit),
                         unit * d.size(300 / unit)};
  check_experts<R, L>(all, offsets, [&](grouped_case<R, L>& h) {
    h.x = drawn_values<bf16>(d, all.tokens, all.in), h.dy = drawn_values<bf16>(d, all.tokens, all.out);
    h.w = drawn_values<float>(d, h.count * all.out, all.in);
  });
}

}  // namespace

TEST_CASE("device linear: experts equal the host", "[device][recipe][linear][grouped]") {
  check_experts<te>({160, 64, 80}, {0, 48, 48, 64, 144});
  check_experts<te, swizzled_128x4>({336, 144, 272}, {0, 0, 144, 160, 336});
  check_experts<presets::mxfp4().linear>({128, 64, 32}, {0, 32, 32, 128});
}

TEST_CASE("device linear: experts drawn at random equal the host", "[device][recipe][linear][grouped]") {
  for (u64 seed = 0; seed < (exhaustive() ? 200 : 10); ++seed) {
    check_drawn_experts<te>(16, seed);
    check_drawn_experts<te, swizzled_128x4>(16, seed);
    check_drawn_experts<presets::mxfp4().linear>(32, seed);
  }
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
