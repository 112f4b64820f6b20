// SPDX-License-Identifier: Apache-2.0
// The sums of a weight-only GEMM on Hopper go from warpgroup to warpgroup; the last one sends them to the CTA
// of the cluster, which shares K, that stores these rows. Three warps add up what comes, CTAs in order, and
// store it, while the others are at the next tiles.
#pragma once

#include "../ptx/bar.cuh"
#include "weight_only_cta.cuh"
#include "weight_only_wgmma.hpp"

namespace FOURSCALE_NAMESPACE::mma::weight_only::by_wgmma {

/// The arguments of the kernel.
template <class T, class Layout, class TD>
struct problem {
  matrix_view<T const> x;
  block_scaled_view<nvfp4, Layout, u8 const> w;
  matrix_view<TD> d;
  gemm_factors factors;
  by_wgmma::plan plan;
  tma_maps maps;
};

/// The tiles that a cluster takes together.
struct tile_pair {
  int number, first, count, part;  ///< part: rows that each CTA stores
  u32 parity;                      ///< of barriers of sums

  FOURSCALE_D tile_pair(plan const& p, span_of tiles, int n)
      : number(n),
        first(tiles.begin + n * most_tiles),
        count(tiles.end - first < most_tiles ? 1 : most_tiles) {
    part = count * tile_rows / p.ctas, parity = static_cast<u32>(n) & 1;
  }
};
FOURSCALE_D inline int pairs_of(span_of tiles) { return ceil_div(tiles.end - tiles.begin, most_tiles); }

template <int NTiles>
using tile_sums = float[4 * NTiles];

// Named barriers: 1 to 4 are a warpgroup's own; 5 to 7 open for warpgroups 1 to 3 when the one before has
// written its sums; 8 to 11 open for warpgroup g when the stage before its own has arrived; 12 when barriers
// are there; 13 when the last pair's sums are sent.
FOURSCALE_HD constexpr int own_barrier(int group) { return 1 + group; }
FOURSCALE_HD constexpr int sums_barrier(int group) { return 4 + group; }
FOURSCALE_HD constexpr int turn_barrier(int group) { return 8 + group; }
inline constexpr int begin_barrier = 12, sent_barrier = 13;

/// Where a warpgroup's sums go: the first warpgroup writes them, others add theirs, the last one sends them.
template <int NTiles>
struct sums_on_their_way {
  memory<NTiles>& m;
  plan const& p;
  int group, rows_of_x;
  bool swizzled;

  static constexpr int last = warpgroups(NTiles) - 1;

  FOURSCALE_D void pass(tile_sums<NTiles> (&sums)[most_tiles], tile_pair const& pair) const {
    if (group == 0)
      ptx::mbarrier_wait(ptx::shared_address(&m.sums_free), pair.parity ^ 1);
    else
      ptx::bar_sync(sums_barrier(group), 256);
    if (group == last) {
      if (pair.number == 0) ptx::barrier_cluster_wait();  // all CTAs have their barriers
      ptx::mbarrier_wait(ptx::shared_address(&m.inbox_free), pair.parity ^ 1);
    }
    FOURSCALE_UNROLL
    for (int tile = 0; tile < most_tiles; ++tile) {
      if (tile >= pair.count) break;
      if (group > 0) add_earlier(sums[tile], tile);
      if (group < last)
        write(sums[tile], tile);
      else
        send(sums[tile], pair, tile);
    }
    if (group < last) return ptx::bar_arrive(sums_barrier(group + 1), 256);
    __syncwarp();
    if (ptx::elect_sync()) ptx::mbarrier_arrive(ptx::shared_address(&m.sums_free));
  }

