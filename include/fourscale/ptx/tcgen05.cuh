// SPDX-License-Identifier: Apache-2.0
// tcgen05, the fifth-generation tensor core (PTX ISA 9.7.16), sm_100f/a, sm_103f/a, sm_110f/a, PTX 8.6 (8.8
// for the f targets and for .block16 and .block32): allocation of tensor memory, copies from shared memory
// into it, block-scaled MMA, and the fences and waits that order them. tcgen05_ld_st.cuh has the loads and
// stores of tensor memory, descriptors.hpp the descriptors.
//
// A kernel guards these calls inside its body, so that it still compiles for the other targets of the build:
//     if constexpr (arch::has_tcgen05) { ... } else { what these targets do instead }
// A call from a pass without tcgen05 is a link error that names the targets. `CtaGroup` is 1, or 2 for a pair
// of CTAs of a cluster; it is the same in all of a kernel. Shared addresses are the 32-bit ones of
// shared_address(). Tensor-memory addresses are lane << 16 | column.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

FOURSCALE_D void tcgen05_needs_sm_100f_103f_or_110f();

#if FOURSCALE_HAS_TCGEN05
#define FOURSCALE_DETAIL_TCGEN05(...) asm volatile(__VA_ARGS__)
#else
#define FOURSCALE_DETAIL_TCGEN05(...) tcgen05_needs_sm_100f_103f_or_110f()
#endif
#define FOURSCALE_DETAIL_TCGEN05_GROUP(before, after, ...)                                          \
  static_assert(CtaGroup == 1 || CtaGroup == 2, "cta_group is 1 (one CTA) or 2 (a pair of CTAs)."); \
  if constexpr (CtaGroup == 1)                                                                      \
    FOURSCALE_DETAIL_TCGEN05(before ".cta_group::1" after __VA_ARGS__);                             \
  else                                                                                              \
    FOURSCALE_DETAIL_TCGEN05(before ".cta_group::2" after __VA_ARGS__)

// --- Tensor memory

/// tcgen05.alloc.cta_group.sync.aligned.shared::cta.b32 [slot], columns;   9.7.16.7.1. A whole warp calls
/// it; with cta_group::2, one warp of each CTA. Waits until there is room, and writes the tensor-memory
/// address to `slot` in shared memory. allocation() gives `columns`, which must not grow from call to call in
/// a kernel.
template <int CtaGroup>
FOURSCALE_D void tcgen05_alloc(u32 slot, u32 columns) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.alloc", ".sync.aligned.shared::cta.b32 [%0], %1;", ::"r"(slot),
                                 "r"(columns)
                                 : "memory");
}

/// tcgen05.relinquish_alloc_permit.cta_group.sync.aligned;   9.7.16.7.1. A whole warp calls it. This CTA
/// allocates no more.
template <int CtaGroup>
FOURSCALE_D void tcgen05_relinquish_alloc_permit() {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.relinquish_alloc_permit", ".sync.aligned;", ::: "memory");
}

/// tcgen05.dealloc.cta_group.sync.aligned.b32 address, columns;   9.7.16.7.1. A whole warp calls it before
/// the kernel ends. `columns` is the count that was allocated.
template <int CtaGroup>
FOURSCALE_D void tcgen05_dealloc(u32 address, u32 columns) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.dealloc", ".sync.aligned.b32 %0, %1;", ::"r"(address), "r"(columns)
                                 : "memory");
}

// --- Copies from shared to tensor memory: one thread calls them. They stay in order before its later MMAs.

/// tcgen05.cp.cta_group.32x128b.warpx4 [to], from;   9.7.16.9.2. Copies 32 rows of 16 bytes to 4 columns,
/// once to each quarter of the lanes: a tile of scales (see scale_tile_descriptor).
template <int CtaGroup>
FOURSCALE_D void tcgen05_cp_32x128b_warpx4(u32 to, u64 from) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.cp", ".32x128b.warpx4 [%0], %1;", ::"r"(to), "l"(from) : "memory");
}

/// tcgen05.cp.cta_group.64x128b.warpx2::02_13 [to], from;   Copies 64 rows of 16 bytes, each to two lanes:
/// rows 0 to 31 to the lanes of warps 0 and 2, rows 32 to 63 to those of warps 1 and 3.
template <int CtaGroup>
FOURSCALE_D void tcgen05_cp_64x128b_warpx2_02_13(u32 to, u64 from) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.cp", ".64x128b.warpx2::02_13 [%0], %1;", ::"r"(to), "l"(from)
                                 : "memory");
}

