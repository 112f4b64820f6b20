// SPDX-License-Identifier: Apache-2.0
// bar.sync and bar.arrive (PTX ISA 9.7.13.1): the numbered barriers of a CTA. Warps may arrive at one barrier
// from different places in the program.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

/// bar.sync id, threads;   Waits until `threads` threads of the CTA have arrived at barrier `id`. All threads
/// of a warp execute it together. Barrier 0 is that of __syncthreads().
template <int Id, int Threads>
FOURSCALE_D void bar_sync() {
  asm volatile("bar.sync %0, %1;" ::"n"(Id), "n"(Threads) : "memory");
}
FOURSCALE_D inline void bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// bar.arrive id, threads;   Arrives at the barrier as bar_sync() does, but does not wait.
FOURSCALE_D inline void bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace FOURSCALE_NAMESPACE::ptx