 private:
  /// Of element i of a lane: row of X, and of the pair.
  FOURSCALE_D static int row_of_x_at(int i) {
    return i / 4 * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
  }
  FOURSCALE_D int row_at(int tile, int j) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
    return tile * tile_rows + local_row(swizzled, warp, lane, j);
  }
  FOURSCALE_D void add_earlier(tile_sums<NTiles>& sums, int tile) const {
    float earlier[4 * NTiles];  // all are read before the first is written
    FOURSCALE_UNROLL
    for (int i = 0; i < 4 * NTiles; ++i) earlier[i] = m.sums[row_of_x_at(i)][row_at(tile, i / 2 % 2)];
    FOURSCALE_UNROLL
    for (int i = 0; i < 4 * NTiles; ++i) sums[i] = ptx::add_rn_f32(earlier[i], sums[i]);
  }
  FOURSCALE_D void write(tile_sums<NTiles> const& sums, int tile) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < 4 * NTiles; ++i) m.sums[row_of_x_at(i)][row_at(tile, i / 2 % 2)] = sums[i];
  }
  FOURSCALE_D void send(tile_sums<NTiles> const& sums, tile_pair const& pair, int tile) const {
    u32 inbox[2], full[2];
    FOURSCALE_UNROLL
    for (int j = 0; j < 2; ++j) {
      const int row = row_at(tile, j), owner = row / pair.part;
      const u32 to = static_cast<u32>(owner);
      inbox[j] = ptx::mapa_shared_cluster(ptx::shared_address(m.inbox), to) +
                 static_cast<u32>(cta_team::rank() * 8 * NTiles * pair.part + row - owner * pair.part) * 4;
      full[j] = ptx::mapa_shared_cluster(ptx::shared_address(&m.inbox_full), to);
    }
    FOURSCALE_UNROLL
    for (int i = 0; i < 4 * NTiles; ++i)
      if (row_of_x_at(i) < rows_of_x)
        ptx::st_async_f32(inbox[i / 2 % 2] + static_cast<u32>(row_of_x_at(i) * pair.part * 4), sums[i],
                          full[i / 2 % 2]);
  }
};

/// Waits for the sums of all CTAs for this CTA's rows of a pair, adds them up, in order, and stores them:
/// thread `thread` of `threads`.
template <int NTiles, class T, class Layout, class TD>
FOURSCALE_D void store_pair(problem<T, Layout, TD> const& a, memory<NTiles>& m, tile_pair const& pair,
                            float amax, int thread, int threads) {
  constexpr int at_once = sums_at_once;
  const float factor_of_all = weight_factor(a.factors.alpha, a.w.amax.range, amax);
  const int quads_log2 = 31 - __clz(pair.part / at_once), all = static_cast<int>(a.x.rows) << quads_log2;
  while (!cuda::ptx::mbarrier_try_wait_parity(cuda::ptx::sem_acquire, cuda::ptx::scope_cluster, &m.inbox_full,
                                              pair.parity)) {
  }
#pragma unroll 1
  for (int e = thread; e < all; e += threads) {
    const int row_of_x = e >> quads_log2, mine = (e - (row_of_x << quads_log2)) * at_once,
              row = cta_team::rank() * pair.part + mine;
    const i64 n = row_of_tile(Layout::has_padding, pair.first + row / tile_rows, row % tile_rows);
    float const* const from = m.inbox + row_of_x * pair.part + mine;
    float4 sum = *reinterpret_cast<float4 const*>(from);
#pragma unroll 1
    for (int i = 1; i < a.plan.ctas; ++i)
      sum = add(sum, *reinterpret_cast<float4 const*>(from + i * 8 * NTiles * pair.part));
    store_sums(a, row_of_x, n, sum, factor_of_all);
  }
}

/// Threads that store the last pair: those of warpgroups that have passed their sums on, too.
template <int NTiles>
FOURSCALE_HD constexpr int last_store_threads() {
  return 32 * store_warps + 128 * (warpgroups(NTiles) - 1);
}

/// The warps that store. All CTAs are told that this inbox is free, but not after the last pair, when they
/// may have gone.
template <int NTiles, class T, class Layout, class TD>
FOURSCALE_D void store(problem<T, Layout, TD> const& a, memory<NTiles>& m, span_of tiles) {
  const float amax = load_amax(a);
  const int pairs = pairs_of(tiles), lane = static_cast<int>(threadIdx.x) % 32,
            thread = static_cast<int>(threadIdx.x) - first_storer(NTiles);
#pragma unroll 1
  for (int n = 0; n < pairs; ++n) {
    const tile_pair pair(a.plan, tiles, n);
    const bool more = n + 1 < pairs;
    if (thread == 0)
      cuda::ptx::mbarrier_arrive_expect_tx(
          cuda::ptx::sem_release, cuda::ptx::scope_cta, cuda::ptx::space_shared, &m.inbox_full,
          static_cast<u32>(a.plan.ctas * pair.part * static_cast<int>(a.x.rows)) * 4);
    store_pair(a, m, pair, amax, thread, more ? 32 * store_warps : last_store_threads<NTiles>());
    __syncwarp();
    if (more && lane < a.plan.ctas)
      ptx::mbarrier_arrive_cluster(
          ptx::mapa_shared_cluster(ptx::shared_address(&m.inbox_free), static_cast<u32>(lane)));
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma::weight_only::by_wgmma
