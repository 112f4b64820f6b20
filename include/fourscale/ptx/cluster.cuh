// SPDX-License-Identifier: Apache-2.0
// Clusters of CTAs (PTX ISA 9.7.9.22, 9.7.13.4; PTX 7.8, sm_90 and later): the cluster barrier, and loads
// from and stores to the shared memory of another CTA. In a kernel launched without clusters, each CTA is a
// cluster of one. A call from a pass for an older target is a link error that names the missing target.
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

/// barrier.cluster.arrive.release;   Arrives without waiting. The earlier writes of this thread are visible
/// to every thread of the cluster after its barrier_cluster_wait().
FOURSCALE_D inline void barrier_cluster_arrive() {
#if FOURSCALE_HAS_CLUSTER
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#else
  clusters_need_sm_90_or_later();
#endif
}

/// barrier.cluster.arrive.relaxed;   Arrives without ordering memory. This is enough after the initialization
/// of mbarriers, which fence_mbarrier_init() has ordered.
FOURSCALE_D inline void barrier_cluster_arrive_relaxed() {
#if FOURSCALE_HAS_CLUSTER
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#else
  clusters_need_sm_90_or_later();
#endif
}

/// barrier.cluster.wait.acquire;   Waits until all threads of the cluster have arrived.
FOURSCALE_D inline void barrier_cluster_wait() {
#if FOURSCALE_HAS_CLUSTER
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
  clusters_need_sm_90_or_later();
#endif
}

/// mapa.shared::cluster.u32 d, a, rank;   Maps a shared address of this CTA to the address of the same offset
/// in CTA `rank` of the cluster.
FOURSCALE_D inline u32 mapa_shared_cluster([[maybe_unused]] u32 address, [[maybe_unused]] u32 rank) {
  u32 there{};
#if FOURSCALE_HAS_CLUSTER
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
#else
  clusters_need_sm_90_or_later();
#endif
  return there;
}

/// ld.shared::cluster.f32 x, [from];   `from` comes from mapa_shared_cluster().
FOURSCALE_D inline float ld_shared_cluster_f32([[maybe_unused]] u32 from) {
  float x{};
#if FOURSCALE_HAS_CLUSTER
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
#else
  clusters_need_sm_90_or_later();
#endif
  return x;
}

/// st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [to], {x, y}, [barrier];   Asynchronous.
/// `to` and `barrier` are in the same CTA. When the data has arrived, the mbarrier counts 8 bytes (16 for the
/// v4 form, which takes a float4). PTX 8.1.
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

/// ld.shared::cluster.v4.f32 {x, y, z, w}, [from];   `from` is a multiple of 16 bytes.
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
