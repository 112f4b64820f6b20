// SPDX-License-Identifier: Apache-2.0
// device::gemm_mma_sync: codes by cp.async and ldmatrix, sums in registers, nothing spilled. A pass
// without the instruction gets an empty kernel, which gemm_mma_sync() then reports.
//
// sm_120a: kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3
// sm_120a: kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0
// sm_120a: kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e5m2.f32.ue8m0
// sm_120a: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// sm_120a: cp.async.cg.shared.global
// sm_120a: cp.async.wait_all
// sm_120a spills: 0
// sm_120a registers: 255
// sm_120a smem: 49152
// sm_121a spills: 0
// sm_121a registers: 255
// sm_121a smem: 49152
// sm_90a: !mma.sync
// sm_90a registers: 8
// sm_100a: !mma.sync
// sm_100a registers: 8
// sm_120a sass: OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X
// sm_120a sass: OMMA.SF.16864.F32.E2M1.E2M1.E8
// sm_120a sass: QMMA.SF.16832.F32.E4M3.E5M2.E8
// sm_120a sass: LDSM.16.M88.4
// sm_120a sass: LDGSTS.E.BYPASS.128.ZFILL
// sm_120a sass: !LDL
// sm_120a sass: !STL
// sm_121a sass: OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X
// sm_121a sass: QMMA.SF.16832.F32.E4M3.E5M2.E8
#include <fourscale/device/gemm_mma_sync.cuh>

namespace f4 = fourscale;

template <class F, class G, class Layout, class T>
f4::errc gemm(f4::u8* p, T* d) {
  const f4::block_scaled_view<F, Layout> a{p, p, 128, 128};
  const f4::block_scaled_view<G, Layout> b{p, p, 128, 128};
  return f4::device::gemm_mma_sync(a, b, f4::matrix_view<T>{d, 128, 128});
}
template f4::errc gemm<f4::nvfp4, f4::nvfp4, f4::swizzled_128x4>(f4::u8*, f4::bf16*);
template f4::errc gemm<f4::nvfp4, f4::nvfp4, f4::linear>(f4::u8*, float*);
template f4::errc gemm<f4::mxfp4, f4::mxfp4, f4::swizzled_128x4>(f4::u8*, f4::bf16*);
template f4::errc gemm<f4::mxfp8_e4m3, f4::mxfp8_e5m2, f4::swizzled_128x4>(f4::u8*, f4::bf16*);
