// SPDX-License-Identifier: Apache-2.0
// As kernels.cu: the GEMM by whatever the device has, with Blackwell's bits and within a bound; that by
// tcgen05, and that of its model. And every header of the library, for each architecture.
#include "every_header.cuh"  // written by CMakeLists.txt

using namespace fourscale;
namespace tc = mma::tcgen05;

template <class F, class Layout>
using operand = block_scaled_view<F, Layout>;

bool gemm_kernels(operand<nvfp4, swizzled_128x4> const& a, operand<nvfp4, linear> const& b,
                  matrix_view<bf16> const& d, device::gemm_workspace workspace) {
  return device::gemm(a, b, d, {}, accumulate::blackwell{}, workspace) == errc::ok;
}

bool mx_gemm_kernels(operand<mxfp8_e4m3, swizzled_128x4> const& a, operand<mxfp6_e2m3, linear> const& b,
                     matrix_view<bf16> const& d, device::gemm_workspace workspace) {
  return device::gemm(a, b, d, {}, accumulate::blackwell{}, workspace) == errc::ok &&
         device::gemm(b, a, d, {}, accumulate::blackwell{}, workspace) == errc::ok;
}

/// A library that does nothing: only our own part of such a call is compiled.
struct idle_plan {
  static constexpr i64 workspace_bytes = 0;
  bool is_for(matrix_view<bf16> const&, i64) const { return true; }
  errc multiply(mma::decoded_operand const&, mma::decoded_operand const&, matrix_view<bf16> const&,
                gemm_factors const*, u8*, cudaStream_t) const {
    return errc::ok;
  }
};

bool native_gemm_kernels(operand<nvfp4, swizzled_128x4> const& a, operand<nvfp4, linear> const& b,
                         matrix_view<bf16> const& d, device::gemm_workspace workspace,
                         idle_plan const& plan) {
  return device::gemm(a, b, d, {}, accumulate::native{&plan}, workspace) == errc::ok;
}

bool native_mx_kernels(operand<mxfp8_e5m2, swizzled_128x4> const& a, operand<mxfp6_e2m3, linear> const& b,
                       matrix_view<bf16> const& d, device::gemm_workspace workspace) {
  return device::gemm(a, b, d, {}, accumulate::native{}, workspace) == errc::ok;
}

bool fp8_kernels(operand<fp8_e5m2, linear> const& a, operand<fp8_e4m3, linear> const& b,
                 operand<fp8_block_e4m3, linear> const& x, matrix_view<bf16> const& d) {
  return device::gemm_fp8(a, b, d) == errc::ok && device::gemm_fp8(x, x, d) == errc::ok;
}

bool weight_only_kernels(matrix_view<bf16 const> const& x, operand<nvfp4, swizzled_128x4> const& w,
                         matrix_view<bf16> const& d) {
  return device::gemm_weight_only(x, w, d) == errc::ok;
}

bool tcgen05_kernels(operand<nvfp4, swizzled_128x4> const& a, operand<mxfp8_e4m3, swizzled_128x4> const& b,
                     matrix_view<bf16> const& d) {
  return device::gemm_tcgen05(a, a, d) == errc::ok &&
         device::gemm_tcgen05<tc::hardware<1>, 128>(b, b, d) == errc::ok &&
         device::gemm_tcgen05<tc::hardware<2, 2>>(a, a, d) == errc::ok &&
         device::gemm_tcgen05<tc::model<2>>(a, a, d) == errc::ok &&
         device::gemm_tcgen05<tc::model<2, 2>>(a, a, d) == errc::ok;
}
