// SPDX-License-Identifier: Apache-2.0
// What the CTAs of a weight-only GEMM do: a cluster takes a run of tiles of W, each CTA of it a part of K and
// each warp a part of the tiles' stages. Sums of warps and CTAs are added up in order.
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
  bool wide_x = false, wide_codes = false, wide_scales = false;
  weight_only::plan plan = {};
  tma_maps maps = {};  ///< if the plan is by TMA
};

/// The CTAs that share a unit: a cluster, or one CTA where there are none. wait() returns when all threads
/// have arrived.
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

/// Four floats in the shared memory of CTA `of` of the team, at the place that `mine` has in this one.
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

/// A warp's sums of a tile to their slot, [row of X][row of W], or added to it.
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

/// The tensor's amax, which is needed at the end only.
template <class P>
FOURSCALE_D float load_amax(P const& a) {
  return a.w.amax.by_row() ? 0.0f : amax_of_row(a.w, 0);
}

/// The factor of a row of W. `of_all`: for a tensor with one amax.
template <class P>
FOURSCALE_D float factor_of_row(P const& a, i64 n, float of_all) {
  return a.w.amax.by_row() ? weight_factor(a.factors.alpha, a.w.amax.range, amax_of_row(a.w, n)) : of_all;
}

inline constexpr int sums_at_once = 4;  ///< of neighbouring rows of W

/// Stores the elements of row m of D from column n on. `factor_of_all`: for a tensor with one amax.
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

/// Adds up the parts of K, in order, and stores this CTA's elements of a unit.
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

/// Waits until of the `depth` latest groups of copies the first has arrived.
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

/// How weights and X come to shared memory by copies of all lanes, and how a stage of them is added.
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

  /// X of a pass, for all warps.
  template <class TD>
  FOURSCALE_D void fill_x(problem<T, Layout, TD> const& a, int pass) {
    __syncthreads();
    weight_only::fill_x<NTiles>(a.x, walk().first_stage() + pass * p.pass_stages, walk().count_of(pass),
                                a.wide_x, x);
    __syncthreads();
  }

  /// Adds a stage times stage `of_x` of X; halves are refilled as they are read.
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

/// The same by TMA. X is asked for before W, or it would wait for all that the rings hold.
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
      cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // as in add_stage()
      __syncthreads();
      start_x(pass);
    }
    first_fill = false;
    ptx::mbarrier_wait(ptx::shared_address(x_arrived), x_parity);
    x_parity ^= 1;
  }

  /// Two halves in a row: a loop over them was slower, as were halves that are loaded one ahead.
  FOURSCALE_D void add_stage(int of_x, sums<NTiles>& sums) {
    const tma_x<NTiles> x_stage{x + of_x * x_stage_bytes(NTiles)};
    ptx::mbarrier_wait(ptx::shared_address(stream.full + slot), parity);
    FOURSCALE_UNROLL
    for (int half = 0; half < halves; ++half) {
      lane_weights<T> w;
      w.load_tma(ring + slot * code_bytes, scale_ring + slot * scales_bytes, half, Layout::has_padding);
      if (half == 1) {
        cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // what was read is not overwritten before
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

/// A warp's sums, and where they go.
template <int NTiles, class Loads>
struct warp_work {
  plan const& p;
  Loads loads;
  float* slots;
  weight_only::sums<NTiles> sums;
  int tile = -1, of_pass = 0;    ///< of a unit, whose sums these are, and the first pass in them
  bool others_may_read = false;  ///< sums of the unit before

  template <class P>
  FOURSCALE_D warp_work(P const& a, u8* memory, int cluster)
      : p(a.plan), loads(a, memory, cluster), slots(reinterpret_cast<float*>(memory + p.slots_at())) {}

  /// Items of a pass in a unit of `count` tiles.
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

  /// Sums of a tile, if there is one, to their slot.
  FOURSCALE_D void keep_tile(int count) {
    if (tile < 0) return;
    wait_for_readers();
    keep(sums, slots + p.slot_of(weight_walk::warp(), tile, count) * (p.slot_bytes() / 4), of_pass > 0);
    tile = -1;
  }
  FOURSCALE_D void wait_for_readers() {
    if (others_may_read) cta_team::wait();
    others_may_read = false;
  }
};

/// All that a CTA does.
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
    if constexpr (!arch::has_cluster) warp.wait_for_readers();  // __syncthreads()
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
  if constexpr (arch::has_cluster) warp.wait_for_readers();
}

}  // namespace FOURSCALE_NAMESPACE::mma::weight_only
