// SPDX-License-Identifier: Apache-2.0
// encode<e2m1> is one instruction where that exists, and software elsewhere: plain sm_100 has none.
// sm_90a: !cvt.rn.satfinite.e2m1x2.f32
// sm_100: !cvt.rn.satfinite.e2m1x2.f32
// sm_100a: cvt.rn.satfinite.e2m1x2.f32
// sm_100f: cvt.rn.satfinite.e2m1x2.f32
// sm_103a: cvt.rn.satfinite.e2m1x2.f32
// sm_110a: cvt.rn.satfinite.e2m1x2.f32
// sm_120a: cvt.rn.satfinite.e2m1x2.f32
// sm_121a: cvt.rn.satfinite.e2m1x2.f32
// sm_90a sass: !E2M1
// sm_100a sass: F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C
// sm_100f sass: F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C
// sm_103a sass: F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C
// sm_110a sass: F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C
// sm_120a sass: F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C
// sm_121a sass: F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C
#include <fourscale/formats/convert.hpp>

namespace f4 = fourscale;

__global__ void encode(float2 const* x, f4::u8* codes) {
  codes[threadIdx.x] = static_cast<f4::u8>(f4::encode<f4::e2m1>(x[threadIdx.x].x, x[threadIdx.x].y).bits);
}
