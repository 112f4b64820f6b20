// SPDX-License-Identifier: Apache-2.0
// Clusters of CTAs (PTX ISA 9.7.9.22, 9.7.13.4; PTX 7.8, sm_90 and later): their barrier, loads from the
// shared memory of another CTA, and stores to it. A kernel that was launched without clusters is a cluster of
// one.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

FOURSCALE_D void clusters_need_sm_90_or_later();

/// mov.u32 r, %cluster_ctarank;
FOURSCALE_D inline u32 cluster_ctarank() {
  u32 rank{};
#if FOURSCALE_HAS_CLUSTER
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#else
  clusters_need_sm_90_or_later();
#endif
  return rank;
}

/// barrier.cluster.arrive.release;   What this thread wrote before is seen by all who wait after.
FOURSCALE_D inline void barrier_cluster_arrive() {
#if FOURSCALE_HAS_CLUSTER
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#else
  clusters_need_sm_90_or_later();
#endif
}

/// barrier.cluster.arrive.relaxed;   It orders no memory: for barriers, fence_mbarrier_init() has.
FOURSCALE_D inline void barrier_cluster_arrive_relaxed() {
#if FOURSCALE_HAS_CLUSTER
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#else
  clusters_need_sm_90_or_later();
#endif
}

/// barrier.cluster.wait.acquire;   All threads of the cluster have arrived.
FOURSCALE_D inline void barrier_cluster_wait() {
#if FOURSCALE_HAS_CLUSTER
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
  clusters_need_sm_90_or_later();
#endif
}

/// mapa.shared::cluster.u32 d, a, rank;   The same place in another CTA of the cluster.
FOURSCALE_D inline u32 mapa_shared_cluster([[maybe_unused]] u32 address, [[maybe_unused]] u32 rank) {
  u32 there{};
#if FOURSCALE_HAS_CLUSTER
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
#else
  clusters_need_sm_90_or_later();
#endif
  return there;
}

/// ld.shared::cluster.f32 x, [from];
FOURSCALE_D inline float ld_shared_cluster_f32([[maybe_unused]] u32 from) {
  float x{};
#if FOURSCALE_HAS_CLUSTER
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
#else
  clusters_need_sm_90_or_later();
#endif
  return x;
}

/// st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [to], {x, y}, [barrier];   Both addresses are
/// in one CTA; its barrier counts eight bytes when they are there. PTX 8.1. Of v4: 16 bytes.
FOURSCALE_D inline void st_async([[maybe_unused]] u32 to, [[maybe_unused]] float2 v,
                                 [[maybe_unused]] u32 barrier) {
#if FOURSCALE_HAS_CLUSTER
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(to),
               "f"(v.x), "f"(v.y), "r"(barrier)
               : "memory");
#else
  clusters_need_sm_90_or_later();
#endif
}
FOURSCALE_D inline void st_async([[maybe_unused]] u32 to, [[maybe_unused]] float4 v,
                                 [[maybe_unused]] u32 barrier) {
#if FOURSCALE_HAS_CLUSTER
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier)
      : "memory");
#else
  clusters_need_sm_90_or_later();
#endif
}

/// ld.shared::cluster.v4.f32 {x, y, z, w}, [from];   Aligned to 16 bytes.
FOURSCALE_D inline float4 ld_shared_cluster_f32x4([[maybe_unused]] u32 from) {
  float4 v{};
#if FOURSCALE_HAS_CLUSTER
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(from)
               : "memory");
#else
  clusters_need_sm_90_or_later();
#endif
  return v;
}

}  // namespace FOURSCALE_NAMESPACE::ptx
