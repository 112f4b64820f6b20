// SPDX-License-Identifier: Apache-2.0
// Barriers of a pipeline by their shared address (PTX ISA 9.7.13.15), where cuda::ptx has them by pointer: an
// inner loop keeps addresses in registers. sm_80 and later, those of clusters sm_90.
#pragma once

#include "ldmatrix.cuh"

namespace FOURSCALE_NAMESPACE::ptx {

/// For `count` arrivals a phase. Other threads see it after a barrier.
FOURSCALE_D inline void mbarrier_init([[maybe_unused]] u32 barrier, [[maybe_unused]] u32 count) {
#if FOURSCALE_DEVICE_PASS >= 800
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
#endif
}
/// Waits for the end of the phase of this parity: mbarrier.try_wait.parity, again and again, or test_wait
/// where there is none.
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
/// Whether that phase has ended, without waiting: mbarrier.test_wait.parity.
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

/// At an address in the cluster: mapa_shared_cluster(). Without a scope: release.cluster would fence all the
/// GPU's memory (in SASS: MEMBAR.ALL.GPU), and what TMA writes next the barrier itself orders.
FOURSCALE_D inline void mbarrier_arrive_cluster([[maybe_unused]] u32 barrier) {
#if FOURSCALE_HAS_ELECT
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
}

/// Keeps x in its register: the compiler cannot compute it once more where it is used, which would cost an
/// inner loop more than the register.
FOURSCALE_D inline void keep(u32& x) { asm volatile("" : "+r"(x)); }
FOURSCALE_D inline void keep(float& x) { asm volatile("" : "+f"(x)); }
FOURSCALE_D inline void keep(u8 const*& x) { asm volatile("" : "+l"(x)); }

/// A byte, two of them, a word, or four words at a shared address: read here, whatever is known of the
/// memory.
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
