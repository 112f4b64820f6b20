// SPDX-License-Identifier: Apache-2.0
// The model's instruction set with one fault planted into it, as a bug of a kernel would look from there.
#pragma once

#include <fourscale/device/gemm_tcgen05.cuh>

#include "mma/gemm_case.cuh"

namespace fourscale::test {

/// Global memory of the model for so many clusters.
struct model_groups {
  device_buffer<mma::tcgen05::model_memory> groups;
  device_buffer<u32> first_misuse;

  explicit model_groups(i64 count) : groups(count), first_misuse(std::vector<u32>{0}) {
    REQUIRE(cudaMemset(groups.data(), 0, static_cast<size_t>(count) * sizeof(mma::tcgen05::model_memory)) ==
            cudaSuccess);
  }
  model::misuse first() const { return static_cast<model::misuse>(first_misuse.to_host()[0]); }
};

/// device::gemm_tcgen05 in at most `clusters` of them, to be handed to a gemm_case.
template <class Set, int Columns>
struct tcgen05_with {
  typename Set::state state;
  int clusters;
  cudaStream_t stream = nullptr;

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    return device::gemm_tcgen05<Set, Columns>(a, b, d, factors, {state, clusters * Set::ctas}, stream);
  }
};

enum class fault {
  none,
  // descriptors and addresses of an mma
  short_stride,
  long_stride,
  off_boundary,
  other_swizzle,
  same_k_step,
  scale_id_1,
  other_scale_id,
  wrong_scale_column,
  n_of_128,
  m_of_256,
  blocks_of_32,
  accumulate_first,
  never_accumulate,
  d_over_scales,
  // scales
  no_cp,
  swizzled_cp,
  padding_kept,
  // order
  no_commit,
  no_fence_before,
  no_fence_after,
  no_wait_ld,
  no_wait_full,
  no_wait_empty,
  no_wait_accumulator_full,
  no_wait_accumulator_free,
  no_proxy_fence,
  no_relay,
  expects_less,
  no_wait_stores,
  // between groups that share B
  shares_with_none,
  releases_own,
  one_release,
  // tensor memory
  other_quarter,
  other_columns,
  alloc_448,
  alloc_256,
  no_dealloc,
  dealloc_half,
  other_group,
};

/// For tiles of 256 columns.
template <int CtaGroup, int Sharing = 1>
struct faulty : mma::tcgen05::model<CtaGroup, Sharing> {
  using base = mma::tcgen05::model<CtaGroup, Sharing>;
  using tile = mma::tcgen05::tile<nvfp4, nvfp4, CtaGroup, 256, Sharing>;
  struct state : base::state {
    fault planted;
  };
  fault planted;

  FOURSCALE_D faulty(state const& s, typename base::shared& helpers, std::uint64_t* barriers, u8* stages,
                     u32 bytes)
      : base(s, helpers, barriers, stages, bytes), planted(s.planted) {}
  FOURSCALE_D bool has(fault f) const { return planted == f; }

  template <block_format F, block_format G>
  FOURSCALE_D void mma(u32 d, u64 a, u64 b, u32 i, u32 sfa, u32 sfb, bool accumulate) const {
    constexpr auto f = mma::format_of<F, G>();
    constexpr u64 stride_1024 = u64{64} << 32;
    ::fourscale::model::mma_call c{{f.kind, f.block, i}, d, a, b, sfa, sfb, accumulate};
    if (has(fault::short_stride)) c.b -= stride_1024 / 2;
    if (has(fault::long_stride)) c.a += stride_1024;
    if (has(fault::off_boundary)) c.a += 128 / 16;
    if (has(fault::other_swizzle)) c.a = (a & ~(u64{7} << 61)) | u64{4} << 61;
    if (has(fault::same_k_step)) c.b &= ~u64{6};
    if (has(fault::scale_id_1)) c.instruction.descriptor = ptx::with_scale_ids(i, 1, 0);
    if (has(fault::other_scale_id)) c.instruction.descriptor ^= 2u << 29;
    if (has(fault::wrong_scale_column)) c.scale_a += 4;
    if (has(fault::n_of_128)) c.instruction.descriptor -= 16u << 17;
    if (has(fault::m_of_256)) c.instruction.descriptor += 1u << 27;
    if (has(fault::blocks_of_32)) c.instruction.block = 32;
    if (has(fault::accumulate_first)) c.accumulate = true;
    if (has(fault::never_accumulate)) c.accumulate = false;
    if (has(fault::d_over_scales)) c.d = 256;
    base::run(c);
  }
  FOURSCALE_D void cp_32x128b_warpx4(u32 to, u64 from) const {
    if (has(fault::no_cp)) return;
    base::cp_32x128b_warpx4(to, has(fault::swizzled_cp) ? from | u64{2} << 61 : from);
  }
  FOURSCALE_D void store(uint4* to, uint4 value) const {
    base::store(to, has(fault::padding_kept) ? to[base::lane()] : value);
  }

