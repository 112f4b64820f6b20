// SPDX-License-Identifier: Apache-2.0
// Block-scaled mma.sync and ldmatrix on the RTX family; elsewhere a sentence, or nothing behind the guard.
// sm_120a: mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale
// sm_120a: kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3
// sm_120a: kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0
// sm_120a: mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale
// sm_120a: kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0
// sm_120a: mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale
// sm_120a: kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0
// sm_120a: kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e2m3.e3m2.f32.ue8m0
// sm_120a: kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e2m1.e5m2.f32.ue8m0
// sm_120a: ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64
// sm_120a spills: 0
// sm_120a registers: 48
// sm_120f spills: 0
// sm_121a spills: 0
// sm_90a: !mma.sync
// sm_90a spills: 0
// sm_100a: !mma.sync
// sm_100a spills: 0
// sm_100a -Dunguarded error: mma_sync_with_block_scale_needs_sm_120f_or_121f
// sm_120a sass: OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X
// sm_120a sass: OMMA.SF.16864.F32.E2M1.E2M1.E8
// sm_120a sass: QMMA.SF.16832.F32.E4M3.E4M3.E8
// sm_120a sass: LDSM
// sm_121a sass: OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X
#include <fourscale/ptx/ldmatrix.cuh>
#include <fourscale/ptx/mma_sync.cuh>

namespace f4 = fourscale;
namespace ptx = fourscale::ptx;

#if defined(unguarded)
#define guard true
#else
#define guard f4::arch::has_mma_block_scale
#endif

/// One after the other, each on the result of the one before.
__global__ void all_kinds(uint4 const* operands, float4* result, f4::u16 thread_id) {
  if constexpr (guard) {
    using enum ptx::element_type;
    __shared__ uint4 tile[32];
    const uint4 in = operands[threadIdx.x];
    tile[threadIdx.x] = in;
    __syncwarp();
    const f4::u32 row = ptx::shared_address(&tile[threadIdx.x]);
    f4::u32 a[4], padded[4], b[2] = {in.x, in.y};
    ptx::ldmatrix_m8n8_x4_b16(a, row);
    float d[4] = {};
    const ptx::scale_selector low{0, 1}, high{2, thread_id};
    ptx::mma_sync_m16n8k64_mxf4nvf4_4x_ue4m3(d, a, b, in.z, 1, in.w, 3);
    ptx::mma_sync_m16n8k64_mxf4nvf4_4x_ue4m3(d, a, b, in.z, 0, in.w, thread_id);
    ptx::mma_sync_m16n8k64_mxf4nvf4_2x_ue8m0(d, a, b, in.z, low, in.w, high);
    ptx::mma_sync_m16n8k64_mxf4_2x_ue8m0(d, a, b, in.z, high, in.w, low);
    ptx::mma_sync_m16n8k32_mxf8f6f4_1x_ue8m0<e4m3, e4m3>(d, a, b, in.z, {3, 1}, in.w, {1, 3});
    ptx::ldmatrix_m8n16_x4_b8x16_b4x16_p64(padded, row);
    ptx::mma_sync_m16n8k32_mxf8f6f4_1x_ue8m0<e2m3, e3m2>(d, padded, b, in.z, low, in.w, low);
    ptx::mma_sync_m16n8k32_mxf8f6f4_1x_ue8m0<e2m1, e5m2>(d, padded, b, in.z, low, in.w, low);
    result[threadIdx.x] = {d[0], d[1], d[2], d[3]};
  }
}
