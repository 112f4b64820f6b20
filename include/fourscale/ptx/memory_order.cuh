// SPDX-License-Identifier: Apache-2.0
// Release and acquire at GPU scope, for data that one CTA writes and another reads (PTX ISA 8, memory
// consistency; instructions red and ld, sm_70 and later). <cuda/atomic> offers the same, but doubles the time
// that a kernel takes to compile.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

/// red.release.gpu.global.add.u32 [to], x;   A thread that acquires the sum sees all that this thread has
/// written, or has seen written, before.
FOURSCALE_D inline void red_release_gpu_add(u32* to, u32 x) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}

/// ld.acquire.gpu.global.u32 d, [from];   The counterpart of red_release_gpu_add().
FOURSCALE_D inline u32 ld_acquire_gpu(u32 const* from) {
  u32 d;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(d) : "l"(from) : "memory");
  return d;
}

}  // namespace FOURSCALE_NAMESPACE::ptx
