// SPDX-License-Identifier: Apache-2.0
// The mbarriers of a pipeline (PTX ISA 9.7.13.15), and loads and stores of shared memory. They take 32-bit
// shared addresses, because an inner loop keeps those in registers; cuda::ptx takes pointers. sm_80 and
// later; functions for clusters sm_90.
#pragma once

#include "ldmatrix.cuh"

namespace FOURSCALE_NAMESPACE::ptx {

/// Initializes a barrier whose phases take `count` arrivals each. One thread calls it; the others may use the
/// mbarrier after a barrier such as __syncthreads().
FOURSCALE_D inline void mbarrier_init([[maybe_unused]] u32 barrier, [[maybe_unused]] u32 count) {
#if FOURSCALE_DEVICE_PASS >= 800
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
#endif
}
/// Waits until the phase of this parity has ended. It loops over mbarrier.try_wait.parity, or over test_wait
/// before sm_90.
FOURSCALE_D inline void mbarrier_wait([[maybe_unused]] u32 barrier, [[maybe_unused]] u32 parity) {
#if FOURSCALE_HAS_ELECT
  asm volatile(
      "{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra AGAIN; "
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
#elif FOURSCALE_DEVICE_PASS >= 800
  asm volatile(
      "{ .reg .pred done; AGAIN: mbarrier.test_wait.parity.shared.b64 done, [%0], %1; @!done bra AGAIN; }" ::
          "r"(barrier),
      "r"(parity)
      : "memory");
#endif
}
/// mbarrier.test_wait.parity: whether the phase of this parity has ended. It does not wait.
FOURSCALE_D inline bool mbarrier_test([[maybe_unused]] u32 barrier, [[maybe_unused]] u32 parity) {
  u32 done = 0;
#if FOURSCALE_DEVICE_PASS >= 800
  asm volatile(
      "{ .reg .pred done; mbarrier.test_wait.parity.shared.b64 done, [%1], %2; selp.u32 %0, 1, 0, done; }"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
#endif
  return done != 0;
}
FOURSCALE_D inline void mbarrier_arrive([[maybe_unused]] u32 barrier) {
#if FOURSCALE_HAS_ELECT
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
#elif FOURSCALE_DEVICE_PASS >= 800
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(barrier) : "memory");
#endif
}

/// Arrives at a barrier of any CTA of the cluster, whose address mapa_shared_cluster() gives. The instruction
/// names no scope: .release.cluster would fence all memory of the GPU (MEMBAR.ALL.GPU in SASS). It is not
/// needed, because the barrier itself orders the TMA writes that follow.
FOURSCALE_D inline void mbarrier_arrive_cluster([[maybe_unused]] u32 barrier) {
#if FOURSCALE_HAS_ELECT
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
}

/// Keeps x in its register: the compiler cannot recompute x, or assume anything about its value, after this
/// point. In an inner loop, recomputing x at each use would cost more than the register.
FOURSCALE_D inline void keep(u32& x) { asm volatile("" : "+r"(x)); }
FOURSCALE_D inline void keep(i64& x) { asm volatile("" : "+l"(x)); }
FOURSCALE_D inline void keep(float& x) { asm volatile("" : "+f"(x)); }
FOURSCALE_D inline void keep(u8 const*& x) { asm volatile("" : "+l"(x)); }

/// ld.shared and st.shared of 1, 2, 4 or 16 bytes. They access memory at this point of the program, whatever
/// the compiler knows about the value.
FOURSCALE_D inline u32 load_shared_u8([[maybe_unused]] u32 address) {
  u32 x = 0;
#if FOURSCALE_DEVICE_PASS
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
#endif
  return x;
}
FOURSCALE_D inline u32 load_shared_u16([[maybe_unused]] u32 address) {
  unsigned short x = 0;
#if FOURSCALE_DEVICE_PASS
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(address) : "memory");
#endif
  return x;
}
FOURSCALE_D inline u32 load_shared_u32([[maybe_unused]] u32 address) {
  u32 x = 0;
#if FOURSCALE_DEVICE_PASS
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
#endif
  return x;
}
FOURSCALE_D inline void store_shared_u32([[maybe_unused]] u32 address, [[maybe_unused]] u32 x) {
#if FOURSCALE_DEVICE_PASS
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(x) : "memory");
#endif
}
/// Predicated: where `some` is not 0, stores x at `address` or loads it from there, and moves the address to
/// the next float. An `if` around these would be a branch.
FOURSCALE_D inline void store_next_shared_f32([[maybe_unused]] u32 some, [[maybe_unused]] u32& address,
                                              [[maybe_unused]] float x) {
#if FOURSCALE_DEVICE_PASS
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p st.shared.f32 [%0], %2; @p add.u32 %0, %0, 4; }"
               : "+r"(address)
               : "r"(some), "f"(x)
               : "memory");
#endif
}
FOURSCALE_D inline void load_next_shared_f32([[maybe_unused]] u32 some, [[maybe_unused]] u32& address,
                                             [[maybe_unused]] float& x) {
#if FOURSCALE_DEVICE_PASS
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.shared.f32 %1, [%0]; @p add.u32 %0, %0, 4; }"
               : "+r"(address), "+f"(x)
               : "r"(some)
               : "memory");
#endif
}
FOURSCALE_D inline uint2 load_shared_u32x2([[maybe_unused]] u32 address) {
  uint2 x{};
#if FOURSCALE_DEVICE_PASS
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "r"(address) : "memory");
#endif
  return x;
}
FOURSCALE_D inline uint4 load_shared_u32x4([[maybe_unused]] u32 address) {
  uint4 x{};
#if FOURSCALE_DEVICE_PASS
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(address)
               : "memory");
#endif
  return x;
}

}  // namespace FOURSCALE_NAMESPACE::ptx
