// SPDX-License-Identifier: Apache-2.0
// The kernel body of the weight-only GEMM by mma.sync. A cluster takes consecutive tiles of W, and each of
// its CTAs takes a part of K. Of the stages that a CTA has of these tiles, each warp takes a share.
//
// All warps have the same role. Each fills its own rings with codes and scales, ahead of its arithmetic, and
// multiplies them by X, which all warps share. It leaves its sums of a tile in a slot in shared memory. At
// the end of a unit (a run of tiles) the CTAs meet at a cluster barrier. Then each CTA adds up the slots of
// all warps and CTAs for a part of the outputs, in order, and stores that part.
#pragma once

#include "../ptx/cluster.cuh"
#include "../view/gemm_epilogue.hpp"
#include "../view/gemm_factors.hpp"
#include "weight_only_tma.cuh"

namespace FOURSCALE_NAMESPACE::mma::weight_only {

/// The arguments of the kernel.
template <class T, class Layout, class TD>
struct problem {
  matrix_view<T const> x;
  block_scaled_view<nvfp4, Layout, u8 const> w;
  matrix_view<TD> d;
  gemm_factors factors;
  bool wide_x = false, wide_codes = false, wide_scales = false;  ///< see load_x() and weight_stream
  weight_only::plan plan = {};
  tma_maps maps = {};  ///< if plan.by_tma
};

/// The CTAs that share a unit: a cluster or, before sm_90, a single CTA. All threads call arrive() and
/// wait(), which returns when all threads of the team have arrived.
struct cta_team {
  FOURSCALE_D static int rank() {
    if constexpr (arch::has_cluster) return static_cast<int>(ptx::cluster_ctarank());
    return 0;
  }
  FOURSCALE_D static void arrive() {
    if constexpr (arch::has_cluster) ptx::barrier_cluster_arrive();
  }
  FOURSCALE_D static void wait() {
    if constexpr (arch::has_cluster)
      ptx::barrier_cluster_wait();
    else
      __syncthreads();
  }
};

/// Loads four floats from the shared memory of CTA `of` of the team, from the place of `mine` in this CTA's.
FOURSCALE_D inline float4 load_of_team(float const* mine, [[maybe_unused]] int of) {
  if constexpr (arch::has_cluster)
    return ptx::ld_shared_cluster_f32x4(
        ptx::mapa_shared_cluster(ptx::shared_address(mine), static_cast<u32>(of)));
  return *reinterpret_cast<float4 const*>(mine);
}

FOURSCALE_D inline float4 add(float4 a, float4 b) {
  return {ptx::add_rn_f32(a.x, b.x), ptx::add_rn_f32(a.y, b.y), ptx::add_rn_f32(a.z, b.z),
          ptx::add_rn_f32(a.w, b.w)};
}

/// A whole warp writes its sums of a tile to their slot, [row of X][row of W], or adds them to it.
template <int NTiles>
FOURSCALE_D void keep(sums<NTiles> const& from, float* slot, bool add) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* const mine = slot + lane % 4 * 2 * plan::sum_pitch + lane_row(lane);
  FOURSCALE_UNROLL
  for (int j = 0; j < lane_rows; ++j) {
    FOURSCALE_UNROLL
    for (int i = 0; i < 2 * NTiles; ++i) {
      float& to = mine[(i / 2 * 8 + i % 2) * plan::sum_pitch + 8 * j];
      const float x = from.d[j / 2][i / 2][j % 2 * 2 + i % 2];
      to = add ? ptx::add_rn_f32(to, x) : x;
    }
  }
}

/// The amax of the tensor, or 0 where each row has its own. Only the epilogue needs it.
template <class P>
FOURSCALE_D float load_amax(P const& a) {
  return a.w.amax.by_row() ? 0.0f : amax_of_row(a.w, 0);
}

/// The factor of the outputs of row n of W. `of_all`: the factor of a tensor with one amax.
template <class P>
FOURSCALE_D float factor_of_row(P const& a, i64 n, float of_all) {
  return a.w.amax.by_row() ? weight_factor(a.factors.alpha, a.w.amax.range, amax_of_row(a.w, n)) : of_all;
}

