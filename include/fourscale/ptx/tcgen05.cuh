// SPDX-License-Identifier: Apache-2.0
// tcgen05, the fifth-generation tensor core (PTX ISA 9.7.16), sm_100f/a, sm_103f/a, sm_110f/a, PTX 8.6 (the f
// targets, .block16 and .block32: 8.8): tensor memory, copies into it, block-scaled MMA and their order.
// Loads and stores are in tcgen05_ld_st.cuh, the words that these take in descriptors.hpp.
//
// A kernel guards itself inside its body, and the other targets of the build stay whole:
//     if constexpr (arch::has_tcgen05) { ... } else { what these targets do instead }
// A call from a pass without tcgen05 is a link error with a sentence. `CtaGroup` is 1, or 2 for a pair of
// CTAs of a cluster, and the same in all of a kernel. Shared-memory addresses are the 32-bit ones of
// shared_address(); tensor-memory addresses are lane << 16 | column.
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

/// tcgen05.alloc.cta_group.sync.aligned.shared::cta.b32 [slot], columns;   9.7.16.7.1. A whole warp; waits
/// until there is room. Writes the address to shared memory. `columns` as allocation() gives them; in one
/// kernel they must not grow from call to call. With cta_group::2, one warp of each CTA.
template <int CtaGroup>
FOURSCALE_D void tcgen05_alloc(u32 slot, u32 columns) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.alloc", ".sync.aligned.shared::cta.b32 [%0], %1;", ::"r"(slot),
                                 "r"(columns)
                                 : "memory");
}

/// tcgen05.relinquish_alloc_permit.cta_group.sync.aligned;   9.7.16.7.1. A whole warp: this CTA allocates no
/// more.
template <int CtaGroup>
FOURSCALE_D void tcgen05_relinquish_alloc_permit() {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.relinquish_alloc_permit", ".sync.aligned;", ::: "memory");
}

/// tcgen05.dealloc.cta_group.sync.aligned.b32 address, columns;   9.7.16.7.1. A whole warp, before the kernel
/// ends, with the count that was allocated.
template <int CtaGroup>
FOURSCALE_D void tcgen05_dealloc(u32 address, u32 columns) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.dealloc", ".sync.aligned.b32 %0, %1;", ::"r"(address), "r"(columns)
                                 : "memory");
}

// --- Shared memory to tensor memory: one thread; in order before a later MMA of the same thread

/// tcgen05.cp.cta_group.32x128b.warpx4 [to], from;   9.7.16.9.2. 32 rows of 16 bytes to 4 columns, repeated
/// in each quarter of the lanes: a tile of scales (scale_tile_descriptor).
template <int CtaGroup>
FOURSCALE_D void tcgen05_cp_32x128b_warpx4(u32 to, u64 from) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.cp", ".32x128b.warpx4 [%0], %1;", ::"r"(to), "l"(from) : "memory");
}

/// tcgen05.cp.cta_group.64x128b.warpx2::02_13 [to], from;   64 rows of 16 bytes, twice: to the lanes of warps
/// 0 and 2, half each, and to those of warps 1 and 3.
template <int CtaGroup>
FOURSCALE_D void tcgen05_cp_64x128b_warpx2_02_13(u32 to, u64 from) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.cp", ".64x128b.warpx2::02_13 [%0], %1;", ::"r"(to), "l"(from)
                                 : "memory");
}

/// tcgen05.cp.cta_group.64x128b.warpx2::01_23 [to], from;   As above, with warps 0 and 1, 2 and 3.
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

/// tcgen05.cp.cta_group.4x256b [to], from;   4 lanes, 8 columns.
template <int CtaGroup>
FOURSCALE_D void tcgen05_cp_4x256b(u32 to, u64 from) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.cp", ".4x256b [%0], %1;", ::"r"(to), "l"(from) : "memory");
}

// --- Block-scaled MMA: one thread (with cta_group::2, one of the pair)
//
// 9.7.16.10.9.1. D (+)= A * B^T: d, sfa, sfb are tensor-memory addresses, b and a shared-memory descriptors,
// or a a tensor-memory address in the forms with _tmem_a; i is the instruction descriptor. Without
// `accumulate`, D is not read. MMAs of one thread on the same accumulator and shape stay in order.

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

/// tcgen05.commit.cta_group.mbarrier::arrive::one.shared::cluster.b64 [mbarrier];   9.7.16.12.1. Arrives when
/// all earlier asynchronous tcgen05 work of this thread is done. Contains fence::before_thread_sync.
template <int CtaGroup>
FOURSCALE_D void tcgen05_commit(u32 mbarrier) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.commit", ".mbarrier::arrive::one.shared::cluster.b64 [%0];",
                                 ::"r"(mbarrier)
                                 : "memory");
}

/// tcgen05.commit...multicast::cluster.b64 [mbarrier], ctas;   Arrives at the same offset in each CTA of the
/// cluster whose bit is set.
template <int CtaGroup>
FOURSCALE_D void tcgen05_commit_multicast(u32 mbarrier, u16 ctas) {
  FOURSCALE_DETAIL_TCGEN05_GROUP("tcgen05.commit",
                                 ".mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;",
                                 ::"r"(mbarrier), "h"(ctas)
                                 : "memory");
}

/// tcgen05.fence::before_thread_sync;   9.7.16.11.1. Earlier tcgen05 work, before what other threads do after
/// a barrier.
FOURSCALE_D inline void tcgen05_fence_before_thread_sync() {
  FOURSCALE_DETAIL_TCGEN05("tcgen05.fence::before_thread_sync;" ::: "memory");
}

/// tcgen05.fence::after_thread_sync;   Later tcgen05 work, after what other threads did before a barrier.
FOURSCALE_D inline void tcgen05_fence_after_thread_sync() {
  FOURSCALE_DETAIL_TCGEN05("tcgen05.fence::after_thread_sync;" ::: "memory");
}

/// tcgen05.wait::ld.sync.aligned;   9.7.16.8.5. Earlier loads of this thread are done.
FOURSCALE_D inline void tcgen05_wait_ld() {
  FOURSCALE_DETAIL_TCGEN05("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

/// The same for loaded registers: nothing that uses them is moved up over the wait by a compiler, which knows
/// of no link between the two instructions. Costs nothing.
template <int Count>
FOURSCALE_D void tcgen05_wait_ld(u32 (&r)[Count]) {
  tcgen05_wait_ld();
  FOURSCALE_UNROLL
  for (int i = 0; i < Count; ++i) FOURSCALE_DETAIL_TCGEN05("" : "+r"(r[i]));
}

/// tcgen05.wait::st.sync.aligned;   Earlier stores of this thread are done.
FOURSCALE_D inline void tcgen05_wait_st() {
  FOURSCALE_DETAIL_TCGEN05("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

#undef FOURSCALE_DETAIL_TCGEN05_MMA
#undef FOURSCALE_DETAIL_TCGEN05_GROUP
#undef FOURSCALE_DETAIL_TCGEN05

}  // namespace FOURSCALE_NAMESPACE::ptx
