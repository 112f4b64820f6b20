// SPDX-License-Identifier: Apache-2.0
// As kernels.cu: the GEMM by tcgen05, and that of its model.
#include <fourscale/device/gemm_tcgen05.cuh>
#include <fourscale/mma/tcgen05_model.cuh>

using namespace fourscale;
namespace tc = mma::tcgen05;

template <class F>
using operand = block_scaled_view<F, swizzled_128x4>;

bool tcgen05_kernels(operand<nvfp4> const& a, operand<mxfp8_e4m3> const& b, matrix_view<bf16> const& d) {
  return device::gemm_tcgen05(a, a, d) == errc::ok &&
         device::gemm_tcgen05<tc::hardware<1>, 128>(b, b, d) == errc::ok &&
         device::gemm_tcgen05<tc::model<2>>(a, a, d) == errc::ok;
}