inline constexpr int sums_at_once = 4;  ///< of neighbouring rows of W, which a thread stores together

/// Stores up to four elements of row m of D, from column n on. `factor_of_all`: as in factor_of_row().
template <class P>
FOURSCALE_D void store_sums(P const& a, i64 m, i64 n, float4 sum, float factor_of_all) {
  const float sums[sums_at_once] = {sum.x, sum.y, sum.z, sum.w};
  FOURSCALE_UNROLL
  for (int i = 0; i < sums_at_once; ++i) {
    if (n + i >= a.d.cols) break;
    const float factor = factor_of_row(a, n + i, factor_of_all);
    store_output(a.d.at(m, n + i), factor, ptx::mul_rn_f32(sums[i], sum_factor), a.factors.beta);
  }
}

/// Adds up the sums of a unit, warp after warp and for each warp CTA after CTA, and stores this CTA's share
/// of the outputs. All threads of the CTA call it.
template <int NTiles, class T, class Layout, class TD>
FOURSCALE_D void store_unit(problem<T, Layout, TD> const& a, span_of tiles, float amax, float const* slots) {
  plan const& p = a.plan;
  constexpr int stride = row_stride(Layout::has_padding);
  const int count = tiles.end - tiles.begin, rows = count * warp_rows;
  constexpr int at_once = sums_at_once;
  const float factor_of_all = weight_factor(a.factors.alpha, a.w.amax.range, amax);
  const int all = rows / at_once * static_cast<int>(a.x.rows), threads = static_cast<int>(blockDim.x);
#pragma unroll 1
  for (int e = cta_team::rank() * threads + static_cast<int>(threadIdx.x); e < all; e += p.ctas * threads) {
    const int m = e / (rows / at_once), row = (e - m * (rows / at_once)) * at_once, tile = row / 32;
    const i64 n = row_at(tiles.begin + tile, row % 32, stride);
    const span_of warps = p.warps_of(tile, count);
    float4 sum{};
#pragma unroll 1
    for (int warp = warps.begin; warp < warps.end; ++warp) {
      float const* const slot =
          slots + p.slot_of(warp, tile, count) * (p.slot_bytes() / 4) + m * plan::sum_pitch + row % 32;
      float4 part[most_ctas];
      FOURSCALE_UNROLL
      for (int i = 0; i < most_ctas; ++i) part[i] = i < p.ctas ? load_of_team(slot, i) : float4{};
      FOURSCALE_UNROLL
      for (int i = 0; i < most_ctas; ++i) sum = add(sum, part[i]);
    }
    store_sums(a, m, n, sum, factor_of_all);
  }
}

/// Waits until the oldest of the latest `depth` groups of cp.async has arrived. A whole warp calls it.
FOURSCALE_D inline void wait_for_first(int depth) {
  static_assert(least_depth == 2 && most_depth == 4, "as below");
  if (depth == 3)
    ptx::cp_async_wait_group<2>();
  else if (depth == 4)
    ptx::cp_async_wait_group<3>();
  else
    ptx::cp_async_wait_group<1>();
  __syncwarp();
}

/// Loads without TMA, by copies of all lanes, and adds the products of a stage at a time.
template <int NTiles, class T, class Layout>
struct loads_by_copies {
  plan const& p;
  weight_stream<Layout> stream;
  u8 *ring, *scale_ring, *x;
  int slot = 0, scale_slot = 0;

  template <class TD>
  FOURSCALE_D loads_by_copies(problem<T, Layout, TD> const& a, u8* memory, int cluster)
      : p(a.plan),
        stream(a.w, a.plan, a.wide_codes, a.wide_scales, cta_team::rank(), cluster),
        ring(memory + weight_walk::warp() * p.code_ring_bytes()),
        scale_ring(memory + p.scales_at() + weight_walk::warp() * p.scale_ring_bytes()),
        x(memory + p.x_at()) {
    for (int i = 0; i < p.depth; ++i) stream.start(ring, scale_ring, i);
  }
  FOURSCALE_D weight_walk const& walk() const { return stream.walk; }

