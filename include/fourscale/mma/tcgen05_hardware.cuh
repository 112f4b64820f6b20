// SPDX-License-Identifier: Apache-2.0
// The instruction set that a tcgen05 GEMM is a template over (its parameter `Set`): it has tensor memory and
// multiplies. `hardware` is the tensor core of sm_100, sm_103 and sm_110; `model` in tcgen05_model.cuh stands
// in for it elsewhere. mbarriers, bulk copies and clusters are the same on Hopper and Blackwell: both sets
// take them from `async_copies`.
//
// A set is a small object in the registers of every thread. Whole warps call its functions, and each function
// decides how many lanes act. Code under `if (set.issues())` is single-threaded work: `hardware` sends one
// elected lane into it, `model` sends all lanes, which share the work. An mbarrier is named by its number,
// such as tile::full(stage).
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "../ptx/elect.cuh"
#include "../ptx/ldmatrix.cuh"
#include "../ptx/multicast.cuh"
#include "../ptx/tcgen05.cuh"
#include "../ptx/tcgen05_ld_st.cuh"
#include "tcgen05_tile.cuh"

namespace FOURSCALE_NAMESPACE::mma::tcgen05 {

/// The position of a CTA in its cluster. A cluster has `Sharing` groups that share B; a group is one CTA or a
/// pair. Masks have one bit for each CTA of the cluster.
template <int CtaGroup, int Sharing>
struct cluster_place {
  static_assert(CtaGroup == 1 || CtaGroup == 2, "A tile is worked on by one CTA or by a pair.");
  static_assert(Sharing == 1 || Sharing == 2, "B is shared by two CTAs or pairs, or by none.");
  static constexpr int cta_group = CtaGroup, sharing = Sharing, ctas = CtaGroup * Sharing;
  static constexpr u16 all = (1 << ctas) - 1;

  FOURSCALE_D static u32 cta() {
    if constexpr (ctas == 1) return 0;
    return cuda::ptx::get_sreg_cluster_ctarank();
  }
  FOURSCALE_D static u32 group() { return cta() / CtaGroup; }
  /// 0 in the leader. One thread of the leader issues for both CTAs of a pair.
  FOURSCALE_D static u32 rank() { return cta() % CtaGroup; }
  FOURSCALE_D static u32 leader() { return cta() - rank(); }
  /// The mask of the CTAs of this group.
  FOURSCALE_D static u16 own() { return static_cast<u16>(((1u << CtaGroup) - 1) << leader()); }
  /// The mask of the CTAs of this rank in all groups: they need the same rows of B.
  FOURSCALE_D static u16 same_rank() {
    return static_cast<u16>((Sharing == 1 ? 1u : 1u | 1u << CtaGroup) << rank());
  }
};

/// mbarriers, TMA and barriers of a cluster. Each function acts for the one thread that calls it, except
/// sync() and wait_stores().
template <int CtaGroup, int Sharing>
struct async_copies {
  using place = cluster_place<CtaGroup, Sharing>;
  std::uint64_t* barriers;

