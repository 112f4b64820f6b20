// SPDX-License-Identifier: Apache-2.0
// bar.sync and bar.arrive (PTX ISA 9.7.13.1): a barrier of a CTA to which warps may come from different
// places of a program.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

/// bar.sync id, threads;   All threads of a warp execute it together; the barrier opens for `threads` of
/// them. __syncthreads() is barrier 0.
template <int Id, int Threads>
FOURSCALE_D void bar_sync() {
  asm volatile("bar.sync %0, %1;" ::"n"(Id), "n"(Threads) : "memory");
}
FOURSCALE_D inline void bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// bar.arrive id, threads;   The same without waiting.
FOURSCALE_D inline void bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace FOURSCALE_NAMESPACE::ptx
