// SPDX-License-Identifier: Apache-2.0
// Cases of accumulate::native, with a library's plan or without: every element of D is within the bound of
// the exact product, or NaN where a scale is; what lies around D keeps its bits. `Gemm` is handed to a
// gemm_case.
#pragma once

#include <fourscale/device/gemm_native.cuh>

#include "gemm_blackwell_cases.cuh"
#include "gemm_calls.cuh"
#include "gemm_random.hpp"
#include "gemm_within_bound.hpp"

namespace fourscale::test {

/// device::gemm without a plan, with a workspace of its own, to be handed to a gemm_case.
struct native_gemm {
  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    const i64 bytes = device::gemm_workspace_bytes(a.rows, b.rows, a.cols, accumulate::native{});
    return in_workspace(bytes, nullptr, [&](u8* workspace, gemm_steps*) {
      return device::gemm(a, b, d, factors, accumulate::native{}, {workspace, bytes});
    });
  }
};

/// Checks D against the exact product, and that what lies around it stayed; gives the largest error in
/// bounds.
template <class F, class LA, class G, class LB, class T>
double check_within_bound(gemm_case<F, LA, G, LB, T>& c, std::vector<T> const& got) {
  const gemm_distance d =
      distance_from_exact(c.a.on_host(), c.b.on_host(), c.o.factors, c.ld(), c.before, got);
  std::vector<T> around = got;  // with what was there before in place of D
  for (i64 i = 0; i < c.o.m; ++i)
    std::copy_n(c.before.begin() + i * c.ld(), c.o.n, around.begin() + i * c.ld());
  CHECK(d.wrong == 0);
  CHECK(same_bits(around, c.before));
  return d.worst;
}

template <class Gemm, class LA, class LB, class T, class F = nvfp4, class G = F>
void check_native(std::vector<gemm_options> const& list) {
  if (!gpu_or_warn()) return;
  for (gemm_options const& o : list) {
    INFO(F::name << ' ' << G::name << ' ' << o.m << " x " << o.n << " x " << o.k << ", gap " << o.gap);
    gemm_case<F, LA, G, LB, T> c(o);
    check_within_bound(c, c.on_device(Gemm{}));
  }
}

template <class Gemm>
void check_native_shapes() {
  using enum amax_from;
  check_native<Gemm, linear, linear, float>({
      {1, 1, 16},
      {16, 8, 64},
      {128, 192, 64},
      {1, 200, 256},
      {200, 1, 256},
      {127, 193, 320},
      {33, 17, 80},
      {257, 385, 96},
      {65, 50, 192, {}, 3, 1, 0},
      {70, 90, 160, {-1.5f, 0.75f}, 5},
      {70, 90, 160, {0.0f, 1.0f}},
  });
  check_native<Gemm, swizzled_128x4, swizzled_128x4, bf16>({
      {1, 1, 16},
      {129, 127, 208},
      {31, 130, 384, {2.0f, -0.5f}, 1},
      {140, 20, 96, {}, 0, 0, 0, device, device},
      {20, 140, 96, {0.3f, 0.1f}, 0, 0, 0, device, view},
      {300, 400, 640, {1.1f, 0.25f}, 0, 0, 0, rows, rows},
      {70, 133, 128, {1.1f, 0.5f}, 0, 0, 0, view, rows},
      {515, 300, 2064},
      {256, 256, 8192},
  });
}

/// All kinds of data, and products of which all but one lie below the last bit that must be kept. Prints the
/// largest error in bounds.
template <class Gemm>
void check_native_kinds() {
  if (!gpu_or_warn()) return;
  double worst = 0;
  for (const kind what : kinds)
    for (const kind other : {kind::gaussian, what}) {
      INFO("kinds " << static_cast<int>(what) << ' ' << static_cast<int>(other));
      auto c =
          nvfp4_case(operand<nvfp4, linear>(what, 150, 1024, 1), operand<nvfp4, linear>(other, 210, 1024, 2));
      worst = std::fmax(worst, check_within_bound(c, c.on_device(Gemm{})));
    }
  std::printf("accumulate::native: the largest error is %.4f of its bound\n", worst);
}

/// Every scale there is, NaN among them; and NaN under a factor of 0.
template <class Gemm>
void check_native_scales() {
  if (!gpu_or_warn()) return;
  gemm_case<nvfp4, linear, nvfp4, linear, float> c({140, 200, 960});
  for (size_t i = 0; i < c.a.data.scales.size(); ++i)
    c.a.data.scales[i] = static_cast<u8>(mix(i) % 997 == 0 ? mix(i) >> 8 : (mix(i) >> 8) % 127);
  check_within_bound(c, c.on_device(Gemm{}));
  for (size_t i = 0; i < c.b.data.scales.size(); i += 777) c.b.data.scales[i] = i % 2 == 0 ? 0x7f : 0xff;
  check_within_bound(c, c.on_device(Gemm{}));
  c.o.factors.alpha = 0.0f;
  check_within_bound(c, c.on_device(Gemm{}));
  c.o.factors.alpha = 1.0f;
  c.a.amax = amax_from::device;
  c.a.data.amax = 0.0f;
  check_within_bound(c, c.on_device(Gemm{}));
}

/// GEMMs drawn at random: of the first `count` seeds, or of `all` if the test is exhaustive.
template <class Gemm, class F, class G, class Layout, class T>
void check_random_native(u64 count, u64 all) {
  if (!gpu_or_warn()) return;
  for_random_gemms<F, G, Layout, T>(count, all, 300, 2048, [](auto& c, u64 seed) {
    dice d(seed);
    c.o.factors.alpha = d.one_of({1.0f, -0.37f});  // not 0: times an infinite sum it is NaN
    c.o.factors.beta = d.one_of({0.0f, 1.0f, -0.75f});
    for (size_t i = 0; i < c.before.size(); ++i) c.before[i] = from_float<T>(gaussian(i) * 100.0f);
    check_within_bound(c, c.on_device(Gemm{}));
  });
}

/// D is not read where beta is 0.
template <class Gemm>
void check_native_reads_no_d() {
  if (!gpu_or_warn()) return;
  gemm_case<nvfp4, linear, nvfp4, linear, float> c({64, 96, 256});
  for (float& x : c.before) x = bit_cast<float>(0x7fc0'0000u);
  check_within_bound(c, c.on_device(Gemm{}));
}

}  // namespace fourscale::test
