// SPDX-License-Identifier: Apache-2.0
// Stochastic rounding is an instruction on two targets and a sentence on all others, families included.
// sm_100a: cvt.rs.satfinite.e2m1x4.f32
// sm_100a: cvt.rs.satfinite.e4m3x4.f32
// sm_100a: cvt.rs.satfinite.e5m2x4.f32
// sm_100a: cvt.rs.satfinite.e2m3x4.f32
// sm_100a: cvt.rs.satfinite.e3m2x4.f32
// sm_100a: cvt.rs.bf16x2.f32
// sm_100a: cvt.rs.f16x2.f32
// sm_100a spills: 0
// sm_103a spills: 0
// sm_100f error: cvt_rs_needs_sm_100a_or_sm_103a
// sm_110a error: cvt_rs_needs_sm_100a_or_sm_103a
// sm_120a error: cvt_rs_needs_sm_100a_or_sm_103a
// sm_100a sass: F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C.RS
// sm_100a sass: F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C.RS
// sm_100a sass: F2FP.BF16.F32.PACK_AB.RS
// sm_100a sass: F2FP.F16.F32.PACK_AB.RS
// sm_103a sass: F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C.RS
#include <fourscale/ptx/cvt.hpp>

namespace ptx = fourscale::ptx;

__global__ void convert(float4 const* v, unsigned const* random, unsigned* to) {
  const float4 x = *v;
  to[0] = ptx::cvt_rs_satfinite_e2m1x4_f32(x.x, x.y, x.z, x.w, *random);
  to[1] = ptx::cvt_rs_satfinite_e4m3x4_f32(x.x, x.y, x.z, x.w, *random);
  to[2] = ptx::cvt_rs_satfinite_e5m2x4_f32(x.x, x.y, x.z, x.w, *random);
  to[3] = ptx::cvt_rs_satfinite_e2m3x4_f32(x.x, x.y, x.z, x.w, *random);
  to[4] = ptx::cvt_rs_satfinite_e3m2x4_f32(x.x, x.y, x.z, x.w, *random);
  to[5] = ptx::cvt_rs_bf16x2_f32(x.x, x.y, *random);
  to[6] = ptx::cvt_rs_f16x2_f32(x.x, x.y, *random);
}
