// SPDX-License-Identifier: Apache-2.0
// Blackwell's bits on tensor cores that know bf16 only, compared with the chained model: every bit of D, what
// lies around it, and how the steps were added.
#include <fourscale/device/gemm.cuh>
#include <fourscale/host/gemm_blackwell.hpp>

#include "mma/gemm_case.cuh"
#include "mma/gemm_data.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// device::gemm with a workspace of its own, to be handed to a gemm_case.
struct blackwell_gemm {
  gemm_steps* counted = nullptr;

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    const i64 bytes = device::gemm_workspace_bytes(a.rows, b.rows, a.cols);
    const device_buffer<u8> workspace(bytes);
    const device_buffer<gemm_steps> steps(std::vector<gemm_steps>(1));
    const errc e = device::gemm(a, b, d, factors, accumulate::blackwell{}, {workspace.data(), bytes}, nullptr,
                                steps.data());
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    if (counted != nullptr) *counted = steps.to_host()[0];
    return e;
  }
};

template <class F, class LA, class LB, class T>
void check_gemm(std::vector<gemm_options> const& list) {
  if (!gpu_or_warn()) return;
  for (gemm_options const& o : list) {
    INFO(F::name << ' ' << o.m << " x " << o.n << " x " << o.k << ", gap " << o.gap);
    gemm_case<F, LA, F, LB, T> c(o);
    CHECK(same_bits(c.on_device(blackwell_gemm{}), c.oracle()));
  }
}

}  // namespace

TEST_CASE("device gemm blackwell: shapes of NVFP4", "[device][gemm][blackwell]") {
  check_gemm<nvfp4, linear, linear, float>({
      {1, 1, 16},
      {1, 1, 64},
      {16, 8, 64},
      {128, 192, 64},
      {128, 192, 128},
      {1, 200, 256},
      {200, 1, 256},
      {127, 193, 320},
      {33, 17, 80},
      {40, 72, 1024},
      {257, 385, 96},
      {64, 48, 144},
      {65, 50, 192, {}, 3, 1, 0},
      {50, 65, 192, {}, 0, 0, 7},
      {70, 90, 160, {0.37f, 0.0f}},
      {70, 90, 160, {-1.5f, 0.75f}, 5},
      {70, 90, 160, {0.0f, 1.0f}},
  });
}

TEST_CASE("device gemm blackwell: NVFP4 under swizzled scales", "[device][gemm][blackwell]") {
  using enum amax_from;
  check_gemm<nvfp4, swizzled_128x4, swizzled_128x4, bf16>({
      {128, 128, 64},
      {1, 1, 16},
      {129, 127, 208},
      {31, 130, 384, {2.0f, -0.5f}, 1},
      {140, 20, 96, {}, 0, 0, 0, device, device},
      {20, 140, 96, {0.3f, 0.1f}, 0, 0, 0, device, view},
      {133, 70, 128, {}, 0, 0, 0, rows, view},
      {70, 133, 128, {1.1f, 0.5f}, 0, 0, 0, view, rows},
      {300, 400, 640, {1.1f, 0.0f}, 0, 0, 0, rows, rows},
      {515, 777, 2064},
      {1111, 1300, 512},
  });
  check_gemm<nvfp4, linear, swizzled_128x4, fp16>({{130, 131, 160}, {17, 33, 448, {0.01f, 0.25f}, 7}});
}

TEST_CASE("device gemm blackwell: MXFP4", "[device][gemm][blackwell]") {
  check_gemm<mxfp4, linear, linear, float>({
      {1, 1, 32},
      {16, 8, 64},
      {130, 129, 320},
      {20, 30, 96},
      {40, 50, 192, {0.5f, 2.0f}, 2, 1, 9},
      {3, 300, 128},
  });
  check_gemm<mxfp4, swizzled_128x4, swizzled_128x4, bf16>({{129, 127, 224}, {61, 62, 352, {1.25f, 0.5f}, 4}});
}

TEST_CASE("device gemm blackwell: all scales, NaN among them", "[device][gemm][blackwell]") {
  if (!gpu_or_warn()) return;
  gemm_case<nvfp4, linear, nvfp4, linear, float> c({140, 200, 960});
  for (size_t i = 0; i < c.a.data.scales.size(); ++i) c.a.data.scales[i] = static_cast<u8>(mix(i) >> 8);
  CHECK(same_bits(c.on_device(blackwell_gemm{}), c.oracle()));
  gemm_case<mxfp4, linear, mxfp4, linear, float> d({140, 200, 960});
  for (size_t i = 0; i < d.a.data.scales.size(); ++i) d.a.data.scales[i] = static_cast<u8>(mix(i) >> 8);
  for (size_t i = 0; i < d.b.data.scales.size(); ++i)
    d.b.data.scales[i] = static_cast<u8>(mix(i + 77) % 8 == 0 ? mix(i) >> 8 : 127);
  CHECK(same_bits(d.on_device(blackwell_gemm{}), d.oracle()));
}

