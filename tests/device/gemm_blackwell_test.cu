// SPDX-License-Identifier: Apache-2.0
// Blackwell's bits on tensor cores that know bf16 only, compared with the chained model: every bit of D, what
// lies around it, and how the steps were added. Of NVFP4 to bf16 and FP32: gemm_blackwell_types_test.cu has
// the other types.
#include <deque>
#include <fourscale/device/explain_gemm.cuh>
#include <string>

#include "mma/gemm_blackwell_cases.cuh"
#include "mma/gemm_calls.cuh"

using namespace fourscale;
using namespace fourscale::test;

TEST_CASE("device gemm blackwell: each shape with any codes", "[device][gemm][blackwell]") {
  check_shapes<blackwell_gemm>();
}

TEST_CASE("device gemm blackwell: NVFP4, each shape with each kind of data",
          "[device][gemm][blackwell][large]") {
  check_table<blackwell_gemm, nvfp4>();
}

TEST_CASE("device gemm blackwell: scales that begin at any address", "[device][gemm][blackwell]") {
  check_scale_addresses<blackwell_gemm>();
}

TEST_CASE("device gemm blackwell: many tiles", "[device][gemm][blackwell]") {
  check_many_tiles<blackwell_gemm>();
}

TEST_CASE("device gemm blackwell: D as each way to store it takes it", "[device][gemm][blackwell]") {
  check_outputs<blackwell_gemm, bf16, float>();
}

TEST_CASE("device gemm blackwell: steps that no certificate proves, among others",
          "[device][gemm][blackwell]") {
  check_hard_steps<blackwell_gemm>();
}

TEST_CASE("device gemm blackwell: all scales, NaN among them", "[device][gemm][blackwell]") {
  check_all_scales<blackwell_gemm>();
}

TEST_CASE("device gemm blackwell: kinds of data, and how their steps are added",
          "[device][gemm][blackwell]") {
  check_kinds<blackwell_gemm>();
}

TEST_CASE("device gemm blackwell: the lowest bits that the certificate allows", "[device][gemm][blackwell]") {
  check_lowest_bits<blackwell_gemm>();
}

TEST_CASE("device gemm blackwell: large, compared with the CPU's", "[device][gemm][blackwell][large]") {
  check_large<blackwell_gemm>();
}

TEST_CASE("device gemm blackwell: so large that Hopper's kernel certifies ahead, compared with sm_80's",
          "[device][gemm][blackwell][large]") {
  if (!gpu_or_warn()) return;
  constexpr i64 m = 8250, n = 8200, k = 4096;
  static_assert(mma::wgmma::certifies_ahead(m, n, k / mma::decoded_step, true));
  for (const kind what : {kind::student_2, kind::channels_50}) {
    INFO(name_of(what));
    auto c = nvfp4_case(repeated(operand<nvfp4, linear>(what, 600, k, 1), m),
                        repeated(operand<nvfp4, linear>(kind::student_2, 700, k, 2), n));
    gemm_steps steps;
    CHECK(same_bits(c.on_device(blackwell_gemm{&steps}), c.on_device(bf16_gemm{})));
    CHECK(steps.in_f32 + steps.in_double + steps.by_model == m * n * k / 64);
    CHECK(steps.in_f32 < m * n * k / 64);  // there are some that nothing certifies
  }
}

TEST_CASE("device gemm: each device has its kernel", "[device][gemm][blackwell]") {
  using device::gemm_kernel, device::detail::best_kernel;
  CHECK(best_kernel(8, true) == gemm_kernel::bf16);
  CHECK(best_kernel(9, false) == gemm_kernel::wgmma);
  CHECK(best_kernel(10, true) == gemm_kernel::tcgen05);
  CHECK(best_kernel(10, false) == gemm_kernel::bf16);
  CHECK(best_kernel(11, true) == gemm_kernel::tcgen05);
  CHECK(best_kernel(12, false) == gemm_kernel::mma_sync);
}

