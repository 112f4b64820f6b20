// SPDX-License-Identifier: Apache-2.0
// sm_80: !cvt.rn.satfinite.e4m3x2.f32
// sm_90a: cvt.rn.satfinite.e4m3x2.f32
// sm_100a: cvt.rn.satfinite.e4m3x2.f32
// sm_120a: cvt.rn.satfinite.e4m3x2.f32
#include <fourscale/formats/convert.hpp>

namespace f4 = fourscale;

__global__ void encode(float2 const* x, f4::u16* codes) {
  codes[threadIdx.x] = static_cast<f4::u16>(f4::encode<f4::e4m3>(x[threadIdx.x].x, x[threadIdx.x].y).bits);
}
