// SPDX-License-Identifier: Apache-2.0
// cp.async: asynchronous copies of 16, 8 or 4 bytes by one thread, from global to shared memory without a
// register in between (PTX ISA 9.7.9.25.3.1, PTX 7.0, sm_80 and later). Both addresses must be multiples of
// the size. Shared addresses are the 32-bit ones of shared_address().
#pragma once

#include "ldmatrix.cuh"

namespace FOURSCALE_NAMESPACE::ptx {

/// cp.async.cg.shared.global [to], [from], 16;
FOURSCALE_D inline void cp_async_cg_16(u32 to, void const* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/// cp.async.cg.shared.global [to], [from], 16, bytes;   Reads the first `bytes` bytes and fills the rest of
/// the 16 with zeros.
FOURSCALE_D inline void cp_async_cg_16(u32 to, void const* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

/// cp.async.cg.shared.global.L2::128B [to], [from], 16;   Asks L2 to fetch the whole line. PTX 7.4.
FOURSCALE_D inline void cp_async_cg_16_l2_128(u32 to, void const* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/// cp.async.ca.shared.global [to], [from], 8, bytes;   Copies 8 bytes. If `bytes` is 0, writes zeros and
/// reads nothing.
FOURSCALE_D inline void cp_async_ca_8(u32 to, void const* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

/// cp.async.ca.shared.global [to], [from], 4, bytes;   As above, for 4 bytes.
FOURSCALE_D inline void cp_async_ca_4(u32 to, void const* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

/// cp.async.mbarrier.arrive.noinc.shared.b64 [barrier];   Arrives on the mbarrier as soon as all earlier
/// cp.async copies of this thread are done. The count of mbarrier_init() must include this arrival.
FOURSCALE_D inline void cp_async_mbarrier_arrive_noinc(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

/// cp.async.commit_group;   Makes a group of all copies that this thread has started since its last commit.
/// The group may be empty.
FOURSCALE_D inline void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// cp.async.wait_group N;   Waits until all groups of this thread but the latest N are done.
template <int N>
FOURSCALE_D inline void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/// cp.async.wait_all;   Waits for all copies of this thread. Other threads see the data after a barrier.
FOURSCALE_D inline void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace FOURSCALE_NAMESPACE::ptx