  FOURSCALE_D void init_barrier(u32 b, u32 arrivals) const {
    cuda::ptx::mbarrier_init(barriers + b, arrivals);
  }
  FOURSCALE_D bool try_wait(u32 b, u32 parity) const {
    if constexpr (place::ctas == 1)
      return cuda::ptx::mbarrier_try_wait_parity(barriers + b, parity);
    else
      return cuda::ptx::mbarrier_try_wait_parity(cuda::ptx::sem_acquire, cuda::ptx::scope_cluster,
                                                 barriers + b, parity);
  }
  /// Arrives at barrier `b` of CTA `to` of the cluster.
  FOURSCALE_D void arrive(u32 b, [[maybe_unused]] u32 to) const {
    if constexpr (place::ctas == 1)
      cuda::ptx::mbarrier_arrive(barriers + b);
    else
      cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cluster, cuda::ptx::space_cluster,
                                 static_cast<std::uint64_t*>(__cluster_map_shared_rank(barriers + b, to)));
  }
  /// One arrival at barrier `b` of this CTA, which also makes the phase wait for `bytes` bytes of copies.
  /// These copies may have started, or even arrived, before.
  FOURSCALE_D void arrive_expecting(u32 b, u32 bytes) const {
    cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                         cuda::ptx::space_shared, barriers + b, bytes);
  }
  /// Loads the box of a map at byte `k` of row `row`. Bytes outside the matrix arrive as zeros.
  FOURSCALE_D void load_box(u8* to, CUtensorMap const* map, i32 k, i32 row, u32 b) const {
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to, map, {k, row},
                                    barriers + b);
  }
  FOURSCALE_D void load_bytes(u8* to, u8 const* from, u32 bytes, u32 b) const {
    cuda::ptx::cp_async_bulk(cuda::ptx::space_cluster, cuda::ptx::space_global, to, from, bytes,
                             barriers + b);
  }
  /// As load_box() and load_bytes(), but to the CTAs of this rank in all groups, by multicast. Barrier `b` of
  /// each of these CTAs counts the bytes that arrive there.
  FOURSCALE_D void share_box(u8* to, CUtensorMap const* map, i32 k, i32 row, u32 b) const {
    if constexpr (Sharing == 1)
      load_box(to, map, k, row, b);
    else
      ptx::cp_async_bulk_tensor_2d_multicast(ptx::shared_address(to), map, k, row,
                                             ptx::shared_address(barriers + b), place::same_rank());
  }
  FOURSCALE_D void share_bytes(u8* to, u8 const* from, u32 bytes, u32 b) const {
    if constexpr (Sharing == 1)
      load_bytes(to, from, bytes, b);
    else
      ptx::cp_async_bulk_multicast(ptx::shared_address(to), from, bytes, ptx::shared_address(barriers + b),
                                   place::same_rank());
  }
  /// Stores a box of D at column `col` of row `row`, as a bulk group of its own. Elements outside D are not
  /// written.
  FOURSCALE_D void store_box(CUtensorMap const* map, i32 col, i32 row, u8 const* from) const {
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_global, cuda::ptx::space_shared, map, {col, row}, from);
    cuda::ptx::cp_async_bulk_commit_group();
  }
  /// A whole warp calls it, one lane of which has stored boxes. Returns when TMA has read the shared memory
  /// of all boxes but the latest `Left`.
  template <int Left>
  FOURSCALE_D void wait_stores() const {
    cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<Left>{});
    __syncwarp();
  }
  /// A barrier of all threads of the cluster.
  FOURSCALE_D void sync() const {
    if constexpr (place::ctas == 1) {
      __syncthreads();
    } else {
      cuda::ptx::barrier_cluster_arrive(cuda::ptx::sem_release);
      cuda::ptx::barrier_cluster_wait(cuda::ptx::sem_acquire);
    }
  }
};

/// The tensor core of one CTA or of a pair; `Sharing` such groups in a cluster share B.
template <int CtaGroup, int Sharing = 1>
struct hardware : cluster_place<CtaGroup, Sharing> {
  static constexpr int helper_warps = 0;  ///< beyond those of the kernel
  struct state {};                        ///< what the host passes to the kernel
  struct shared {};                       ///< what the set keeps in the shared memory of a CTA
  /// False in a compiler pass that cannot emit tcgen05. Call it inside function bodies only, as with the
  /// constants of arch::.
  FOURSCALE_HD static constexpr bool available() { return arch::has_tcgen05; }

  async_copies<CtaGroup, Sharing> copies;

  /// `stages`, `bytes`: the shared memory that descriptors point into; only the model needs to know it.
  FOURSCALE_D hardware(state, shared&, std::uint64_t* barriers, u8* /*stages*/, u32 /*bytes*/)
      : copies{barriers} {}
  FOURSCALE_D static bool issues() { return ptx::elect_sync(); }
  FOURSCALE_D void help() const {}
  FOURSCALE_D void dismiss_helpers() const {}
  FOURSCALE_D void finish() const {}

  // --- Tensor memory: whole warps, in each CTA

  FOURSCALE_D void alloc(u32* slot, u32 columns) const {
    ptx::tcgen05_alloc<CtaGroup>(ptx::shared_address(slot), columns);
  }
  FOURSCALE_D void relinquish_alloc_permit() const { ptx::tcgen05_relinquish_alloc_permit<CtaGroup>(); }
  FOURSCALE_D void dealloc(u32 address, u32 columns) const {
    ptx::tcgen05_dealloc<CtaGroup>(address, columns);
  }
  /// Reads 32 lanes x N columns; the lanes are those of this warp. Call wait_ld() before the registers are
  /// used.
  template <int N>
  FOURSCALE_D void ld(u32 (&r)[N], u32 address) const {
    ptx::tcgen05_ld_32x32b(r, address);
  }
  template <int N>
  FOURSCALE_D void wait_ld(u32 (&r)[N]) const {
    ptx::tcgen05_wait_ld(r);
  }

  // --- Under issues(). cp and mma run in the order of issue; commit() tells when all before it is complete