  /// Brings X of a pass to shared memory. All threads of the CTA call it.
  template <class TD>
  FOURSCALE_D void fill_x(problem<T, Layout, TD> const& a, int pass) {
    __syncthreads();
    weight_only::fill_x<NTiles>(a.x, walk().first_stage() + pass * p.pass_stages, walk().count_of(pass),
                                a.wide_x, x);
    __syncthreads();
  }

  /// Adds the warp's next stage of W times stage `of_x` of X. Halves are refilled once they are read.
  FOURSCALE_D void add_stage(int of_x, sums<NTiles>& sums) {
    const filled_x<NTiles> x_stage{x + of_x * x_stage_bytes(NTiles)};
#pragma unroll 1
    for (int half = 0; half < halves; ++half) {
      wait_for_first(p.depth);
      lane_weights<T> w;
      w.load(ring + slot * half_bytes, scale_ring + scale_slot * scales_bytes, half, Layout::has_padding);
      __syncwarp();
      constexpr bool refill_first = arch::has_cluster;  // sm_80 has too few registers
      if constexpr (refill_first) stream.start(ring, scale_ring, slot);
      add_half(w, x_stage, half, sums);
      if constexpr (!refill_first) stream.start(ring, scale_ring, slot);
      slot = slot + 1 == p.depth ? 0 : slot + 1;
    }
    scale_slot = scale_slot + 1 == scale_depth(p.depth) ? 0 : scale_slot + 1;
  }
};

/// The same with TMA. The copies of X are started before those of W: otherwise X would arrive after all the
/// stages that the rings hold.
template <int NTiles, class T, class Layout>
struct loads_by_tma {
  plan const& p;
  u8 *ring, *scale_ring, *x;
  std::uint64_t* x_arrived;
  tma_stream<Layout> stream;
  int slot = 0;
  u32 parity = 0, x_parity = 0;

  template <class TD>
  FOURSCALE_D loads_by_tma(problem<T, Layout, TD> const& a, u8* memory, int cluster)
      : p(a.plan),
        ring(memory + weight_walk::warp() * p.code_ring_bytes()),
        scale_ring(memory + p.scales_at() + weight_walk::warp() * p.scale_ring_bytes()),
        x(memory + p.x_at()),
        x_arrived(barriers(a.plan, memory)),
        stream(a.maps, p, a.w.cols, cta_team::rank(), cluster,
               x_arrived + 1 + weight_walk::warp() * p.depth) {
    __syncthreads();
    start_x(0);
#pragma unroll 1
    for (int i = 0; i < p.depth; ++i) stream.start(ring, scale_ring, i);
  }
  FOURSCALE_D weight_walk const& walk() const { return stream.walk; }

  template <class TD>
  FOURSCALE_D void fill_x(problem<T, Layout, TD> const&, int pass) {
    if (!first_fill) {
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // before TMA overwrites the X that was read
      __syncthreads();
      start_x(pass);
    }
    first_fill = false;
    ptx::mbarrier_wait(ptx::shared_address(x_arrived), x_parity);
    x_parity ^= 1;
  }

  /// The halves are unrolled: a loop over them was slower, and so was loading each half one ahead.
  FOURSCALE_D void add_stage(int of_x, sums<NTiles>& sums) {
    const tma_x<NTiles> x_stage{x + of_x * x_stage_bytes(NTiles)};
    ptx::mbarrier_wait(ptx::shared_address(stream.full + slot), parity);
    FOURSCALE_UNROLL
    for (int half = 0; half < halves; ++half) {
      lane_weights<T> w;
      w.load_tma(ring + slot * code_bytes, scale_ring + slot * scales_bytes, half, Layout::has_padding);
      if (half == 1) {
        cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // before TMA overwrites the slot
        __syncwarp();
        stream.start(ring, scale_ring, slot);
      }
      add_half(w, x_stage, half, sums);
    }
    if (++slot == p.depth) slot = 0, parity ^= 1;
  }

 private:
  bool first_fill = true;

