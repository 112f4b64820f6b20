// SPDX-License-Identifier: Apache-2.0
// A linear layer in FP8 on the device: the codes and scales of the host; products of whole numbers bit for
// bit, and any others within the bound of docs/native_gemm.md; also in a graph.
#include "linear_case.cuh"
#include "mma/gemm_bound.hpp"
#include "recipe/linear_fp8_case.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe current = presets::fp8_current().linear, blocks = presets::fp8_block().linear;
template <linear_recipe R>
using on_device = linear_on_device<R, linear, accumulate::native<>>;

/// Copies and products of the device are those of the host.
template <linear_recipe R>
void check_whole(linear_shape s) {
  check_linear<R, linear, accumulate::native<>>(s, [](linear_case<R>& h) { make_whole(h); });
}

/// How many elements are farther from the product in double than FP8 GEMMs may be; `magnitudes` of |a| |b|.
template <class T>
int outside(std::vector<T> const& got, expected const& want, expected const& magnitudes, i64 k) {
  int count = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double off = fp8_bound(k, magnitudes.values[i]) + 4 * 0x1p-24 * magnitudes.values[i];
    const double bound = off + (sizeof(T) == 2 ? 0x1.01p-8 : 0x1p-24) * (std::fabs(want.values[i]) + off);
    count += !(std::fabs(static_cast<double>(to_float(got[i])) - want.values[i]) <= bound);
  }
  return count;
}
std::vector<float> magnitudes_of(std::vector<float> v) {
  for (float& x : v) x = std::fabs(x);
  return v;
}

/// One GEMM of a step: operands as the host's fake quantization makes them.
template <class T, class A, class B>
int outside_of(std::vector<T> const& got, operand_recipe const& oa, operand_place const& at_a, A const& a,
               operand_recipe const& ob, operand_place const& at_b, B const& b, i64 m, i64 n, i64 k) {
  const std::vector<float> x = operand_values(oa, at_a, a), y = operand_values(ob, at_b, b);
  return outside(got, expected(x, y, m, n, k, false),
                 expected(magnitudes_of(x), magnitudes_of(y), m, n, k, false), k);
}

template <linear_recipe R>
void check_step(on_device<R> const& d) {
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  auto const& h = d.h;
  using enum tensor_role;
  const operand_place x{h.key, activation, 0}, w{h.key, weight, 0}, dy{h.key, gradient, 1};
  const auto [tokens, in, out] = h.s;
  CHECK(outside_of(d.y.to_host(), R.fprop.a, x, h.in_x(), R.fprop.b, w, h.in_w(), tokens, out, in) == 0);
  CHECK(outside_of(d.dx.to_host(), R.dgrad.a, dy, h.in_dy(), R.dgrad.b, w, h.in_w(), tokens, in, out) == 0);
  CHECK(outside_of(d.dw.to_host(), R.wgrad.a, dy, h.in_dy(), R.wgrad.b, x, h.in_x(), out, in, tokens) == 0);
}

template <linear_recipe R>
void check_bound(linear_shape s) {
  if (!gpu_or_warn()) return;
  INFO(s.tokens << " x " << s.in << " x " << s.out);
  linear_case<R> h(s);
  on_device<R> d(h);
  REQUIRE(d.step(0.0f, nullptr) == errc::ok);
  check_step(d);
  REQUIRE(h.forward() == errc::ok);
  REQUIRE(h.backward() == errc::ok);
  const bool same_w = d.weights.to_host() == h.weights, same_saved = d.saved.to_host() == h.saved;
  CHECK(same_w);
  CHECK(same_saved);
  const captured_step step([&d](cudaStream_t stream) { return d.step(0.0f, stream); });
  REQUIRE(cudaMemset(d.y.data(), poison, h.y.size() * sizeof(bf16)) == cudaSuccess);
  REQUIRE(cudaMemset(d.dw.data(), poison, h.dw.size() * sizeof(float)) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  step.launch();
  check_step(d);
}

}  // namespace

TEST_CASE("device linear fp8: whole numbers have the host's bits", "[device][recipe][linear][fp8]") {
  for (const linear_shape s : {linear_shape{48, 64, 80}, {272, 144, 400}, {16, 16, 16}, {128, 256, 192}})
    check_whole<current>(s);
  check_whole<blocks>({128, 128, 128});
  check_whole<blocks>({256, 128, 384});
}

TEST_CASE("device linear fp8: within the bound, also in a graph", "[device][recipe][linear][fp8]") {
  check_bound<current>({48, 64, 80});
  check_bound<current>({272, 144, 400});
  check_bound<blocks>({128, 256, 384});
}
