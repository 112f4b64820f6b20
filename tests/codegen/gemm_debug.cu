// SPDX-License-Identifier: Apache-2.0
// Where dynamic shared memory begins in a debug build: behind the kernel's own, which is therefore whole KiB.
// TMA and wgmma need that, and nvcc aligns it so by itself in optimised code alone. Contraction: see
// contraction.cu.
// sm_90a smem_step: 1024
// sm_90a contractible: 0
// sm_90a -G smem_step: 1024
// sm_100a smem_step: 1024
// sm_100a contractible: 0
// sm_100a -G smem_step: 1024
#include <fourscale/device/gemm_tcgen05.cuh>
#include <fourscale/device/gemm_wgmma.cuh>

namespace f4 = fourscale;
using matrix = f4::block_scaled_view<f4::nvfp4, f4::linear, f4::u8 const>;
using swizzled_matrix = f4::block_scaled_view<f4::nvfp4, f4::swizzled_128x4, f4::u8 const>;

f4::errc by_wgmma(matrix const& a, f4::matrix_view<float> const& d, void* workspace) {
  const f4::device::detail::wgmma_call<f4::nvfp4, f4::linear, f4::nvfp4, f4::linear, float> call(
      a, a, d, {}, workspace, nullptr);
  return call.multiply(nullptr);
}
f4::errc by_tcgen05(swizzled_matrix const& a, f4::matrix_view<float> const& d) {
  return f4::device::gemm_tcgen05(a, a, d, {});
}