  FOURSCALE_D static std::uint64_t* barriers(plan const& p, u8* memory) {
    auto* const all = reinterpret_cast<std::uint64_t*>(memory + p.barriers_at());
    if (threadIdx.x < static_cast<unsigned>(p.barriers())) cuda::ptx::mbarrier_init(all + threadIdx.x, 1);
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
    return all;
  }
  FOURSCALE_D void start_x(int pass) {
    weight_only::start_x<NTiles>(stream.maps, walk().first_stage() + pass * p.pass_stages,
                                 walk().count_of(pass), x, x_arrived);
  }
};

/// The work of a warp: it adds its share of the stages to `sums`, and writes the sums of each tile to a slot.
template <int NTiles, class Loads>
struct warp_work {
  plan const& p;
  Loads loads;
  float* slots;
  weight_only::sums<NTiles> sums;
  int tile = -1, of_pass = 0;    ///< the tile of the unit that `sums` are of, or -1; the pass they began in
  bool others_may_read = false;  ///< whether other CTAs may still read the slots of the unit before

  template <class P>
  FOURSCALE_D warp_work(P const& a, u8* memory, int cluster)
      : p(a.plan), loads(a, memory, cluster), slots(reinterpret_cast<float*>(memory + p.slots_at())) {}

  /// Adds the warp's items of a pass in a unit of `count` tiles. An item is a stage of a tile.
  FOURSCALE_D void add_pass(int pass, int count) {
    const span_of items = p.items_of(weight_walk::warp(), count);
    const int stages = loads.walk().count_of(pass);
    int next = items.begin / p.pass_stages, stage = items.begin - next * p.pass_stages;
#pragma unroll 1
    for (int item = items.begin; item < items.end; ++next, stage = 0) {
      if (next != tile) {
        keep_tile(count);
        sums.clear();
        tile = next, of_pass = pass;
      }
      const int left = stage + items.end - item;
      int end = left < p.pass_stages ? left : p.pass_stages;
      item += end - stage;
      if (end > stages) end = stages;
#pragma unroll 1
      for (; stage < end; ++stage) loads.add_stage(stage, sums);
    }
  }

  /// Writes the sums of the current tile, if there is one, to their slot. After the first pass it adds them.
  FOURSCALE_D void keep_tile(int count) {
    if (tile < 0) return;
    wait_for_readers();
    keep(sums, slots + p.slot_of(weight_walk::warp(), tile, count) * (p.slot_bytes() / 4), of_pass > 0);
    tile = -1;
  }
  /// Waits until no CTA reads the slots of the unit before.
  FOURSCALE_D void wait_for_readers() {
    if (others_may_read) cta_team::wait();
    others_may_read = false;
  }
};

/// The body of the kernel; all threads of the CTA call it. `memory`: plan.bytes() bytes, aligned to 1 KiB.
template <int NTiles, class Loads, class P>
FOURSCALE_D void multiply(P const& a, u8* memory) {
  plan const& p = a.plan;
  const int cluster = static_cast<int>(blockIdx.x) / p.ctas;
  warp_work<NTiles, Loads> warp(a, memory, cluster);
  const float amax = load_amax(a);
#pragma unroll 1
  for (int unit = 0; unit < p.units; ++unit) {
    const span_of tiles = p.tiles_of(cluster, unit);
    const int count = tiles.end - tiles.begin;
    if constexpr (!arch::has_cluster) warp.wait_for_readers();  // a __syncthreads()
#pragma unroll 1
    for (int pass = 0; pass < p.passes(); ++pass) {
      if (!p.one_pass() || unit == 0) warp.loads.fill_x(a, pass);
      warp.add_pass(pass, count);
    }
    warp.keep_tile(count);
    warp.wait_for_readers();
    cta_team::arrive();
    cta_team::wait();
    store_unit<NTiles>(a, tiles, amax, warp.slots);
    cta_team::arrive();
    warp.others_may_read = true;
  }
  if constexpr (arch::has_cluster) warp.wait_for_readers();  // others may read this CTA's memory until then
}

}  // namespace FOURSCALE_NAMESPACE::mma::weight_only
