// SPDX-License-Identifier: Apache-2.0
// The other instruction set of the tcgen05 GEMM: `model` runs the models of model/ inside the kernel, on any
// GPU from sm_90 on; a shared B needs multicast (arch::has_multicast). mbarriers, TMA and clusters are the
// real ones. Tensor memory lies in global memory; the issuing warp and a few helper warps compute what an
// instruction would. Each call is also told to the checker, under a lock, and the first misuse is kept for
// the host. A wait that takes longer than `patience_ns` ends the kernel, with the misuse `would_hang`.
#pragma once

#include "../model/tcgen05.hpp"
#include "tcgen05_hardware.cuh"

namespace FOURSCALE_NAMESPACE::mma::tcgen05 {

/// The global memory that the model needs for one cluster: a CTA, a pair, or two of either. It must be all
/// zero when the kernel starts.
struct model_memory {
  ::fourscale::model::checker check;
  u32 lock, given_up;
  u32 tensor[::fourscale::model::max_ctas][::fourscale::model::tensor_words];
};

/// The model of the tensor core of one CTA or of a pair. Its functions are those of `hardware`: each first
/// tells the checker, then does the work.
template <int CtaGroup, int Sharing = 1>
struct model : cluster_place<CtaGroup, Sharing> {
  using place = cluster_place<CtaGroup, Sharing>;
  static constexpr int helper_warps = 3;
  struct state {
    model_memory* clusters;           ///< one for each cluster of the grid
    u32* first_misuse;                ///< in device memory; 0: none
    u64 patience_ns = 2'000'000'000;  ///< how long a wait may take
  };
  struct shared {
    ::fourscale::model::mma_call call;
    bool done;
  };
  FOURSCALE_HD static constexpr bool available() {
    return Sharing == 1 ? FOURSCALE_DEVICE_PASS >= 900 : arch::has_multicast;
  }

  using misuse = ::fourscale::model::misuse;
  async_copies<CtaGroup, Sharing> copies;
  state given;
  shared& helpers;
  model_memory& memory;
  ::fourscale::model::tensor_core core;
  ::fourscale::model::agent self;

  FOURSCALE_D model(state const& s, shared& with_helpers, std::uint64_t* barriers, u8* stages, u32 bytes)
      : copies{barriers},
        given(s),
        helpers(with_helpers),
        memory(s.clusters[blockIdx.x / place::ctas]),
        core{&memory.check, {}, CtaGroup},
        self{place::cta(), threadIdx.x / 32} {
    for (u32 i = 0; i < place::ctas; ++i) {
      u8* const of_cta = place::ctas == 1 ? stages : static_cast<u8*>(__cluster_map_shared_rank(stages, i));
      core.cta[i] = {{memory.tensor[i]}, {of_cta, offset_of(stages), bytes}};
    }
  }
  FOURSCALE_D static u32 lane() { return threadIdx.x % 32; }
  /// A shared address as descriptors hold it, in 18 bits. In a cluster, the rank of the CTA stands above
  /// these bits.
  FOURSCALE_D static u32 offset_of(void const* p) { return ptx::shared_address(p) & 0x3ffffu; }
  FOURSCALE_D static bool issues() { return true; }

  // --- The checker, one caller at a time