TEST_CASE("device gemm blackwell: kinds of data, and how their steps are added",
          "[device][gemm][blackwell]") {
  if (!gpu_or_warn()) return;
  for (const kind what : kinds)
    for (const kind other : {kind::gaussian, what}) {
      INFO("kinds " << static_cast<int>(what) << ' ' << static_cast<int>(other));
      gemm_case<nvfp4, linear, nvfp4, linear, bf16> c({150, 210, 1024});
      c.a.data = gemm_operand_data<nvfp4, linear>(operand<nvfp4, linear>(what, 150, 1024, 1));
      c.b.data = gemm_operand_data<nvfp4, linear>(operand<nvfp4, linear>(other, 210, 1024, 2));
      gemm_steps steps;
      CHECK(same_bits(c.on_device(blackwell_gemm{&steps}), c.oracle()));
      CHECK(steps.in_f32 + steps.in_double + steps.by_model == 150 * 210 * 16);
      if (what == kind::gaussian || what == kind::zero_rows || what == kind::lognormal_rows)
        CHECK(steps.in_f32 == 150 * 210 * 16);
      if (what == kind::lognormal_blocks) CHECK(steps.in_double > 0);
    }
}

TEST_CASE("device gemm blackwell: large, compared with the CPU's", "[device][gemm][blackwell][large]") {
  if (!gpu_or_warn()) return;
  for (const kind what : {kind::gaussian, kind::student_2}) {
    gemm_case<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, bf16> c({1500, 1700, 4096});
    c.a.data = gemm_operand_data<nvfp4, swizzled_128x4>(operand<nvfp4, swizzled_128x4>(what, 1500, 4096, 1));
    c.b.data = gemm_operand_data<nvfp4, swizzled_128x4>(operand<nvfp4, swizzled_128x4>(what, 1700, 4096, 2));
    std::vector<bf16> want = c.before;
    REQUIRE(host::gemm(c.a.on_host(), c.b.on_host(), c.view_of(want.data()), c.o.factors,
                       accumulate::blackwell{}) == errc::ok);
    CHECK(same_bits(c.on_device(blackwell_gemm{}), want));
  }
}

TEST_CASE("device gemm: each device has its kernel", "[device][gemm][blackwell]") {
  using device::gemm_kernel, device::detail::best_kernel;
  CHECK(best_kernel(8, true) == gemm_kernel::model);
  CHECK(best_kernel(9, false) == gemm_kernel::wgmma);
  CHECK(best_kernel(10, true) == gemm_kernel::tcgen05);
  CHECK(best_kernel(10, false) == gemm_kernel::model);
  CHECK(best_kernel(11, true) == gemm_kernel::tcgen05);
  CHECK(best_kernel(12, false) == gemm_kernel::mma_sync);
}

TEST_CASE("device gemm: MXFP8 has the model's bits everywhere", "[device][gemm][blackwell]") {
  check_gemm<mxfp8_e4m3, linear, linear, float>({{17, 33, 96}, {130, 140, 160, {0.5f, 2.0f}}});
}

TEST_CASE("device gemm blackwell: broken rules are refused and D stays as it was",
          "[device][gemm][blackwell]") {
  if (!gpu_or_warn()) return;
  gemm_case<nvfp4, linear, nvfp4, linear, float> c({30, 20, 64});
  const device_gemm_operand<nvfp4, linear> a(c.a), b(c.b);
  const device_buffer<float> d(c.before);
  const i64 bytes = device::gemm_workspace_bytes(30, 20, 64);
  const device_buffer<u8> workspace(bytes + 1);
  const auto refused = [&](auto const& x, auto const& y, matrix_view<float> to, device::gemm_workspace w,
                           errc e) {
    CHECK(device::gemm(x, y, to, {}, accumulate::blackwell{}, w) == e);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(same_bits(d.to_host(), c.before));
  };
  const matrix_view<float> to = c.view_of(d.data());
  if (device::kernel_of_gemm(a.view, b.view, to) == device::gemm_kernel::wgmma) {
    refused(a.view, b.view, to, {workspace.data(), bytes - 1}, errc::no_workspace);
    refused(a.view, b.view, to, {nullptr, bytes}, errc::no_workspace);
    refused(a.view, b.view, to, {a.codes.data(), bytes}, errc::overlap);
    refused(a.view, b.view, to, {d.data(), bytes}, errc::overlap);
  }
  refused(a.view, a.view, to, {workspace.data(), bytes}, errc::shape_mismatch);
  auto wrong = a.view;
  wrong.amax = {};
  refused(wrong, b.view, to, {workspace.data(), bytes}, errc::no_amax);
  // At any address.
  CHECK(device::gemm(a.view, b.view, to, {}, accumulate::blackwell{}, {workspace.data() + 1, bytes}) ==
        errc::ok);
  CHECK(same_bits(d.to_host(), c.oracle()));
}

TEST_CASE("device gemm blackwell: it can be captured, and gives the same bits again",
          "[device][gemm][blackwell]") {
  if (!gpu_or_warn()) return;
  gemm_case<nvfp4, swizzled_128x4, nvfp4, swizzled_128x4, bf16> c({300, 500, 1024});
  const device_gemm_operand<nvfp4, swizzled_128x4> a(c.a), b(c.b);
  const device_buffer<bf16> d(c.before);
  const i64 bytes = device::gemm_workspace_bytes(300, 500, 1024);
  const device_buffer<u8> workspace(bytes);
  cudaStream_t stream{};
  cudaGraph_t graph{};
  cudaGraphExec_t executable{};
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(device::gemm(a.view, b.view, c.view_of(d.data()), {}, accumulate::blackwell{},
                     {workspace.data(), bytes}, stream) == errc::ok);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  const std::vector<bf16> want = c.oracle();
  for (int i = 0; i < 20; ++i) {
    REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(same_bits(d.to_host(), want));
  }
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}