  /// Copies a 128 x 4 tile of scales to four columns, once for each quarter of the lanes; in both CTAs of a
  /// pair.
  FOURSCALE_D void cp_32x128b_warpx4(u32 to, u64 from) const {
    ptx::tcgen05_cp_32x128b_warpx4<CtaGroup>(to, from);
  }
  /// One MMA of formats F and G, with operands as in ptx/tcgen05.cuh.
  template <block_format F, block_format G>
  FOURSCALE_D void mma(u32 d, u64 a, u64 b, u32 i, u32 sfa, u32 sfb, bool accumulate) const {
    constexpr auto f = format_of<F, G>();
    if constexpr (f.kind == ptx::mma_kind::mxf8f6f4)
      ptx::tcgen05_mma_mxf8f6f4_block32<CtaGroup>(d, a, b, i, sfa, sfb, accumulate);
    else if constexpr (f.block == 32)
      ptx::tcgen05_mma_mxf4nvf4_block32<CtaGroup>(d, a, b, i, sfa, sfb, accumulate);
    else
      ptx::tcgen05_mma_mxf4nvf4_block16<CtaGroup>(d, a, b, i, sfa, sfb, accumulate);
  }
  /// Arrives at barrier `b` of each CTA in the mask `to`, which is own() or all, once the work before it is
  /// done.
  FOURSCALE_D void commit(u32 b, [[maybe_unused]] u16 to) const {
    const u32 barrier = ptx::shared_address(copies.barriers + b);
    if constexpr (CtaGroup * Sharing == 1)
      ptx::tcgen05_commit<1>(barrier);
    else
      ptx::tcgen05_commit_multicast<CtaGroup>(barrier, to);
  }
  FOURSCALE_D void load_box(u8* to, CUtensorMap const* map, i32 k, i32 row, u32 /*bytes*/, u32 b) const {
    copies.load_box(to, map, k, row, b);
  }
  FOURSCALE_D void load_bytes(u8* to, u8 const* from, u32 bytes, u32 b) const {
    copies.load_bytes(to, from, bytes, b);
  }
  FOURSCALE_D void share_box(u8* to, CUtensorMap const* map, i32 k, i32 row, u32 /*bytes*/, u32 b) const {
    copies.share_box(to, map, k, row, b);
  }
  FOURSCALE_D void share_bytes(u8* to, u8 const* from, u32 bytes, u32 b) const {
    copies.share_bytes(to, from, bytes, b);
  }
  FOURSCALE_D void arrive_expecting(u32 b, u32 bytes) const { copies.arrive_expecting(b, bytes); }
  FOURSCALE_D void init_barrier(u32 b, u32 arrivals) const { copies.init_barrier(b, arrivals); }
  FOURSCALE_D void fence_barrier_init() const {
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }

  // --- Order

  FOURSCALE_D void fence_before_thread_sync() const { ptx::tcgen05_fence_before_thread_sync(); }
  FOURSCALE_D void fence_after_thread_sync() const { ptx::tcgen05_fence_after_thread_sync(); }
  FOURSCALE_D void sync() const { copies.sync(); }
  FOURSCALE_D void wait(u32 b, u32 parity) const {
    while (!copies.try_wait(b, parity)) {
    }
  }
  /// One arrival for a whole warp, at barrier `b` of the leader of its group.
  FOURSCALE_D void arrive_at_leader(u32 b) const {
    __syncwarp();
    if (ptx::elect_sync()) copies.arrive(b, this->leader());
  }
  /// Ordinary stores of a warp, 16 bytes a lane. fence_proxy_async() then makes them visible to tcgen05 and
  /// TMA.
  FOURSCALE_D void store(uint4* to, uint4 value) const { to[threadIdx.x % 32] = value; }
  FOURSCALE_D void fence_proxy_async() const {
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncwarp();
  }

  // --- From shared memory to D: whole warps

  /// Tells the model which bytes the lanes are about to store, in any order. Hardware needs no such call.
  FOURSCALE_D void announce_stores(u8 const* /*to*/, u32 /*bytes*/) const {}
  /// Lane 0 hands the box to TMA. Call fence_proxy_async() first.
  FOURSCALE_D void store_box(CUtensorMap const* map, i32 col, i32 row, u8 const* from, u32 /*bytes*/) const {
    if (threadIdx.x % 32 == 0) copies.store_box(map, col, row, from);
  }
  template <int Left>
  FOURSCALE_D void wait_stores() const {
    copies.template wait_stores<Left>();
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma::tcgen05