TEST_CASE("explain_gemm: the kernel of this device", "[device][gemm][explain]") {
  const auto operand = [](u64 at) {  // nothing is read
    return block_scaled_view<nvfp4, linear>{reinterpret_cast<u8*>(at), reinterpret_cast<u8*>(at + (1u << 30)),
                                            256, 256, amax_in(reinterpret_cast<float const*>(u64{1} << 50))};
  };
  const auto a = operand(u64{1} << 40), b = operand(u64{2} << 40);
  const matrix_view<float> d{reinterpret_cast<float*>(u64{3} << 40), 256, 256, 256};
  const explanation why = device::explain_gemm(a, b, d);
  if (device::detail::compute_capability_major() == 0) {
    CHECK(why.error == errc::cuda_failed);
    return;
  }
  CHECK(why.error == errc::ok);
  CHECK(std::string(why.kernel) == device::explain_gemm(device::kernel_of_gemm(a, b, d), a, b, d).kernel);
  CHECK_FALSE(why.says(notes::gemm_not_compiled));
  // MXFP6 by MXFP8 has no kernel of sm_90a, and sm_80's for bf16 is not for it.
  const auto mx = [](auto format, u64 at) {
    return block_scaled_view<decltype(format), linear>{reinterpret_cast<u8*>(at),
                                                       reinterpret_cast<u8*>(at + (1u << 30)), 256, 256};
  };
  const explanation of_32 =
      device::explain_gemm(mx(mxfp6_e2m3{}, u64{1} << 40), mx(mxfp8_e4m3{}, u64{2} << 40), d);
  CHECK(of_32.error == errc::ok);
  CHECK_FALSE(of_32.says(notes::gemm_not_compiled));
}

TEST_CASE("device gemm blackwell: sizes that no GEMM has need no workspace", "[device][gemm][blackwell]") {
  constexpr i64 limit = i64{1} << 31;
  for (const i64 none : {i64{0}, i64{-64}, limit}) {
    CHECK(device::gemm_workspace_bytes(none, 256, 256) == 0);
    CHECK(device::gemm_workspace_bytes(256, none, 256) == 0);
    CHECK(device::gemm_workspace_bytes(256, 256, none) == 0);
  }
  CHECK(device::gemm_workspace_bytes(limit - 1, limit - 1, 16) == 0);  // D would be no matrix
  CHECK(device::gemm_workspace_bytes(1, 1, 16) > 0);
}

TEST_CASE("device gemm blackwell: more values along K never need less workspace",
          "[device][gemm][blackwell]") {
  constexpr i64 certified = i64{1} << 27;  // up to where steps have certificates
  CHECK(device::gemm_workspace_bytes(32, 32, certified) >
        device::gemm_workspace_bytes(32, 32, certified - 64));
}

TEST_CASE("device gemm blackwell: more than kernels count is refused before anything is launched",
          "[device][gemm][blackwell]") {
  const auto at = [](u64 x) { return reinterpret_cast<u8*>(x << 40); };  // nothing is read
  constexpr i64 many = i64{1} << 30;
  const auto state = [&](i64 m, i64 n, i64 k) {
    const block_scaled_view<nvfp4, linear> a{at(1), at(2), m, k, amax_value(1.0f)},
        b{at(3), at(4), n, k, amax_value(1.0f)};
    const matrix_view<float> d{reinterpret_cast<float*>(at(5)), m, n};
    return device::detail::bf16_call<nvfp4, linear, nvfp4, linear, float>(a, b, d, {}, at(6), nullptr).state;
  };
  CHECK(state(16, 16, many) == errc::too_large);
  CHECK(state(16, many, 16) == errc::too_large);
  CHECK(state(many, 16, 16) == errc::too_large);
  CHECK(state(16, many - 64, 64) == errc::ok);
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

TEST_CASE("device gemm blackwell: GEMMs one behind the other share a workspace, in three streams",
          "[device][gemm][blackwell]") {
  if (!gpu_or_warn()) return;
  constexpr u64 streams = 3, count = 60;
  struct queued {
    gemm_case<nvfp4, linear, nvfp4, linear, float> c;
    device_gemm_operand<nvfp4, linear> a{c.a}, b{c.b};
    device_buffer<float> d{c.before};

    explicit queued(u64 seed) : c(random_gemm<nvfp4, nvfp4, linear, float>(seed, 1500, 2048)) {}
  };
  std::deque<queued> all;
  i64 bytes = 0;
  for (u64 seed = 0; seed < count; ++seed) {
    gemm_options const& o = all.emplace_back(seed).c.o;
    bytes = std::max(bytes, device::gemm_workspace_bytes(o.m, o.n, o.k));
  }
  const device_buffer<u8> workspace(streams * bytes);
  std::vector<cudaStream_t> stream(streams);
  for (cudaStream_t& s : stream) REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  for (size_t i = 0; i < count; ++i) {
    queued const& q = all[i];
    REQUIRE(device::gemm(q.a.view, q.b.view, q.c.view_of(q.d.data()), q.c.o.factors, accumulate::blackwell{},
                         {workspace.data() + static_cast<i64>(i % streams) * bytes, bytes},
                         stream[i % streams]) == errc::ok);
  }
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  for (u64 i = 0; i < count; ++i) {
    INFO("seed " << i);
    CHECK(same_bits(all[i].d.to_host(), all[i].c.on_host(cpu_gemm{})));
  }
  for (const cudaStream_t s : stream) CHECK(cudaStreamDestroy(s) == cudaSuccess);
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