  /// Tells `call` to the checker. A whole warp calls this; lane 0 makes the call, and all lanes get the
  /// answer: true if it is no misuse. The checker does not know the helper warps: they always get true.
  template <class Call>
  FOURSCALE_D bool checked(Call const& call) const {
    if (self.warp >= warps) return true;
    u32 right = 0;
    __syncwarp();
    if (lane() == 0) {
      while (atomicCAS(&memory.lock, 0, 1) != 0) {
      }
      __threadfence();
      const misuse e = call(memory.check);
      right = e == misuse::ok;
      if (!right) atomicCAS(given.first_misuse, 0, static_cast<u32>(e));
      __threadfence();
      atomicExch(&memory.lock, 0);
    }
    return __shfl_sync(0xffff'ffffu, right, 0) != 0;
  }
  template <class Call>
  FOURSCALE_D void noted(Call const& call) const {
    checked([&](auto& check) { return call(check), misuse::ok; });
  }
  FOURSCALE_D bool given_up() const { return *static_cast<u32 volatile*>(&memory.given_up) != 0; }

  // --- Helpers: warps that share the work of an mma with the issuing warp

  static constexpr u32 workers = 32 * (1 + helper_warps);
  FOURSCALE_D static void meet() { asm volatile("bar.sync 1, %0;" ::"n"(workers) : "memory"); }
  __noinline__ FOURSCALE_D void work() const {
    const u32 warp = threadIdx.x / 32;
    core.run_mma(self, helpers.call, warp == issue_warp ? lane() : threadIdx.x - 32 * (warps - 1), workers);
  }
  FOURSCALE_D void help() const {
    for (meet(); !helpers.done; meet()) {
      work();
      meet();
    }
  }
  FOURSCALE_D void dismiss_helpers() const {
    if (lane() == 0) helpers.done = true;
    __syncwarp();
    meet();
  }
  /// The issuing warp of each CTA calls it last.
  __noinline__ FOURSCALE_D void finish() const {
    checked([&](auto& check) { return check.finish(self.cta); });
  }

  // --- Tensor memory

  __noinline__ FOURSCALE_D void alloc(u32* slot, u32 columns) const {
    u32 address = 0;
    if (lane() == 0) helpers.done = false;
    checked([&](auto&) { return core.alloc(self, columns, address); });
    if (lane() == 0) *slot = address;
  }
  __noinline__ FOURSCALE_D void relinquish_alloc_permit() const {
    checked([&](auto&) { return core.relinquish(self); });
  }
  __noinline__ FOURSCALE_D void dealloc(u32 address, u32 columns) const {
    checked([&](auto&) { return core.dealloc(self, address, columns); });
  }
  template <int N>
  __noinline__ FOURSCALE_D void ld(u32 (&r)[N], u32 address) const {
    const ::fourscale::model::ld_call call{::fourscale::model::ld_shape::s32x32b, N, address};
    if (checked([&](auto&) { return core.begin_ld(self, call, ::fourscale::model::flow::load); }))
      core.load(self, call, lane(), r);
    else
      for (u32& x : r) x = ::fourscale::model::mma_nan_bits;
  }
  template <int N>
  __noinline__ FOURSCALE_D void wait_ld(u32 (&)[N]) const {
    noted([&](auto& check) { check.wait_ld(self); });
  }

  // --- Under issues()

  __noinline__ FOURSCALE_D void cp_32x128b_warpx4(u32 to, u64 from) const {
    const ::fourscale::model::cp_call call{::fourscale::model::cp_shape::s32x128b_warpx4, to, from};
    if (checked([&](auto&) { return core.begin_cp(self, call); })) core.run_cp(self, call, lane(), 32);
    __syncwarp();
  }
  template <block_format F, block_format G>
  FOURSCALE_D void mma(u32 d, u64 a, u64 b, u32 i, u32 sfa, u32 sfb, bool accumulate) const {
    constexpr auto f = format_of<F, G>();
    run({{f.kind, f.block, i}, d, a, b, sfa, sfb, accumulate});
  }
  __noinline__ FOURSCALE_D void run(::fourscale::model::mma_call const& call) const {
    if (!checked([&](auto&) { return core.begin_mma(self, call); }) || given_up()) return;
    if (lane() == 0) helpers.call = call;
    __syncwarp();
    meet();
    work();
    meet();
  }
  __noinline__ FOURSCALE_D void commit(u32 b, u16 to) const {
    checked([&](auto&) { return core.commit(self, b, to); });
    if ((u32{to} >> lane() & 1u) != 0 && !given_up()) copies.arrive(b, lane());
    __syncwarp();
  }
  FOURSCALE_D void load_box(u8* to, CUtensorMap const* map, i32 k, i32 row, u32 bytes, u32 b) const {
    note_copy(to, bytes, b, 1u << self.cta);
    if (lane() == 0 && !given_up()) copies.load_box(to, map, k, row, b);
    __syncwarp();
  }
  FOURSCALE_D void load_bytes(u8* to, u8 const* from, u32 bytes, u32 b) const {
    note_copy(to, bytes, b, 1u << self.cta);
    if (lane() == 0 && !given_up()) copies.load_bytes(to, from, bytes, b);
    __syncwarp();
  }
  FOURSCALE_D void share_box(u8* to, CUtensorMap const* map, i32 k, i32 row, u32 bytes, u32 b) const {
    note_copy(to, bytes, b, place::same_rank());
    if (lane() == 0 && !given_up()) copies.share_box(to, map, k, row, b);
    __syncwarp();
  }
  FOURSCALE_D void share_bytes(u8* to, u8 const* from, u32 bytes, u32 b) const {
    note_copy(to, bytes, b, place::same_rank());
    if (lane() == 0 && !given_up()) copies.share_bytes(to, from, bytes, b);
    __syncwarp();
  }
  __noinline__ FOURSCALE_D void note_copy(void const* to, u32 bytes, u32 b, u32 ctas) const {
    const u32 begin = offset_of(to);
    checked([&](auto& check) { return check.copy_to_shared(self, ctas, begin, begin + bytes, b); });
  }
  __noinline__ FOURSCALE_D void arrive_expecting(u32 b, u32 bytes) const {
    checked([&](auto& check) { return check.arrive(self, self.cta, b, bytes); });
    if (lane() == 0 && !given_up()) copies.arrive_expecting(b, bytes);
    __syncwarp();
  }
  __noinline__ FOURSCALE_D void init_barrier(u32 b, u32 arrivals) const {
    checked([&](auto& check) { return check.barrier_init(self.cta, b, arrivals); });
    if (lane() == 0) copies.init_barrier(b, arrivals);
  }
  FOURSCALE_D void fence_barrier_init() const {
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }

  // --- Order

  __noinline__ FOURSCALE_D void fence_before_thread_sync() const {
    noted([&](auto& check) { check.fence_before(self); });
  }
  __noinline__ FOURSCALE_D void fence_after_thread_sync() const {
    noted([&](auto& check) { check.fence_after(self); });
  }
  __noinline__ FOURSCALE_D void sync() const {
    copies.sync();
    u32 agents = 0;
    for (u32 i = 0; i < place::ctas; ++i)
      agents |= ((1u << warps) - 1) << (i * ::fourscale::model::warps_per_cta);
    if (self.index() == 0) noted([&](auto& check) { check.sync(agents); });
    copies.sync();
  }
  __noinline__ FOURSCALE_D void wait(u32 b, u32 parity) const {
    const u64 start = cuda::ptx::get_sreg_globaltimer();
    while (!copies.try_wait(b, parity) && !given_up())
      if (cuda::ptx::get_sreg_globaltimer() - start > given.patience_ns) atomicExch(&memory.given_up, 1);
    checked([&](auto& check) { return check.wait(self, b, parity); });
  }
  __noinline__ FOURSCALE_D void arrive_at_leader(u32 b) const {
    checked([&](auto& check) { return check.arrive(self, place::leader(), b); });
    if (lane() == 0 && !given_up()) copies.arrive(b, place::leader());
    __syncwarp();
  }
  FOURSCALE_D void store(uint4* to, uint4 value) const {
    to[lane()] = value;
    announce_stores(reinterpret_cast<u8 const*>(to), 32 * sizeof(uint4));
  }
  __noinline__ FOURSCALE_D void fence_proxy_async() const {
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    noted([&](auto& check) { check.proxy_fence(self); });
  }

  // --- From shared memory to D

  __noinline__ FOURSCALE_D void announce_stores(u8 const* to, u32 bytes) const {
    const u32 begin = offset_of(to);
    checked([&](auto& check) { return check.write_shared(self, begin, begin + bytes, false); });
  }
  FOURSCALE_D void store_box(CUtensorMap const* map, i32 col, i32 row, u8 const* from, u32 bytes) const {
    const u32 begin = offset_of(from);
    checked([&](auto& check) { return check.copy_from_shared(self, begin, begin + bytes); });
    if (lane() == 0) copies.store_box(map, col, row, from);
    __syncwarp();
  }
  template <int Left>
  FOURSCALE_D void wait_stores() const {
    copies.template wait_stores<Left>();
    noted([&](auto& check) { check.wait_copied(self, Left); });
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma::tcgen05
