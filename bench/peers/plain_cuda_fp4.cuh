// SPDX-License-Identifier: Apache-2.0
// What a CUDA programmer writes with the toolkit's conversions: a thread takes a block of 16 bf16, in
// vectors; the arithmetic is Transformer Engine's. No line of fourscale.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>

#include <cfloat>

namespace plain {

union block {
  uint4 vectors[2];
  __nv_bfloat162 pairs[8];
};

__device__ inline float largest_magnitude(block const& b) {
  __nv_bfloat162 largest = __habs2(b.pairs[0]);
#pragma unroll
  for (int i = 1; i < 8; ++i) largest = __hmax2(largest, __habs2(b.pairs[i]));
  return fmaxf(__low2float(largest), __high2float(largest));
}

__global__ void __launch_bounds__(256) amax_kernel(uint4 const* x, long long blocks, float* amax) {
  float mine = 0.0f;
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < blocks; i += gridDim.x * 256ll)
    mine = fmaxf(mine, largest_magnitude({x[2 * i], x[2 * i + 1]}));
  const unsigned warp = __reduce_max_sync(0xffffffffu, __float_as_uint(mine));
  if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<unsigned*>(amax), warp);
}

__global__ void __launch_bounds__(256) quantize_kernel(uint4 const* x, long long blocks, float const* amax,
                                                       uint2* codes, unsigned char* scales) {
  const long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i >= blocks) return;
  float encode = fminf(2688.0f / *amax, FLT_MAX);
  if (*amax == 0.0f || encode == 0.0f) encode = 1.0f;
  const block b{x[2 * i], x[2 * i + 1]};

  const float wanted = fminf(largest_magnitude(b) * (encode * (1.0f / 6.0f)), 448.0f);
  const __nv_fp8_storage_t scale = __nv_cvt_float_to_fp8(wanted, __NV_SATFINITE, __NV_E4M3);
  const float stored = __half2float(__half(__nv_cvt_fp8_to_halfraw(scale, __NV_E4M3)));
  const float multiplier = fminf(1.0f / (stored * (1.0f / encode)), FLT_MAX);

  unsigned packed[2] = {0, 0};
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const float2 v = __bfloat1622float2(b.pairs[k]);
    const __nv_fp4x2_storage_t two =
        __nv_cvt_float2_to_fp4x2({v.x * multiplier, v.y * multiplier}, __NV_E2M1, cudaRoundNearest);
    packed[k / 4] |= static_cast<unsigned>(two) << (8 * (k % 4));
  }
  codes[i] = {packed[0], packed[1]};
  scales[i] = scale;
}

inline cudaError_t amax(void const* x, long long values, float* out, cudaStream_t stream) {
  if (const cudaError_t e = cudaMemsetAsync(out, 0, sizeof(float), stream); e != cudaSuccess) return e;
  amax_kernel<<<132 * 8, 256, 0, stream>>>(static_cast<uint4 const*>(x), values / 16, out);
  return cudaGetLastError();
}

inline cudaError_t quantize(void const* x, long long values, float const* amax, void* codes, void* scales,
                            cudaStream_t stream) {
  const long long blocks = values / 16;
  quantize_kernel<<<static_cast<unsigned>((blocks + 255) / 256), 256, 0, stream>>>(
      static_cast<uint4 const*>(x), blocks, amax, static_cast<uint2*>(codes),
      static_cast<unsigned char*>(scales));
  return cudaGetLastError();
}

}  // namespace plain
