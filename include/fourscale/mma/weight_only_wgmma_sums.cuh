// SPDX-License-Identifier: Apache-2.0
// From accumulators to D in the weight-only GEMM by wgmma. In a CTA, each warpgroup in turn adds its
// accumulators to the sums of the warpgroups before it. The last one sends the sums of each row to the CTA of
// the cluster that stores this row (st.async), since the CTAs share K. There, three warps add up what the
// CTAs have sent, in order, and store it, while the other warps work on the next tiles.
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

/// One or two tiles that a cluster takes together; the last pair may be a single tile.
struct tile_pair {
  int number, first, count, part_log2;  ///< part: how many of the pair's rows each CTA stores
  u32 parity;                           ///< of the mbarriers of sums

  FOURSCALE_D tile_pair(plan const& p, span_of tiles, int n)
      : number(n),
        first(tiles.begin + n * most_tiles),
        count(tiles.end - first < most_tiles ? 1 : most_tiles) {
    static_assert(tile_rows == 64 && most_tiles == 2);
    part_log2 = 5 + count - p.ctas_log2, parity = static_cast<u32>(n) & 1;
  }
  FOURSCALE_D int part() const { return 1 << part_log2; }
};
FOURSCALE_D inline int pairs_of(span_of tiles) { return ceil_div(tiles.end - tiles.begin, most_tiles); }

/// A lane's accumulators of a tile, in the order of wgmma's D.
template <int NTiles>
using tile_sums = float[4 * NTiles];

// Named barriers. 1 to 3 open for the warpgroup of this number when the one before it has written its sums. 4
// opens when the mbarriers are initialized, 5 when the sums of the last pair are sent.
FOURSCALE_HD constexpr int sums_barrier(int group) { return group; }
inline constexpr int begin_barrier = 4, sent_barrier = 5;

/// The vector for a lane's part of `Floats` floats: see part_floats().
template <int Floats>
struct part_of {
  using type = float4;
};
template <>
struct part_of<2> {
  using type = float2;
};

/// Passes a warpgroup's sums on. The first warpgroup writes its sums to shared memory, the others add their
/// own to them, and the last one sends them in place of writing.
template <int NTiles>
struct sums_on_their_way {
  memory<NTiles>& m;
  plan const& p;
  int group;
  bool swizzled;

  static constexpr int last = warpgroups(NTiles) - 1;

  /// Passes on the sums of a pair. A warpgroup calls it once for each pair, in order.
  FOURSCALE_D void pass(tile_sums<NTiles> (&sums)[most_tiles], tile_pair const& pair) const {
    if (group == 0)
      ptx::mbarrier_wait(ptx::shared_address(&m.sums_free), pair.parity ^ 1);
    else
      ptx::bar_sync(sums_barrier(group), 256);
    if (group == last) {
      if (pair.number == 0) ptx::barrier_cluster_wait();  // the mbarriers of all CTAs are initialized
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
  static constexpr int width = part_floats(NTiles), parts = parts_of_lane(NTiles);
  using part = typename part_of<width>::type;

  FOURSCALE_D static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  FOURSCALE_D int row_at(int tile, int j) const {
    return tile * tile_rows + local_row(swizzled, static_cast<int>(threadIdx.x) / 32 % 4, lane(), j);
  }
  FOURSCALE_D part& part_at(int tile, int j, int k) const {
    return *reinterpret_cast<part*>(m.sums + part_offset(NTiles, row_at(tile, j), lane(), k));
  }
  FOURSCALE_D static part part_of_sums(tile_sums<NTiles> const& sums, int j, int k) {
    part v;
    FOURSCALE_UNROLL
    for (int i = 0; i < width; ++i) element(v, i) = sums[element_of_part(j, k, i)];
    return v;
  }
  FOURSCALE_D static float& element(part& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : last_two(v, i); }
  FOURSCALE_D static float& last_two(float2& v, int) { return v.y; }
  FOURSCALE_D static float& last_two(float4& v, int i) { return i == 2 ? v.z : v.w; }

  FOURSCALE_D void add_earlier(tile_sums<NTiles>& sums, int tile) const {
    part earlier[2][parts];  // all are read before the first is written
    FOURSCALE_UNROLL
    for (int i = 0; i < 2 * parts; ++i) earlier[i / parts][i % parts] = part_at(tile, i / parts, i % parts);
    FOURSCALE_UNROLL
    for (int i = 0; i < 2 * parts * width; ++i) {
      const int j = i / width / parts, k = i / width % parts;
      float& sum = sums[element_of_part(j, k, i % width)];
      sum = ptx::add_rn_f32(element(earlier[j][k], i % width), sum);
    }
  }
  FOURSCALE_D void write(tile_sums<NTiles> const& sums, int tile) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < 2 * parts; ++i)
      part_at(tile, i / parts, i % parts) = part_of_sums(sums, i / parts, i % parts);
  }
  /// Sends each row to the CTA that stores it. In the inbox, the rows from CTA r are part r.
  FOURSCALE_D void send(tile_sums<NTiles> const& sums, tile_pair const& pair, int tile) const {
    FOURSCALE_UNROLL
    for (int j = 0; j < 2; ++j) {
      const int row = row_at(tile, j), owner = row >> pair.part_log2,
                first = cta_team::rank() << pair.part_log2;
      const u32 inbox = ptx::mapa_shared_cluster(ptx::shared_address(m.inbox), static_cast<u32>(owner)),
                full = ptx::mapa_shared_cluster(ptx::shared_address(&m.inbox_full), static_cast<u32>(owner));
      FOURSCALE_UNROLL
      for (int k = 0; k < parts; ++k) {
        const int at = part_offset(NTiles, first + row - (owner << pair.part_log2), lane(), k);
        ptx::st_async(inbox + static_cast<u32>(at * 4), part_of_sums(sums, j, k), full);
      }
    }
  }
};

