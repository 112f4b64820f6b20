// SPDX-License-Identifier: Apache-2.0
// Every conversion to and from E2M1, E2M3, E3M2 and UE8M0, assembled wherever it exists.
// sm_100a: cvt.rn.satfinite.e2m1x2.f32
// sm_100a: cvt.rn.satfinite.e2m3x2.f32
// sm_100a: cvt.rn.satfinite.e3m2x2.f32
// sm_100a: cvt.rp.satfinite.ue8m0x2.f32
// sm_100a: cvt.rz.satfinite.ue8m0x2.f32
// sm_100a: cvt.rp.satfinite.ue8m0x2.bf16x2
// sm_100a: cvt.rz.satfinite.ue8m0x2.bf16x2
// sm_100a: cvt.rn.f16x2.e2m1x2
// sm_100a: cvt.rn.f16x2.e2m3x2
// sm_100a: cvt.rn.f16x2.e3m2x2
// sm_100a: cvt.rn.bf16x2.ue8m0x2
// sm_100a spills: 0
// sm_100f spills: 0
// sm_103a spills: 0
// sm_110a spills: 0
// sm_120a spills: 0
// sm_121a spills: 0
// sm_90a error: cvt_of_4_and_6_bit_formats_needs_sm_100f_103f_110f_120f_or_121f
// sm_100 error: cvt_of_4_and_6_bit_formats_needs_sm_100f_103f_110f_120f_or_121f
// sm_100f sass: F2FP.F16.E2M1.UNPACK_B
// sm_100f sass: F2FP.SATFINITE.E8.F32.PACK_AB_MERGE_C.RP
// sm_100f sass: F2FP.BF16.E8.UNPACK_B
// sm_120a sass: F2FP.F16.E2M1.UNPACK_B
// sm_120a sass: F2FP.SATFINITE.E8.F32.PACK_AB_MERGE_C.RP
#include <fourscale/ptx/cvt.hpp>

namespace ptx = fourscale::ptx;
using fourscale::u16;
using fourscale::u32;

__global__ void convert(float2 const* x, u16* to, u32 const* half, u16 const* from, u32* wide) {
  to[0] = ptx::cvt_rn_satfinite_e2m1x2_f32(x->x, x->y);
  to[1] = ptx::cvt_rn_satfinite_e2m3x2_f32(x->x, x->y);
  to[2] = ptx::cvt_rn_satfinite_e3m2x2_f32(x->x, x->y);
  to[3] = ptx::cvt_rp_satfinite_ue8m0x2_f32(x->x, x->y);
  to[4] = ptx::cvt_rz_satfinite_ue8m0x2_f32(x->x, x->y);
  to[5] = ptx::cvt_rp_satfinite_ue8m0x2_bf16x2(*half);
  to[6] = ptx::cvt_rz_satfinite_ue8m0x2_bf16x2(*half);
  wide[0] = ptx::cvt_rn_f16x2_e2m1x2(*from);
  wide[1] = ptx::cvt_rn_f16x2_e2m3x2(*from);
  wide[2] = ptx::cvt_rn_f16x2_e3m2x2(*from);
  wide[3] = ptx::cvt_rn_bf16x2_ue8m0x2(*from);
}
