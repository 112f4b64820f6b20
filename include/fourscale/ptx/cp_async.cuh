// SPDX-License-Identifier: Apache-2.0
// cp.async: 16, 8 or 4 bytes from global to shared memory, without a register in between (PTX ISA
// 9.7.9.25.3.1, PTX 7.0, sm_80 and later). Both addresses are multiples of as many; those in shared memory
// are the 32-bit ones of shared_address().
#pragma once

#include "ldmatrix.cuh"

namespace FOURSCALE_NAMESPACE::ptx {

/// cp.async.cg.shared.global [to], [from], 16;
FOURSCALE_D inline void cp_async_cg_16(u32 to, void const* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/// cp.async.cg.shared.global [to], [from], 16, bytes;   The first `bytes` of the 16 are read, the others 0.
FOURSCALE_D inline void cp_async_cg_16(u32 to, void const* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

/// cp.async.cg.shared.global.L2::128B [to], [from], 16;   L2 is to fetch the whole line. PTX 7.4.
FOURSCALE_D inline void cp_async_cg_16_l2_128(u32 to, void const* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/// cp.async.ca.shared.global [to], [from], 8, bytes;   Eight bytes, or zeros if `bytes` is 0: nothing is then
/// read.
FOURSCALE_D inline void cp_async_ca_8(u32 to, void const* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

/// cp.async.ca.shared.global [to], [from], 4, bytes;   Four bytes, or zeros if `bytes` is 0.
FOURSCALE_D inline void cp_async_ca_4(u32 to, void const* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

/// cp.async.mbarrier.arrive.noinc.shared.b64 [barrier];   An arrival, as soon as all that this thread has
/// started is there; it is one of those that the barrier was initialized for.
FOURSCALE_D inline void cp_async_mbarrier_arrive_noinc(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

/// cp.async.commit_group;   What this thread has started since the last one is a group, though it be empty.
FOURSCALE_D inline void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// cp.async.wait_group N;   All groups of this thread but the latest N have arrived.
template <int N>
FOURSCALE_D inline void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/// cp.async.wait_all;   For what this thread has started. Others see it after a barrier.
FOURSCALE_D inline void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace FOURSCALE_NAMESPACE::ptx
