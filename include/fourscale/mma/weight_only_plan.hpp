// SPDX-License-Identifier: Apache-2.0
// How the work of a weight-only GEMM is shared out: tiles of 32 rows of W over clusters, K over the CTAs of a
// cluster, and both over the warps of a CTA. Pure arithmetic, so that a test can ask it.
//
// Clusters take equal numbers of tiles, but for one, whatever their number: a GPU of 132 SMs runs 66 clusters
// of two CTAs, but may run 30 of four and 14 of eight. A warp's share of a CTA's tiles times stages begins
// and ends anywhere, so that it is the same for all warps too, but for one stage.
#pragma once

#include "weight_only.hpp"

namespace FOURSCALE_NAMESPACE::mma::weight_only {

/// What a device offers.
struct machine {
  int sms = 1, shared_bytes = 48 << 10;  ///< shared memory that a CTA may ask for
  bool clusters = false;
  int at_once[4] = {};  ///< clusters of 1, 2, 4 and 8 CTAs that run at a time; 0 where unknown
  int most_ctas = weight_only::most_ctas;  ///< of a cluster, if there are any

  FOURSCALE_HD constexpr int clusters_of(int size_log2) const {
    const int known = at_once[size_log2], all = sms >> size_log2;
    return known > 0 ? known : all > 0 ? all : 1;
  }
};

/// What a plan is to be like; 0 leaves the choice to make_plan().
struct tuning {
  int ctas = 0, warps = 0, depth = 0;
  /// Rows of X in a launch: 8, 16, 32 or 64. For 64, the sums of a tile take 9 KB of shared memory, and a
  /// stage of X 32. There is room for them by TMA, where few warps have rings: so it is 64 by TMA, and 32
  /// without.
  int rows = 0;
  bool mma_sync = false;  ///< not by wgmma, of whose plan only `ctas` can be chosen
};

/// Items `begin` to `end`, or warps.
struct span_of {
  int begin, end;
};

/// `all` items for `by` owners, in order and evenly: where the one is a multiple of the other, of n owners
/// in a row, too.
struct shares {
  int all, by;

  FOURSCALE_HD constexpr int begin(int i) const { return all / by * i + all % by * i / by; }
  FOURSCALE_HD constexpr span_of of(int i) const { return {begin(i), begin(i + 1)}; }
  /// The owner of an item; there must be an item for each.
  FOURSCALE_HD constexpr int owner(int item) const { return ceil_div((item + 1) * by, all) - 1; }
};

/// A cluster takes `units` runs of tiles, one after the other. In each, a CTA takes `stages` stages along K,
/// beginning with stage rank * stages, in passes of `pass_stages`, for which X is in shared memory. Items of
/// a pass are its stages of the first tile, then of the second, and so on; each warp takes a run of them.
struct plan {
  int n_tiles = 1, warps = 0, depth = most_depth, ctas = 1, clusters = 1;
  int stages = 1, pass_stages = 1, tiles = 0, units = 1;
  bool by_tma = false;  ///< rings are of stages, not of halves

  FOURSCALE_HD constexpr int passes() const { return ceil_div(stages, pass_stages); }
  /// Tiles of a cluster, of a unit, at most.
  FOURSCALE_HD constexpr int cluster_tiles() const { return ceil_div(tiles, clusters); }
  FOURSCALE_HD constexpr int unit_tiles() const { return ceil_div(cluster_tiles(), units); }
  FOURSCALE_HD constexpr bool is_even() const { return tiles % (clusters * units) == 0; }
  /// Tiles of a unit.
  FOURSCALE_HD constexpr span_of tiles_of(int cluster, int unit) const {
    const span_of all = shares{tiles, clusters}.of(cluster);
    if (units == 1) return all;
    const span_of mine = shares{all.end - all.begin, units}.of(unit);
    return {all.begin + mine.begin, all.begin + mine.end};
  }
  /// Warps that have items where a unit has `count` tiles.
  FOURSCALE_HD constexpr int active(int count) const {
    return count * pass_stages < warps ? count * pass_stages : warps;
  }
  FOURSCALE_HD constexpr span_of items_of(int warp, int count) const {
    const int by = active(count);
    return warp < by ? shares{count * pass_stages, by}.of(warp) : span_of{0, 0};
  }
  /// Warps that have items of tile `tile` of a unit.
  FOURSCALE_HD constexpr span_of warps_of(int tile, int count) const {
    const shares items{count * pass_stages, active(count)};
    return {items.owner(tile * pass_stages), items.owner((tile + 1) * pass_stages - 1) + 1};
  }
  /// Where a warp has its sums of a tile: no two have the same place.
  FOURSCALE_HD constexpr int slot_of(int warp, int tile, int count) const {
    return active(count) % count == 0 ? warp : warp + tile;
  }
  FOURSCALE_HD constexpr int slots() const {
    const int count = unit_tiles(), by = active(count);
    return is_even() && by % count == 0 ? by : warps + count - 1;
  }

