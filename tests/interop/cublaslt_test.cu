// SPDX-License-Identifier: Apache-2.0
// accumulate::native by cuBLASLt: within the bound of the exact product, whichever of its kernels it takes;
// where it cannot multiply, the library's own kernels do.
#include "cublaslt_handle.cuh"
#include "mma/gemm_native_cases.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// device::gemm by the fastest plan, which is made on a D of its own, to be handed to a gemm_case.
struct cublaslt_gemm {
  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    const cublaslt_handle lt;
    interop::cublaslt_plan plan;
    const i64 bytes = device::gemm_workspace_bytes(a.rows, b.rows, a.cols, accumulate::native{&plan});
    const device_buffer<u8> workspace(bytes);
    const device_buffer<T> other(d.extent());
    REQUIRE(device::plan_native(lt.handle, a, b, matrix_view<T>{other.data(), d.rows, d.cols, d.ld},
                                {workspace.data(), bytes}, plan) == errc::ok);
    const errc e = device::gemm(a, b, d, factors, accumulate::native{&plan}, {workspace.data(), bytes});
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    return e;
  }
};

using nvfp4_case = gemm_case<nvfp4, linear, nvfp4, linear, float>;

/// Operands, D and a workspace on the device.
struct cublaslt_fixture {
  cublaslt_handle lt;
  nvfp4_case c;
  device_gemm_operand<nvfp4, linear> a, b;
  device_buffer<float> d;
  i64 bytes;
  device_buffer<u8> memory;
  interop::cublaslt_plan plan;

  explicit cublaslt_fixture(gemm_options const& o)
      : c(o),
        a(c.a),
        b(c.b),
        d(c.before),
        bytes(device::gemm_workspace_bytes(o.m, o.n, o.k, accumulate::native{&plan})),
        memory(bytes) {}
  matrix_view<float> to() const { return c.view_of(d.data()); }
  device::gemm_workspace workspace() const { return {memory.data(), bytes}; }
  errc make_plan(matrix_view<float> const& on) {
    return device::plan_native(lt.handle, a.view, b.view, on, workspace(), plan);
  }
  errc run(matrix_view<float> const& on, device::gemm_workspace w, cudaStream_t stream = nullptr) const {
    const errc e = device::gemm(a.view, b.view, on, c.o.factors, accumulate::native{&plan}, w, stream);
    if (stream == nullptr) REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    return e;
  }
};

}  // namespace

TEST_CASE("cublaslt: shapes", "[interop][cublaslt]") { check_native_shapes<cublaslt_gemm>(); }

TEST_CASE("cublaslt: kinds of data", "[interop][cublaslt]") { check_native_kinds<cublaslt_gemm>(); }

TEST_CASE("cublaslt: all scales, NaN among them", "[interop][cublaslt]") {
  check_native_scales<cublaslt_gemm>();
}

TEST_CASE("cublaslt: beta = 0 reads no D", "[interop][cublaslt]") {
  check_native_reads_no_d<cublaslt_gemm>();
}

TEST_CASE("cublaslt: every kernel that the heuristics name is within the bound, into bf16 too",
          "[interop][cublaslt]") {
  if (!gpu_or_warn()) return;
  const cublaslt_handle lt;
  // Few outputs and a long K: cuBLASLt cuts it.
  gemm_case<nvfp4, linear, nvfp4, linear, bf16> c({64, 96, 16384, {1.5f, 0.5f}});
  const device_gemm_operand<nvfp4, linear> a(c.a), b(c.b);
  const i64 bytes = device::gemm_workspace_bytes(64, 96, 16384, accumulate::native<interop::cublaslt_plan>{});
  const device_buffer<u8> workspace(bytes);
  interop::cublaslt_plan plans[interop::cublaslt_plan::most_candidates];
  const device_buffer<bf16> some(c.before);
  const int count = interop::cublaslt_plan::candidates(lt.handle, c.view_of(some.data()), 16384, plans);
  REQUIRE(count > 0);
  for (int i = 0; i < count; ++i) {
    INFO("candidate " << i << " of " << count);
    const device_buffer<bf16> d(c.before);
    CHECK(device::gemm(a.view, b.view, c.view_of(d.data()), c.o.factors, accumulate::native{plans + i},
                       {workspace.data(), bytes}) == errc::ok);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    check_within_bound(c, d.to_host());
  }
}

