// SPDX-License-Identifier: Apache-2.0
// bar.sync (PTX ISA 9.7.13.1): a barrier of a CTA to which warps may come from different places of a program.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

/// bar.sync id, threads;   All threads of a warp execute it together; the barrier opens for `threads` of
/// them. __syncthreads() is barrier 0.
template <int Id, int Threads>
FOURSCALE_D void bar_sync() {
  asm volatile("bar.sync %0, %1;" ::"n"(Id), "n"(Threads) : "memory");
}

}  // namespace FOURSCALE_NAMESPACE::ptx
