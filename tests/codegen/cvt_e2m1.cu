// SPDX-License-Identifier: Apache-2.0
// sm_90a: !cvt.rn.satfinite.e2m1x2.f32
// sm_100: !cvt.rn.satfinite.e2m1x2.f32
// sm_100a: cvt.rn.satfinite.e2m1x2.f32
// sm_100f: cvt.rn.satfinite.e2m1x2.f32
// sm_103a: cvt.rn.satfinite.e2m1x2.f32
// sm_120a: cvt.rn.satfinite.e2m1x2.f32
#include <fourscale/formats/convert.hpp>

namespace f4 = fourscale;

__global__ void encode(float2 const* x, f4::u8* codes) {
  codes[threadIdx.x] = static_cast<f4::u8>(f4::encode<f4::e2m1>(x[threadIdx.x].x, x[threadIdx.x].y).bits);
}
