// SPDX-License-Identifier: Apache-2.0
// The oldest GPU that we compile for, and a sentence for those before it.
// sm_80: .visible .entry
// sm_75 error: fourscale needs sm_80 or later: pass -arch=sm_80
#include <fourscale/fourscale.cuh>

__global__ void encode(float const* x, fourscale::e2m1* q) { *q = fourscale::encode<fourscale::e2m1>(*x); }
