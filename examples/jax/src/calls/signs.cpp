// SPDX-License-Identifier: Apache-2.0
// fourscale_signs() of calls.hpp, for the CPU and, included in a .cu file, for the GPU.
#include "../buffers.hpp"
#include "../machine.hpp"

namespace fourscale_jax {

errc fourscale_signs(void* stream, tensor key, tensor to, i32 gemm) {
  if (!words_of(key) || to.count() != 128) return errc::shape_mismatch;
  return machine(stream).signs(words_of(key), static_cast<u32>(gemm), data_of<float>(to));
}

}  // namespace fourscale_jax