  /// Sums of one column of a slot in shared memory; four more than there are keep the banks apart.
  static constexpr int sum_pitch = warp_rows + 4;
  FOURSCALE_HD constexpr int slot_bytes() const { return n_tiles * 8 * sum_pitch * 4; }
  // Shared memory: codes, X, scales, sums, barriers. The swizzle of the first two asks for whole KiB.
  FOURSCALE_HD constexpr int code_ring_bytes() const { return depth * (by_tma ? code_bytes : half_bytes); }
  FOURSCALE_HD constexpr int scale_ring_bytes() const {
    return (by_tma ? depth : scale_depth(depth)) * scales_bytes;
  }
  FOURSCALE_HD constexpr int rings_bytes() const { return warps * (code_ring_bytes() + scale_ring_bytes()); }
  FOURSCALE_HD constexpr int barriers() const { return by_tma ? warps * depth + 1 : 0; }
  FOURSCALE_HD constexpr int x_at() const { return warps * code_ring_bytes(); }
  FOURSCALE_HD constexpr int scales_at() const { return x_at() + pass_stages * x_stage_bytes(n_tiles); }
  FOURSCALE_HD constexpr int slots_at() const { return scales_at() + warps * scale_ring_bytes(); }
  FOURSCALE_HD constexpr int barriers_at() const { return slots_at() + slots() * slot_bytes(); }
  FOURSCALE_HD constexpr int bytes() const { return barriers_at() + 8 * barriers(); }
  FOURSCALE_HD constexpr bool one_pass() const { return pass_stages >= stages; }

  /// Clocks, roughly: a stage of a warp takes 200 of its SM and alone 2000; a thread copies 16 bytes of X in
  /// 100, and waits for it; a unit ends with a barrier and sums of other CTAs.
  FOURSCALE_HD constexpr i64 cost() const {
    if (by_tma) return tma_cost();
    const int stage = warps < 10 ? 2000 : 200 * warps, threads = 32 * warps, fills = one_pass() ? 1 : units;
    const i64 pass = ceil_div(unit_tiles() * pass_stages, warps) * i64{stage};
    const i64 fill = ceil_div(pass_stages * x_stage_bytes(n_tiles) / 16, threads) * i64{100} + 800;
    return units * (passes() * pass + 2500) + fills * passes() * fill;
  }

 private:
  /// The cost by TMA, as seen on an H200: a stage of a warp takes 1500 alone, or four times what it takes of
  /// an SM, which has four schedulers. Each X that is waited for takes 1000, and what L2 needs for it. Sums
  /// are read from each CTA.
  FOURSCALE_HD constexpr i64 tma_cost() const {
    const int of_sm = n_tiles == 1 ? 310 : n_tiles == 2 ? 360 : n_tiles == 4 ? 450 : 800;
    const int shared = of_sm * (warps < 4 ? 4 : warps), stage = shared < 1500 ? 1500 : shared;
    const int fills = one_pass() ? 1 : units;
    const i64 pass = ceil_div(unit_tiles() * pass_stages, warps) * i64{stage};
    const i64 fill = 1000 + pass_stages * x_stage_bytes(n_tiles) / 32;
    return units * (passes() * pass + 4000 + 500 * ctas * n_tiles) + fills * passes() * fill;
  }
};

namespace detail {

/// `best`, or a plan with these numbers of CTAs and warps that is better.
FOURSCALE_HD constexpr plan better(plan best, plan p, machine const& m) {
  for (p.units = 1; p.units < 2 * p.cluster_tiles(); p.units *= 2) {
    const int room = m.shared_bytes - p.rings_bytes() - 8 * p.barriers();
    p.pass_stages = p.stages;
    if (p.slots() > m.shared_bytes / p.slot_bytes()) continue;
    for (int i = 0; i < 2; ++i) {  // fewer stages in a pass may mean fewer slots
      const int fit = (room - p.slots() * p.slot_bytes()) / x_stage_bytes(p.n_tiles);
      if (fit < 1) p.pass_stages = 0;
      if (p.pass_stages == 0) break;
      if (fit < p.pass_stages) p.pass_stages = ceil_div(p.stages, ceil_div(p.stages, fit));
    }
    if (p.pass_stages == 0 || p.bytes() > m.shared_bytes) continue;
    if (best.warps == 0 || p.cost() < best.cost()) best = p;
    if (p.one_pass()) break;
  }
  return best;
}

}  // namespace detail

/// The plan for `rows` rows of X (at most 64), `tiles` of W and K; `warps` is 0 where nothing fits.
FOURSCALE_HD constexpr plan make_plan(int rows, int tiles, i64 k, machine const& m, tuning const& t = {},
                                      bool by_tma = false) {
  plan best, p;
  p.by_tma = by_tma;
  const int stages = static_cast<int>(ceil_div<i64>(k, stage_values));
  p.n_tiles = rows <= 8 ? 1 : rows <= 16 ? 2 : rows <= 32 ? 4 : 8;
  p.tiles = tiles;
  for (int size = 0; 1 << size <= (m.clusters ? m.most_ctas : 1); ++size) {
    p.ctas = 1 << size;
    if (p.ctas > stages || (t.ctas > 0 && p.ctas > t.ctas)) break;
    if (p.ctas < t.ctas && m.clusters && 2 * p.ctas <= stages && 2 * p.ctas <= m.most_ctas) continue;
    p.stages = ceil_div(stages, p.ctas);
    p.clusters = tiles < m.clusters_of(size) ? tiles : m.clusters_of(size);
    for (int warps = most_warps(p.n_tiles, by_tma); warps >= 2; warps -= 2) {
      p.warps = warps;
      if (t.warps > 0 && warps != t.warps) continue;
      p.depth = t.depth > 0 ? t.depth : by_tma || warps <= 4 ? least_depth : warps >= 12 ? 3 : most_depth;
      best = detail::better(best, p, m);
    }
  }
  return best;
}

}  // namespace FOURSCALE_NAMESPACE::mma::weight_only