  FOURSCALE_D void commit(u32 b, u16 to) const {
    if (!has(fault::no_commit)) base::commit(b, has(fault::releases_own) ? base::own() : to);
  }
  FOURSCALE_D void init_barrier(u32 b, u32 arrivals) const {
    const bool empty = b >= tile::empty(0) && b < tile::accumulator_full(0);
    base::init_barrier(b, empty && has(fault::one_release) ? 1 : arrivals);
  }
  FOURSCALE_D void arrive_expecting(u32 b, u32 bytes) const {
    base::arrive_expecting(b, has(fault::expects_less) ? bytes - 512 : bytes);
  }
  FOURSCALE_D void share_box(u8* to, CUtensorMap const* map, i32 k, i32 row, u32 bytes, u32 b) const {
    if (has(fault::shares_with_none))
      base::load_box(to, map, k, row, bytes, b);
    else
      base::share_box(to, map, k, row, bytes, b);
  }
  template <int Left>
  FOURSCALE_D void wait_stores() const {
    if (!has(fault::no_wait_stores)) base::template wait_stores<Left>();
  }
  FOURSCALE_D void fence_before_thread_sync() const {
    if (!has(fault::no_fence_before)) base::fence_before_thread_sync();
  }
  FOURSCALE_D void fence_after_thread_sync() const {
    if (!has(fault::no_fence_after)) base::fence_after_thread_sync();
  }
  template <int N>
  FOURSCALE_D void wait_ld(u32 (&r)[N]) const {
    if (!has(fault::no_wait_ld)) base::wait_ld(r);
  }
  FOURSCALE_D void wait(u32 b, u32 parity) const {
    const bool skipped =
        (has(fault::no_wait_full) && b < tile::empty(0)) ||
        (has(fault::no_wait_empty) && b >= tile::empty(0) && b < tile::accumulator_full(0)) ||
        (has(fault::no_wait_accumulator_full) && b / 2 == tile::accumulator_full(0) / 2) ||
        (has(fault::no_wait_accumulator_free) && b / 2 == tile::accumulator_free(0) / 2);
    if (!skipped) base::wait(b, parity);
  }
  FOURSCALE_D void fence_proxy_async() const {
    if (!has(fault::no_proxy_fence)) base::fence_proxy_async();
  }
  FOURSCALE_D void arrive_at_leader(u32 b) const {
    if (!has(fault::no_relay) || b >= tile::empty(0)) base::arrive_at_leader(b);
  }

  template <int N>
  FOURSCALE_D void ld(u32 (&r)[N], u32 address) const {
    if (has(fault::other_quarter)) address ^= 32u << 16;
    base::ld(r, has(fault::other_columns) ? address + 1 : address);
  }
  FOURSCALE_D void alloc(u32* slot, u32 columns) const {
    if (has(fault::other_group)) {
      ::fourscale::model::tensor_core other = base::core;
      other.group = 3 - CtaGroup;
      u32 address = 0;
      base::checked([&](auto&) { return other.alloc(base::self, columns, address); });
    }
    base::alloc(slot, has(fault::alloc_448) ? 448 : has(fault::alloc_256) ? 256 : columns);
  }
  FOURSCALE_D void dealloc(u32 address, u32 columns) const {
    if (!has(fault::no_dealloc)) base::dealloc(address, has(fault::dealloc_half) ? columns / 2 : columns);
  }
};

}  // namespace fourscale::test
