// SPDX-License-Identifier: Apache-2.0
// accumulate::native by the library's own kernels: within the bound of the exact product. Of NVFP4 to bf16
// and FP32: gemm_native_types_test.cu has the other types.
#include "mma/gemm_native_cases.cuh"

using namespace fourscale;
using namespace fourscale::test;

TEST_CASE("device gemm native: shapes", "[device][gemm][native]") { check_native_shapes<native_gemm>(); }

TEST_CASE("device gemm native: kinds of data", "[device][gemm][native]") {
  check_native_kinds<native_gemm>();
}

TEST_CASE("device gemm native: all scales, NaN among them", "[device][gemm][native]") {
  check_native_scales<native_gemm>();
}

TEST_CASE("device gemm native: drawn at random", "[device][gemm][native]") {
  check_random_native<native_gemm, nvfp4, nvfp4, linear, float>(40, 1000);
  check_random_native<native_gemm, nvfp4, nvfp4, swizzled_128x4, bf16>(40, 1000);
}

TEST_CASE("device gemm native: beta = 0 reads no D", "[device][gemm][native]") {
  check_native_reads_no_d<native_gemm>();
}

TEST_CASE("device gemm native: broken rules are refused and D stays as it was", "[device][gemm][native]") {
  if (!gpu_or_warn()) return;
  const gemm_case<nvfp4, linear, nvfp4, linear, float> c({30, 20, 64});
  const device_gemm_operand<nvfp4, linear> a(c.a), b(c.b);
  const device_buffer<float> d(c.before);
  const i64 bytes = device::gemm_workspace_bytes(30, 20, 64, accumulate::native{});
  const device_buffer<u8> workspace(bytes);
  const matrix_view<float> to = c.view_of(d.data());
  auto amax_in_workspace = b.view;
  amax_in_workspace.amax = amax_in(reinterpret_cast<float const*>(workspace.data()));
  const auto refused = [&](auto const& y, device::gemm_workspace w, errc e) {
    CHECK(device::gemm(a.view, y, to, {}, accumulate::native{}, w) == e);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(same_bits(d.to_host(), c.before));
  };
  refused(a.view, {workspace.data(), bytes}, errc::shape_mismatch);
  if (device::kernel_of_gemm(a.view, b.view, to) != device::gemm_kernel::wgmma) return;
  refused(b.view, {workspace.data(), bytes - 1}, errc::no_workspace);
  refused(b.view, {d.data(), bytes}, errc::overlap);
  refused(amax_in_workspace, {workspace.data(), bytes}, errc::overlap);
}
