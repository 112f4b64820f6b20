// SPDX-License-Identifier: Apache-2.0
#include <fourscale/fourscale.cuh>

namespace f4 = fourscale;

__global__ void encode(float const* x, f4::e2m1* q) { q[threadIdx.x] = f4::encode<f4::e2m1>(x[threadIdx.x]); }

int main() { return f4::encode<f4::e2m1>(5.0f).bits == 6 ? 0 : 1; }