TEST_CASE("cublaslt: D at an odd address, with odd distances between rows", "[interop][cublaslt]") {
  if (!gpu_or_warn()) return;
  cublaslt_fixture f({61, 37, 192, {1.0f, 0.5f}, 4});
  const matrix_view<float> odd{f.d.data() + 1, 61, 37, 41};
  REQUIRE(f.make_plan(odd) == errc::ok);
  REQUIRE(cudaMemcpy(f.d.data() + 1, f.c.before.data(), (f.c.before.size() - 1) * sizeof(float),
                     cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(f.run(odd, f.workspace()) == errc::ok);
  std::vector<float> got = f.d.to_host();
  got.erase(got.begin());
  got.push_back(f.c.before.back());
  check_within_bound(f.c, got);
}

TEST_CASE("cublaslt: broken rules are refused and D stays as it was", "[interop][cublaslt]") {
  if (!gpu_or_warn()) return;
  cublaslt_fixture f({32, 24, 128, {}, 1});
  const auto refused = [&](matrix_view<float> const& to, device::gemm_workspace w, errc e) {
    CHECK(f.run(to, w) == e);
    CHECK(same_bits(f.d.to_host(), f.c.before));
  };
  CHECK(device::plan_native(f.lt.handle, f.a.view, f.a.view, f.to(), f.workspace(), f.plan) ==
        errc::shape_mismatch);
  CHECK(device::plan_native(f.lt.handle, f.a.view, f.b.view, f.to(), {f.memory.data(), f.bytes - 1},
                            f.plan) == errc::no_workspace);
  CHECK(device::plan_native(nullptr, f.a.view, f.b.view, f.to(), f.workspace(), f.plan) ==
        errc::null_pointer);
  refused(f.to(), f.workspace(), errc::other_plan);  // none of these made one
  REQUIRE(f.make_plan(f.to()) == errc::ok);
  REQUIRE(cudaMemcpy(f.d.data(), f.c.before.data(), f.c.before.size() * sizeof(float),
                     cudaMemcpyHostToDevice) == cudaSuccess);
  matrix_view<float> wider = f.to();
  wider.ld = 26;
  refused(wider, f.workspace(), errc::other_plan);
  refused({f.d.data() + 1, 32, 24, 25}, f.workspace(), errc::other_plan);
  CHECK(device::gemm(f.a.view, f.b.view, f.to(), {}, accumulate::native<interop::cublaslt_plan>{},
                     f.workspace()) == errc::null_pointer);
  if (device::kernel_of_gemm(f.a.view, f.b.view, f.to()) == device::gemm_kernel::wgmma) {
    refused(f.to(), {f.memory.data(), f.bytes - 1}, errc::no_workspace);
    refused(f.to(), {f.d.data(), f.bytes}, errc::overlap);
  }
  CHECK(f.run(f.to(), f.workspace()) == errc::ok);
  check_within_bound(f.c, f.d.to_host());
}

TEST_CASE("cublaslt: it can be captured, and gives the same bits again", "[interop][cublaslt]") {
  if (!gpu_or_warn()) return;
  cublaslt_fixture f({300, 500, 1024});
  REQUIRE(f.make_plan(f.to()) == errc::ok);
  CHECK(f.run(f.to(), f.workspace()) == errc::ok);
  const std::vector<float> want = f.d.to_host();
  cudaStream_t stream{};
  cudaGraph_t graph{};
  cudaGraphExec_t executable{};
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(f.run(f.to(), f.workspace(), stream) == errc::ok);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(cudaMemset(f.d.data(), poison, f.c.before.size() * sizeof(float)) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    const std::vector<float> got = f.d.to_host();
    CHECK(std::memcmp(got.data(), want.data(), 300 * 500 * sizeof(float)) == 0);
  }
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}
