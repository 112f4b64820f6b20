// SPDX-License-Identifier: Apache-2.0
// Quantizing inside your own kernel: a ReLU that writes its result as NVFP4, one block a thread. The function
// that quantizes a block on the GPU is the one that runs on the CPU. So both give the same bits, whether the
// GPU has an instruction for the conversion (Blackwell) or not.
#include <cuda_runtime.h>

#include <cstdio>
#include <fourscale/fourscale.hpp>
#include <vector>

namespace f4 = fourscale;
using block = f4::packed_block<f4::nvfp4>;

/// ReLU of sixteen values, quantized to one block, in the registers of one thread.
__host__ __device__ block relu_block(float const* x, f4::tensor_scale<f4::nvfp4> const& scale) {
  float values[16];
  for (int i = 0; i < 16; ++i) values[i] = x[i] > 0.0f ? x[i] : 0.0f;
  return f4::quantize_block<f4::nvfp4>(values, f4::quantizer{}, scale);
}

__global__ void relu_kernel(float const* x, block* out, int blocks, f4::tensor_scale<f4::nvfp4> scale) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < blocks) out[i] = relu_block(x + 16 * i, scale);
}

bool succeeded(cudaError_t e) {
  if (e != cudaSuccess) std::printf("CUDA: %s\n", cudaGetErrorString(e));
  return e == cudaSuccess;
}

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
    return std::printf("There is no GPU here, so there is nothing to compare.\n"), 0;

  constexpr int blocks = 1 << 16;
  std::vector<float> x(16 * blocks);
  f4::u32 state = 1;
  for (float& value : x) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<f4::i32>(state)) * 0x1p-31f;
  }
  const f4::tensor_scale<f4::nvfp4> scale(1.0f);  // from the amax: no magnitude is larger than 1

  float* device_x = nullptr;
  block* device_out = nullptr;
  std::vector<block> out(blocks);
  const bool ran =
      succeeded(cudaMalloc(&device_x, x.size() * sizeof x[0])) &&
      succeeded(cudaMalloc(&device_out, out.size() * sizeof out[0])) &&
      succeeded(cudaMemcpy(device_x, x.data(), x.size() * sizeof x[0], cudaMemcpyHostToDevice)) &&
      (relu_kernel<<<blocks / 256, 256>>>(device_x, device_out, blocks, scale),
       succeeded(cudaGetLastError())) &&
      succeeded(cudaMemcpy(out.data(), device_out, out.size() * sizeof out[0], cudaMemcpyDeviceToHost));
  cudaFree(device_x);
  cudaFree(device_out);
  if (!ran) return 1;

  int same = 0;
  for (int i = 0; i < blocks; ++i) same += out[i] == relu_block(&x[16 * i], scale);
  std::printf("%d blocks from the GPU, %d of them equal to the CPU's in every bit.\n", blocks, same);
  std::printf("The first: scale 0x%02x, codes", out[0].scale.bits);
  for (const f4::u8 two_codes : out[0].codes) std::printf(" %02x", two_codes);
  std::printf("\n");
  return same == blocks ? 0 : 1;
}
