// SPDX-License-Identifier: Apache-2.0
// Every conversion to and from FP8.
// sm_89: cvt.rn.satfinite.e4m3x2.f32
// sm_89: cvt.rn.satfinite.e5m2x2.f32
// sm_89: cvt.rn.satfinite.e4m3x2.f16x2
// sm_89: cvt.rn.satfinite.e5m2x2.f16x2
// sm_89: cvt.rn.f16x2.e4m3x2
// sm_89: cvt.rn.f16x2.e5m2x2
// sm_89 spills: 0
// sm_121a spills: 0
// sm_80 error: cvt_of_fp8_needs_sm_89_or_later
// sm_90a sass: F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C
// sm_90a sass: F2FP.F16.E4M3.UNPACK_B
// sm_100a sass: F2FP.F16.E4M3.UNPACK_B
#include <fourscale/ptx/cvt.hpp>

namespace ptx = fourscale::ptx;
using fourscale::u16;
using fourscale::u32;

__global__ void convert(float2 const* x, u16* to, u32 const* half, u16 const* from, u32* wide) {
  to[0] = ptx::cvt_rn_satfinite_e4m3x2_f32(x->x, x->y);
  to[1] = ptx::cvt_rn_satfinite_e5m2x2_f32(x->x, x->y);
  to[2] = ptx::cvt_rn_satfinite_e4m3x2_f16x2(*half);
  to[3] = ptx::cvt_rn_satfinite_e5m2x2_f16x2(*half);
  wide[0] = ptx::cvt_rn_f16x2_e4m3x2(*from);
  wide[1] = ptx::cvt_rn_f16x2_e5m2x2(*from);
}
