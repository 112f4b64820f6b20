// SPDX-License-Identifier: Apache-2.0
// How the work of the weight-only GEMM by mma.sync is shared out: tiles of 32 rows of W over clusters, K over
// the CTAs of a cluster, and both over the warps of a CTA. The layout of shared memory follows from that. All
// is pure arithmetic, so that tests can check it on a CPU.
//
// Clusters differ by at most one tile, whatever their number: a GPU of 132 SMs runs 66 clusters of two CTAs
// at a time, but may run only 30 of four and 14 of eight. A warp's share of a CTA's tiles times stages may
// begin and end within a tile. So warps, too, differ by at most one stage.
#pragma once

#include "weight_only.hpp"

namespace FOURSCALE_NAMESPACE::mma::weight_only {

/// What a device offers.
struct machine {
  int sms = 1, shared_bytes = 48 << 10;  ///< shared memory that a CTA may ask for
  bool clusters = false;
  int at_once[4] = {};  ///< clusters of 1, 2, 4 and 8 CTAs that run at a time; 0 where unknown
  int most_ctas = weight_only::most_ctas;  ///< CTAs of a cluster, at most, if there are clusters

  /// How many clusters of 2^size_log2 CTAs run at a time; where unknown, as many as fill all SMs.
  FOURSCALE_HD constexpr int clusters_of(int size_log2) const {
    const int known = at_once[size_log2], all = sms >> size_log2;
    return known > 0 ? known : all > 0 ? all : 1;
  }
};

/// What a caller asks of a plan; 0 leaves a choice to the library. `ctas`: of a cluster; `warps`: of a CTA;
/// `depth`: stages in a ring with TMA, halves without.
struct tuning {
  int ctas = 0, warps = 0, depth = 0;
  /// Rows of X in a launch: 8, 16, 32 or 64. With 64 rows, the sums of a tile take 9 KB of shared memory, and
  /// a stage of X takes 32 KB. With TMA there is room for both, since few warps have rings. So the library's
  /// choice is 64 with TMA and 32 without.
  int rows = 0;
  bool mma_sync = false;  ///< do not use wgmma; of a plan for wgmma, only `ctas` can be chosen
};

/// The items `begin` to `end` - 1; also of warps, tiles or stages.
struct span_of {
  int begin, end;
};

/// `all` items for `by` owners, in order. Shares differ by at most one item. If m divides both numbers, each
/// by / m owners in a row have exactly all / m items.
struct shares {
  int all, by;

  FOURSCALE_HD constexpr int begin(int i) const { return all / by * i + all % by * i / by; }
  FOURSCALE_HD constexpr span_of of(int i) const { return {begin(i), begin(i + 1)}; }
  /// The owner of an item. There must be at least one item for each owner.
  FOURSCALE_HD constexpr int owner(int item) const { return ceil_div((item + 1) * by, all) - 1; }
};

/// A cluster takes `units` runs of tiles, one after the other. Such a run is a unit. In each unit, a CTA
/// takes `stages` stages along K from stage rank * stages on. It takes them in passes of `pass_stages`
/// stages, since X of a whole pass is in shared memory. An item is one stage of one tile. The items of a pass
/// are its stages of the first tile, then those of the second, and so on. Each warp takes consecutive items.
struct plan {
  int n_tiles = 1, warps = 0, depth = most_depth, ctas = 1, clusters = 1;
  int stages = 1, pass_stages = 1, tiles = 0, units = 1;
  bool by_tma = false;  ///< a slot of a ring is a stage, not half of one

  FOURSCALE_HD constexpr int passes() const { return ceil_div(stages, pass_stages); }
  /// The most tiles that a cluster has, and that a unit has.
  FOURSCALE_HD constexpr int cluster_tiles() const { return ceil_div(tiles, clusters); }
  FOURSCALE_HD constexpr int unit_tiles() const { return ceil_div(cluster_tiles(), units); }
  /// Whether all units have the same number of tiles.
  FOURSCALE_HD constexpr bool is_even() const { return tiles % (clusters * units) == 0; }
  /// The tiles of a unit.
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
  /// The items that a warp takes in each pass of such a unit.
  FOURSCALE_HD constexpr span_of items_of(int warp, int count) const {
    const int by = active(count);
    return warp < by ? shares{count * pass_stages, by}.of(warp) : span_of{0, 0};
  }
  /// The warps that have items of tile `tile` of such a unit.
  FOURSCALE_HD constexpr span_of warps_of(int tile, int count) const {
    const shares items{count * pass_stages, active(count)};
    return {items.owner(tile * pass_stages), items.owner((tile + 1) * pass_stages - 1) + 1};
  }
  /// The slot for a warp's sums of a tile. No two pairs of a warp and a tile share one.
  FOURSCALE_HD constexpr int slot_of(int warp, int tile, int count) const {
    return active(count) % count == 0 ? warp : warp + tile;
  }
  FOURSCALE_HD constexpr int slots() const {
    const int count = unit_tiles(), by = active(count);
    return is_even() && by % count == 0 ? by : warps + count - 1;
  }

  /// Floats from one row of X to the next in a slot: 32 sums, and four of padding against bank conflicts.
  static constexpr int sum_pitch = warp_rows + 4;
  FOURSCALE_HD constexpr int slot_bytes() const { return n_tiles * 8 * sum_pitch * 4; }
  // Shared memory: codes, X, scales, sums, barriers. Codes and X are aligned to 1 KiB, for TMA's swizzle.
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

  /// A rough estimate of the time, in clocks. A stage of a warp takes 200 clocks of its SM, but no less than
  /// 2000 in all. A thread copies 16 bytes of X in 100 clocks, and a fill waits for 800 more. A unit ends
  /// with a barrier and with reading the sums of other CTAs.
  FOURSCALE_HD constexpr i64 cost() const {
    if (by_tma) return tma_cost();
    const int stage = warps < 10 ? 2000 : 200 * warps, threads = 32 * warps, fills = one_pass() ? 1 : units;
    const i64 pass = ceil_div(unit_tiles() * pass_stages, warps) * i64{stage};
    const i64 fill = ceil_div(pass_stages * x_stage_bytes(n_tiles) / 16, threads) * i64{100} + 800;
    return units * (passes() * pass + 2500) + fills * passes() * fill;
  }

 private:
  /// The same with TMA, as measured on an H200. A stage takes no less than 1500 clocks, and no less than four
  /// times the clocks that it takes of an SM, since an SM has four schedulers. Each fill of X takes 1000
  /// clocks and what L2 needs for it. Sums are read from each CTA.
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

/// `best`, or a cheaper plan with p's CTAs and warps. Tries numbers of units, each with passes that fit.
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

/// The cheapest plan for `rows` rows of X (at most 64), `tiles` tiles of W and K; `warps` is 0 if none fits.
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
