// SPDX-License-Identifier: Apache-2.0
// The FP8 GEMM on Hopper: between the products of a group and those of the next one stand 96 additions for
// each thread, and little else. Of a run of four groups, for tiles of 192 columns and of 128.
//
// sm_90a: wgmma.mma_async.sync.aligned.m64n192k32.f32.e4m3.e4m3
// sm_90a: wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3
// sm_90a spills: 0
// sm_90a sass: QGMMA.64x192x32.F32.E4M3.E4M3
// sm_90a sass: UTMALDG.2D.MULTICAST
// sm_90a after_wgmma: 8
// sm_90a after_wgmma: !R2UR
// sm_90a after_wgmma: !LDL
// sm_90a after_wgmma: !STL
#include <fourscale/device/gemm_fp8.cuh>

using namespace fourscale;

errc by_fp8(block_scaled_view<fp8_e4m3, linear, u8 const> a, block_scaled_view<fp8_e4m3, linear, u8 const> b,
            matrix_view<bf16> d) {
  return device::gemm_fp8(a, b, d);
}
