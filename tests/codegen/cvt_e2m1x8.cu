// SPDX-License-Identifier: Apache-2.0
// Eight floats to one word: the conversions merge the bytes themselves, without a permutation.
// sm_100a sass: F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C
// sm_100a sass: !PRMT
// sm_120a sass: F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C
// sm_120a sass: !PRMT
// sm_100a: cvt.rn.satfinite.e2m1x2.f32
// sm_100a spills: 0
#include <fourscale/ptx/cvt.hpp>

__global__ void encode(float const (*x)[8], unsigned* codes) {
  codes[threadIdx.x] = fourscale::ptx::cvt_rn_satfinite_e2m1x8_f32(x[threadIdx.x]);
}
