// SPDX-License-Identifier: Apache-2.0
// What one CTA writes and another one reads: release and acquire at the scope of the GPU (PTX ISA 8, memory
// consistency; instructions red and ld, sm_70 and later). <cuda/atomic> has them too, and doubles the time
// that a kernel takes to compile.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

/// red.release.gpu.global.add.u32 [to], x;   What this thread has written or seen before is seen by whoever
/// acquires the sum.
FOURSCALE_D inline void red_release_gpu_add(u32* to, u32 x) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}

/// ld.acquire.gpu.global.u32 d, [from];
FOURSCALE_D inline u32 ld_acquire_gpu(u32 const* from) {
  u32 d;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(d) : "l"(from) : "memory");
  return d;
}

}  // namespace FOURSCALE_NAMESPACE::ptx