/// tcgen05.cp.cta_group.64x128b.warpx2::01_23 [to], from;   As above, but rows 0 to 31 go to warps 0 and 1,
/// rows 32 to 63 to warps 2 and 3.
template <int CtaGroup>
FOURSCALE_D void tcgen05_cp_64x128b_warpx2_01_23(u32 to, u64 from) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.cp", ".64x128b.warpx2::01_23 [%0], %1;", ::"r"(to), "l"(from)
                                 : "memory");
}

/// tcgen05.cp.cta_group.128x256b [to], from;   128 lanes, 8 columns.
template <int CtaGroup>
FOURSCALE_D void tcgen05_cp_128x256b(u32 to, u64 from) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.cp", ".128x256b [%0], %1;", ::"r"(to), "l"(from) : "memory");
}

/// tcgen05.cp.cta_group.128x128b [to], from;   128 lanes, 4 columns.
template <int CtaGroup>
FOURSCALE_D void tcgen05_cp_128x128b(u32 to, u64 from) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.cp", ".128x128b [%0], %1;", ::"r"(to), "l"(from) : "memory");
}

/// tcgen05.cp.cta_group.4x256b [to], from;   4 lanes, one in each quarter, 8 columns.
template <int CtaGroup>
FOURSCALE_D void tcgen05_cp_4x256b(u32 to, u64 from) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.cp", ".4x256b [%0], %1;", ::"r"(to), "l"(from) : "memory");
}

// --- Block-scaled MMA: one thread calls it (with cta_group::2, one thread of the pair of CTAs)
//
// 9.7.16.10.9.1. D (+)= A * B^T. `d`, `sfa` and `sfb` are tensor-memory addresses. `a` and `b` are
// shared-memory descriptors, except that `a` is a tensor-memory address in the forms with _tmem_a. `i` is the
// instruction descriptor. Without `accumulate`, D is not read. MMAs of one thread on the same accumulator, of
// the same shape, stay in order.

#define FOURSCALE_DETAIL_TCGEN05_MMA(kind, place_of_a, constraint)                                           \
  FOURSCALE_DETAIL_TCGEN05_GROUP("{ .reg .pred p; setp.ne.u32 p, %6, 0; tcgen05.mma",                        \
                                 ".kind::" kind " [%0], " place_of_a ", %2, %3, [%4], [%5], p; }", ::"r"(d), \
                                 constraint(a), "l"(b), "r"(i), "r"(sfa), "r"(sfb),                          \
                                 "r"(static_cast<u32>(accumulate))                                           \
                                 : "memory")

/// tcgen05.mma.cta_group.kind::mxf4nvf4.block_scale.block16: NVFP4 (UE4M3 scales; UE8M0 as well).
template <int CtaGroup>
FOURSCALE_D void tcgen05_mma_mxf4nvf4_block16(u32 d, u64 a, u64 b, u32 i, u32 sfa, u32 sfb, bool accumulate) {
  FOURSCALE_DETAIL_TCGEN05_MMA("mxf4nvf4.block_scale.block16", "%1", "l");
}
template <int CtaGroup>
FOURSCALE_D void tcgen05_mma_mxf4nvf4_block16_tmem_a(u32 d, u32 a, u64 b, u32 i, u32 sfa, u32 sfb,
                                                     bool accumulate) {
  FOURSCALE_DETAIL_TCGEN05_MMA("mxf4nvf4.block_scale.block16", "[%1]", "r");
}

/// tcgen05.mma.cta_group.kind::mxf4nvf4.block_scale.block32: MXFP4.
template <int CtaGroup>
FOURSCALE_D void tcgen05_mma_mxf4nvf4_block32(u32 d, u64 a, u64 b, u32 i, u32 sfa, u32 sfb, bool accumulate) {
  FOURSCALE_DETAIL_TCGEN05_MMA("mxf4nvf4.block_scale.block32", "%1", "l");
}
template <int CtaGroup>
FOURSCALE_D void tcgen05_mma_mxf4nvf4_block32_tmem_a(u32 d, u32 a, u64 b, u32 i, u32 sfa, u32 sfb,
                                                     bool accumulate) {
  FOURSCALE_DETAIL_TCGEN05_MMA("mxf4nvf4.block_scale.block32", "[%1]", "r");
}