/// Waits until all CTAs have sent their sums of this CTA's rows of a pair, adds them up in the order of CTAs,
/// and stores the outputs: thread `thread` of `threads`. Neighbouring threads take neighbouring rows of W.
template <int NTiles, class T, class Layout, class TD>
FOURSCALE_D void store_pair(problem<T, Layout, TD> const& a, memory<NTiles>& m, tile_pair const& pair,
                            float amax, int thread, int threads) {
  const float factor_of_all = weight_factor(a.factors.alpha, a.w.amax.range, amax);
  const int all = 2 * NTiles << pair.part_log2;
  while (!cuda::ptx::mbarrier_try_wait_parity(cuda::ptx::sem_acquire, cuda::ptx::scope_cluster, &m.inbox_full,
                                              pair.parity)) {
  }
#pragma unroll 1
  for (int e = thread; e < all; e += threads) {
    const int chunk = e >> pair.part_log2, mine = e - (chunk << pair.part_log2),
              row = (cta_team::rank() << pair.part_log2) + mine;
    const i64 n = row_of_tile(Layout::has_padding, pair.first + row / tile_rows, row % tile_rows);
    if (n >= a.d.cols || row_of_x_at(NTiles, chunk, 0) >= a.x.rows) continue;
    const auto part = [&](int cta) {
      return *reinterpret_cast<float4 const*>(m.inbox +
                                              sums_offset(NTiles, (cta << pair.part_log2) + mine, chunk));
    };
    float4 sum = part(0);
#pragma unroll 1
    for (int cta = 1; cta < a.plan.ctas(); ++cta) sum = add(sum, part(cta));
    const float factor = factor_of_row(a, n, factor_of_all), sums[4] = {sum.x, sum.y, sum.z, sum.w};
    FOURSCALE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row_of_x = row_of_x_at(NTiles, chunk, i);
      if (row_of_x < a.x.rows)
        store_output(a.d.at(row_of_x, n), factor, ptx::mul_rn_f32(sums[i], sum_factor), a.factors.beta);
    }
  }
}

/// Threads that store the last pair: the store warps, and all warpgroups but the last, which are then idle.
template <int NTiles>
FOURSCALE_HD constexpr int last_store_threads() {
  return 32 * store_warps + 128 * (warpgroups(NTiles) - 1);
}

/// The store role, three warps. After each pair they tell all CTAs that this inbox is free, except after the
/// last one: by then other CTAs may have exited.
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
      cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                           cuda::ptx::space_shared, &m.inbox_full,
                                           static_cast<u32>(a.plan.ctas() * pair.part() * 8 * NTiles) * 4);
    store_pair(a, m, pair, amax, thread, more ? 32 * store_warps : last_store_threads<NTiles>());
    __syncwarp();
    if (more && lane < a.plan.ctas())
      ptx::mbarrier_arrive_cluster(
          ptx::mapa_shared_cluster(ptx::shared_address(&m.inbox_free), static_cast<u32>(lane)));
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma::weight_only::by_wgmma
