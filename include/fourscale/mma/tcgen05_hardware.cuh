// SPDX-License-Identifier: Apache-2.0
// What a tcgen05 GEMM is a template over: who has tensor memory and multiplies. `hardware` is the tensor core
// of sm_100, sm_103 and sm_110; tcgen05_model.cuh has the other one. The rest, mbarriers, bulk copies and
// clusters, is the same on Hopper and Blackwell, and both instruction sets take it from `async_copies`.
//
// A set is a small object in the registers of every thread. Whole warps call its functions, and each decides
// how many lanes act. What stands under `if (set.issues())` is single-threaded work: hardware sends one
// elected lane there, the model all of them, to share it. Barriers go by number.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "../ptx/elect.cuh"
#include "../ptx/ldmatrix.cuh"
#include "../ptx/tcgen05.cuh"
#include "../ptx/tcgen05_ld_st.cuh"
#include "tcgen05_tile.cuh"

namespace FOURSCALE_NAMESPACE::mma::tcgen05 {

/// mbarriers, TMA and barriers of a CTA or of a pair (a cluster of two). Single-threaded, but for sync().
template <int CtaGroup>
struct async_copies {
  std::uint64_t* barriers;

  /// 0 in the leader, whose one thread issues for both CTAs of a pair.
  FOURSCALE_D static u32 rank() {
    if constexpr (CtaGroup == 1) return 0;
    return cuda::ptx::get_sreg_cluster_ctarank();
  }

  FOURSCALE_D void init_barrier(u32 b, u32 arrivals) const {
    cuda::ptx::mbarrier_init(barriers + b, arrivals);
  }
  FOURSCALE_D bool try_wait(u32 b, u32 parity) const {
    if constexpr (CtaGroup == 1)
      return cuda::ptx::mbarrier_try_wait_parity(barriers + b, parity);
    else
      return cuda::ptx::mbarrier_try_wait_parity(cuda::ptx::sem_acquire, cuda::ptx::scope_cluster,
                                                 barriers + b, parity);
  }
  /// On a barrier of CTA `to` of the pair.
  FOURSCALE_D void arrive(u32 b, [[maybe_unused]] u32 to) const {
    if constexpr (CtaGroup == 1)
      cuda::ptx::mbarrier_arrive(barriers + b);
    else
      cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cluster, cuda::ptx::space_cluster,
                                 static_cast<std::uint64_t*>(__cluster_map_shared_rank(barriers + b, to)));
  }
  /// One arrival, and so many bytes by copies on this barrier, which may have started or arrived already.
  FOURSCALE_D void arrive_expecting(u32 b, u32 bytes) const {
    cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                         cuda::ptx::space_shared, barriers + b, bytes);
  }
  /// The box of a map at byte `k` of row `row`. What lies outside the matrix arrives as zeros.
  FOURSCALE_D void load_box(u8* to, CUtensorMap const* map, i32 k, i32 row, u32 b) const {
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to, map, {k, row},
                                    barriers + b);
  }
  FOURSCALE_D void load_bytes(u8* to, u8 const* from, u32 bytes, u32 b) const {
    cuda::ptx::cp_async_bulk(cuda::ptx::space_cluster, cuda::ptx::space_global, to, from, bytes,
                             barriers + b);
  }
  /// All threads of the CTA, or of the pair.
  FOURSCALE_D void sync() const {
    if constexpr (CtaGroup == 1) {
      __syncthreads();
    } else {
      cuda::ptx::barrier_cluster_arrive(cuda::ptx::sem_release);
      cuda::ptx::barrier_cluster_wait(cuda::ptx::sem_acquire);
    }
  }
};

template <int CtaGroup>
struct hardware {
  static constexpr int cta_group = CtaGroup;
  static constexpr int helper_warps = 0;  ///< beyond those of the kernel
  struct state {};                        ///< what the host hands over
  struct shared {};                       ///< what it keeps in the shared memory of a CTA
  /// False in a pass that cannot emit it. To be read as arch:: is: inside function bodies.
  FOURSCALE_HD static constexpr bool available() { return arch::has_tcgen05; }

  async_copies<CtaGroup> copies;

  /// `stages`: the shared memory that descriptors point into.
  FOURSCALE_D hardware(state, shared&, std::uint64_t* barriers, u8* /*stages*/, u32 /*bytes*/)
      : copies{barriers} {}
  FOURSCALE_D static u32 rank() { return async_copies<CtaGroup>::rank(); }
  FOURSCALE_D static bool issues() { return ptx::elect_sync(); }
  FOURSCALE_D void help() const {}
  FOURSCALE_D void dismiss_helpers() const {}
  FOURSCALE_D void finish() const {}

  // --- Tensor memory, by a warp of each CTA

  FOURSCALE_D void alloc(u32* slot, u32 columns) const {
    ptx::tcgen05_alloc<CtaGroup>(ptx::shared_address(slot), columns);
  }
  FOURSCALE_D void relinquish_alloc_permit() const { ptx::tcgen05_relinquish_alloc_permit<CtaGroup>(); }
  FOURSCALE_D void dealloc(u32 address, u32 columns) const {
    ptx::tcgen05_dealloc<CtaGroup>(address, columns);
  }
  /// 32 lanes x N columns, in the lanes of the warp. wait_ld() before the registers are used.
  template <int N>
  FOURSCALE_D void ld(u32 (&r)[N], u32 address) const {
    ptx::tcgen05_ld_32x32b(r, address);
  }
  template <int N>
  FOURSCALE_D void wait_ld(u32 (&r)[N]) const {
    ptx::tcgen05_wait_ld(r);
  }

  // --- Under issues(). They run one after the other; commit() says when all before it is over

  /// A 128 x 4 tile of scales to four columns, for each quarter of the lanes; in both CTAs of a pair.
  FOURSCALE_D void cp_32x128b_warpx4(u32 to, u64 from) const {
    ptx::tcgen05_cp_32x128b_warpx4<CtaGroup>(to, from);
  }
  /// Operands as in ptx/tcgen05.cuh.
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
  /// Arrives at this barrier of each CTA.
  FOURSCALE_D void commit(u32 b) const {
    if constexpr (CtaGroup == 1)
      ptx::tcgen05_commit<1>(ptx::shared_address(copies.barriers + b));
    else
      ptx::tcgen05_commit_multicast<2>(ptx::shared_address(copies.barriers + b), 3);
  }
  FOURSCALE_D void load_box(u8* to, CUtensorMap const* map, i32 k, i32 row, u32 /*bytes*/, u32 b) const {
    copies.load_box(to, map, k, row, b);
  }
  FOURSCALE_D void load_bytes(u8* to, u8 const* from, u32 bytes, u32 b) const {
    copies.load_bytes(to, from, bytes, b);
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
  /// One arrival of a warp at a barrier of the leader.
  FOURSCALE_D void arrive_at_leader(u32 b) const {
    __syncwarp();
    if (ptx::elect_sync()) copies.arrive(b, 0);
  }
  /// Ordinary stores of a warp, 16 bytes a lane, and the fence that shows them to tcgen05 and TMA.
  FOURSCALE_D void store(uint4* to, uint4 value) const { to[threadIdx.x % 32] = value; }
  FOURSCALE_D void fence_proxy_async() const {
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncwarp();
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma::tcgen05
