// SPDX-License-Identifier: Apache-2.0
// As kernels.cu: the GEMM with Blackwell's bits, by whatever the device has.
#include <fourscale/device/gemm.cuh>

using namespace fourscale;

template <class F, class Layout>
using operand = block_scaled_view<F, Layout>;

bool gemm_kernels(operand<nvfp4, swizzled_128x4> const& a, operand<nvfp4, linear> const& b,
                  matrix_view<bf16> const& d, device::gemm_workspace workspace) {
  return device::gemm(a, b, d, {}, accumulate::blackwell{}, workspace) == errc::ok;
}