/// tcgen05.mma.cta_group.kind::mxf4.block_scale.block32: MXFP4.
template <int CtaGroup>
FOURSCALE_D void tcgen05_mma_mxf4_block32(u32 d, u64 a, u64 b, u32 i, u32 sfa, u32 sfb, bool accumulate) {
  FOURSCALE_DETAIL_TCGEN05_MMA("mxf4.block_scale.block32", "%1", "l");
}
template <int CtaGroup>
FOURSCALE_D void tcgen05_mma_mxf4_block32_tmem_a(u32 d, u32 a, u64 b, u32 i, u32 sfa, u32 sfb,
                                                 bool accumulate) {
  FOURSCALE_DETAIL_TCGEN05_MMA("mxf4.block_scale.block32", "[%1]", "r");
}

/// tcgen05.mma.cta_group.kind::mxf8f6f4.block_scale.block32: MXFP8, MXFP6 and mixtures.
template <int CtaGroup>
FOURSCALE_D void tcgen05_mma_mxf8f6f4_block32(u32 d, u64 a, u64 b, u32 i, u32 sfa, u32 sfb, bool accumulate) {
  FOURSCALE_DETAIL_TCGEN05_MMA("mxf8f6f4.block_scale.block32", "%1", "l");
}
template <int CtaGroup>
FOURSCALE_D void tcgen05_mma_mxf8f6f4_block32_tmem_a(u32 d, u32 a, u64 b, u32 i, u32 sfa, u32 sfb,
                                                     bool accumulate) {
  FOURSCALE_DETAIL_TCGEN05_MMA("mxf8f6f4.block_scale.block32", "[%1]", "r");
}

// --- Order

/// tcgen05.commit.cta_group.mbarrier::arrive::one.shared::cluster.b64 [mbarrier];   9.7.16.12.1. Arrives on
/// the mbarrier when all earlier asynchronous tcgen05 work of this thread is done. Includes
/// fence::before_thread_sync.
template <int CtaGroup>
FOURSCALE_D void tcgen05_commit(u32 mbarrier) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.commit", ".mbarrier::arrive::one.shared::cluster.b64 [%0];",
                                 ::"r"(mbarrier)
                                 : "memory");
}

/// tcgen05.commit...multicast::cluster.b64 [mbarrier], ctas;   Arrives on the mbarrier at the same offset in
/// each CTA of the cluster whose bit in `ctas` is set.
template <int CtaGroup>
FOURSCALE_D void tcgen05_commit_multicast(u32 mbarrier, u16 ctas) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.commit",
                                 ".mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;",
                                 ::"r"(mbarrier), "h"(ctas)
                                 : "memory");
}

/// tcgen05.fence::before_thread_sync;   9.7.16.11.1. Goes before a barrier. Orders this thread's earlier
/// tcgen05 work before what other threads do after the barrier.
FOURSCALE_D inline void tcgen05_fence_before_thread_sync() {
  FOURSCALE_DETAIL_TCGEN05("tcgen05.fence::before_thread_sync;" ::: "memory");
}

/// tcgen05.fence::after_thread_sync;   Goes after a barrier. Orders this thread's later tcgen05 work after
/// what other threads did before the barrier.
FOURSCALE_D inline void tcgen05_fence_after_thread_sync() {
  FOURSCALE_DETAIL_TCGEN05("tcgen05.fence::after_thread_sync;" ::: "memory");
}

/// tcgen05.wait::ld.sync.aligned;   9.7.16.8.5. Waits until the earlier loads of this thread are done.
FOURSCALE_D inline void tcgen05_wait_ld() {
  FOURSCALE_DETAIL_TCGEN05("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

/// The same, for the loaded registers r. The compiler sees no dependence between a load and its wait, and
/// could move uses of r above the wait. The empty asm statements forbid this, and cost nothing.
template <int Count>
FOURSCALE_D void tcgen05_wait_ld(u32 (&r)[Count]) {
  tcgen05_wait_ld();
  FOURSCALE_UNROLL
  for (int i = 0; i < Count; ++i) FOURSCALE_DETAIL_TCGEN05("" : "+r"(r[i]));
}

/// tcgen05.wait::st.sync.aligned;   Waits until the earlier stores of this thread are done.
FOURSCALE_D inline void tcgen05_wait_st() {
  FOURSCALE_DETAIL_TCGEN05("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

#undef FOURSCALE_DETAIL_TCGEN05_MMA
#undef FOURSCALE_DETAIL_TCGEN05_GROUP
#undef FOURSCALE_DETAIL_TCGEN05

}  // namespace FOURSCALE_NAMESPACE::ptx
