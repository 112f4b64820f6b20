// SPDX-License-Identifier: Apache-2.0
// Each operand arrives at its place: every one is a constant of its own here.
// sm_100f: tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [11], 64;
// sm_100f: tcgen05.dealloc.cta_group::1.sync.aligned.b32 12, 64;
// sm_100f: tcgen05.cp.cta_group::1.32x128b.warpx4 [13], 14;
// sm_100f: tcgen05.cp.cta_group::1.64x128b.warpx2::02_13 [13], 14;
// sm_100f: tcgen05.cp.cta_group::1.64x128b.warpx2::01_23 [13], 14;
// sm_100f: tcgen05.cp.cta_group::1.128x256b [13], 14;
// sm_100f: tcgen05.cp.cta_group::1.128x128b [13], 14;
// sm_100f: tcgen05.cp.cta_group::1.4x256b [13], 14;
// sm_100f: setp.ne.u32 p, 1, 0; tcgen05.mma.cta_group::1.kind::
// sm_100f: setp.ne.u32 p, 0, 0; tcgen05.mma.cta_group::1.kind::
// sm_100f: kind::mxf4nvf4.block_scale.block16 [21], 22, 23, 24, [25], [26], p;
// sm_100f: kind::mxf4nvf4.block_scale.block32 [31], 32, 33, 34, [35], [36], p;
// sm_100f: kind::mxf4.block_scale.block32 [41], 42, 43, 44, [45], [46], p;
// sm_100f: kind::mxf8f6f4.block_scale.block32 [51], 52, 53, 54, [55], [56], p;
// sm_100f: kind::mxf4nvf4.block_scale.block16 [61], [62], 63, 64, [65], [66], p;
// sm_100f: kind::mxf4nvf4.block_scale.block32 [71], [72], 73, 74, [75], [76], p;
// sm_100f: kind::mxf4.block_scale.block32 [81], [82], 83, 84, [85], [86], p;
// sm_100f: kind::mxf8f6f4.block_scale.block32 [91], [92], 93, 94, [95], [96], p;
// sm_100f: multicast::cluster.b64 [41], 42;
// sm_100f: tcgen05.st.sync.aligned.16x128b.x2.b32 [55], {51, 52, 53, 54};
// sm_100f: tcgen05.st.sync.aligned.16x32bx2.x4.b32 [56], 16, {51, 52, 53, 54};
// sm_100f: }, [57];
// sm_100f: }, [58], 8;
// sm_120a: {11, 12, 13, 14}, {15, 16}, {
// sm_120a: }, 17, {0, 1}, 18, {0, 3};
// sm_120a: }, 17, {2, 1}, 18, {0, 3};
// sm_120a: scale_vec::1X.f32.e4m3.e5m2.f32.ue8m0 {
// sm_120a: }, 17, {3, 1}, 18, {2, 0};
// sm_90a: cvt.rn.satfinite.e4m3x2.f32
// sm_90a: , 1, 2;
// sm_90a: , 4, 8;
// sm_100a: cvt.rn.satfinite.e2m1x2.f32 t, 1, 2; mov
// sm_100a: cvt.rn.satfinite.e2m1x2.f32 b0, 2, 1;
// sm_100a: cvt.rn.satfinite.e2m1x2.f32 b1, 8, 4;
// sm_100a: cvt.rn.satfinite.e2m1x2.f32 b2, 32, 16;
// sm_100a: cvt.rn.satfinite.e2m1x2.f32 b3, 128, 64;
// sm_100a: {1, 2, 4, 8}, 71;
// sm_100a: {1, 2, 4, 8}, 72;
// sm_100a: {1, 2, 4, 8}, 73;
// sm_100a: {1, 2, 4, 8}, 74;
// sm_100a: {1, 2, 4, 8}, 75;
// sm_100a: , 1, 2, 76;
// sm_100a: , 1, 2, 77;
// sm_100a: , 16, 32;
// sm_100a: , 64, 128;
// sm_100a: , 256, 512;
// sm_100a: , 1024, 2048;
#include <fourscale/ptx/cvt.hpp>
#include <fourscale/ptx/ldmatrix.cuh>
#include <fourscale/ptx/mma_sync.cuh>
#include <fourscale/ptx/tcgen05.cuh>
#include <fourscale/ptx/tcgen05_ld_st.cuh>

namespace f4 = fourscale;
namespace ptx = fourscale::ptx;

__global__ void tcgen05_operands() {
  if constexpr (f4::arch::has_tcgen05) {
    ptx::tcgen05_alloc<1>(11, 64);
    ptx::tcgen05_dealloc<1>(12, 64);
    ptx::tcgen05_cp_32x128b_warpx4<1>(13, 14);
    ptx::tcgen05_cp_64x128b_warpx2_02_13<1>(13, 14);
    ptx::tcgen05_cp_64x128b_warpx2_01_23<1>(13, 14);
    ptx::tcgen05_cp_128x256b<1>(13, 14);
    ptx::tcgen05_cp_128x128b<1>(13, 14);
    ptx::tcgen05_cp_4x256b<1>(13, 14);
    ptx::tcgen05_mma_mxf4nvf4_block16<1>(21, 22, 23, 24, 25, 26, true);
    ptx::tcgen05_mma_mxf4nvf4_block32<1>(31, 32, 33, 34, 35, 36, true);
    ptx::tcgen05_mma_mxf4_block32<1>(41, 42, 43, 44, 45, 46, true);
    ptx::tcgen05_mma_mxf8f6f4_block32<1>(51, 52, 53, 54, 55, 56, true);
    ptx::tcgen05_mma_mxf4nvf4_block16_tmem_a<1>(61, 62, 63, 64, 65, 66, false);
    ptx::tcgen05_mma_mxf4nvf4_block32_tmem_a<1>(71, 72, 73, 74, 75, 76, false);
    ptx::tcgen05_mma_mxf4_block32_tmem_a<1>(81, 82, 83, 84, 85, 86, false);
    ptx::tcgen05_mma_mxf8f6f4_block32_tmem_a<1>(91, 92, 93, 94, 95, 96, false);
    ptx::tcgen05_commit_multicast<1>(41, 42);
    const f4::u32 r[4] = {51, 52, 53, 54};
    ptx::tcgen05_st_16x128b(55, r);
    ptx::tcgen05_st_16x32bx2<16>(56, r);
    f4::u32 s[2];
    ptx::tcgen05_ld_16x128b(s, 57);
    ptx::tcgen05_ld_16x32bx2<8>(s, 58);
  }
}

__global__ void mma_sync_operands(float* out) {
  if constexpr (f4::arch::has_mma_block_scale) {
    using enum ptx::element_type;
    const f4::u32 a[4] = {11, 12, 13, 14}, b[2] = {15, 16};
    float d[4] = {};
    ptx::mma_sync_m16n8k64_mxf4nvf4_4x_ue4m3(d, a, b, 17, 1, 18, 3);
    ptx::mma_sync_m16n8k64_mxf4_2x_ue8m0(d, a, b, 17, {2, 1}, 18, {0, 3});
    ptx::mma_sync_m16n8k32_mxf8f6f4_1x_ue8m0<e4m3, e5m2>(d, a, b, 17, {3, 1}, 18, {2, 0});
    *out = d[0] + d[1] + d[2] + d[3];
  }
}

__global__ void cvt_operands(unsigned* out) {
  if constexpr (f4::arch::has_cvt_fp8) {
    out[0] = ptx::cvt_rn_satfinite_e4m3x2_f32(1.0f, 2.0f);
    out[14] = ptx::cvt_rn_satfinite_e5m2x2_f32(4.0f, 8.0f);
  }
  if constexpr (f4::arch::has_cvt_narrow) {
    const float x[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    out[1] = ptx::cvt_rn_satfinite_e2m1x2_f32(1.0f, 2.0f);
    out[2] = ptx::cvt_rn_satfinite_e2m1x8_f32(x);
    out[3] = ptx::cvt_rz_satfinite_ue8m0x2_f32(16.0f, 32.0f);
    out[11] = ptx::cvt_rp_satfinite_ue8m0x2_f32(64.0f, 128.0f);
    out[12] = ptx::cvt_rn_satfinite_e2m3x2_f32(256.0f, 512.0f);
    out[13] = ptx::cvt_rn_satfinite_e3m2x2_f32(1024.0f, 2048.0f);
  }
  if constexpr (f4::arch::has_cvt_rs) {
    out[4] = ptx::cvt_rs_satfinite_e2m1x4_f32(1.0f, 2.0f, 4.0f, 8.0f, 71);
    out[5] = ptx::cvt_rs_satfinite_e4m3x4_f32(1.0f, 2.0f, 4.0f, 8.0f, 72);
    out[6] = ptx::cvt_rs_satfinite_e5m2x4_f32(1.0f, 2.0f, 4.0f, 8.0f, 73);
    out[7] = ptx::cvt_rs_satfinite_e2m3x4_f32(1.0f, 2.0f, 4.0f, 8.0f, 74);
    out[8] = ptx::cvt_rs_satfinite_e3m2x4_f32(1.0f, 2.0f, 4.0f, 8.0f, 75);
    out[9] = ptx::cvt_rs_bf16x2_f32(1.0f, 2.0f, 76);
    out[10] = ptx::cvt_rs_f16x2_f32(1.0f, 2.0f, 77);
  }
}
