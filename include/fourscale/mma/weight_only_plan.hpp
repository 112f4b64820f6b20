// SPDX-License-Identifier: Apache-2.0
// How the work of a weight-only GEMM is shared out: rows of W in units, K over the CTAs of a cluster, and,
// where there are few rows, over the warps of a CTA. Pure arithmetic, so that a test can ask it.
#pragma once

#include "weight_only.hpp"

namespace FOURSCALE_NAMESPACE::mma::weight_only {

/// What a device offers.
struct machine {
  int sms = 1, shared_bytes = 48 << 10;  ///< shared memory that a CTA may ask for
  bool clusters = false;
};

/// A cluster takes every clusters-th unit. In each, a CTA takes `stages` stages along K, beginning with stage
/// rank * stages; of these, `parts` groups of warps take every parts-th. X is in shared memory for
/// `pass_stages` of them at a time.
struct plan {
  int n_tiles = 1, warps = 0, parts = 1, ctas = 1, clusters = 1;
  int stages = 1, pass_stages = 1, unit_rows = 0, units = 0;

  FOURSCALE_HD constexpr int rows_of_cta() const { return unit_rows / ctas; }  ///< whose sums it adds up
  FOURSCALE_HD constexpr int row_warps() const { return warps / parts; }
  /// Sums of one column in shared memory; four more than there are keep the banks apart.
  FOURSCALE_HD constexpr int sum_pitch() const {
    return rows_of_cta() < 32 ? rows_of_cta() : rows_of_cta() + 4;
  }
  FOURSCALE_HD constexpr int ring_bytes() const {
    return warps * depth * static_cast<int>(sizeof(warp_stage));
  }
  FOURSCALE_HD constexpr int sum_bytes() const { return ctas * parts * n_tiles * 8 * sum_pitch() * 4; }
  FOURSCALE_HD constexpr int bytes() const {
    return ring_bytes() + sum_bytes() + pass_stages * x_stage_bytes(n_tiles);
  }
  FOURSCALE_HD constexpr bool one_pass() const { return pass_stages >= stages; }
  /// Time, in stages of a warp and half a stage for what ends a unit; doubled.
  FOURSCALE_HD constexpr i64 cost() const {
    return ceil_div<i64>(units, clusters) * (2 * ceil_div<i64>(stages, parts) + 1);
  }
};

namespace detail {

/// The largest power of two that is at most n and at most `most`.
FOURSCALE_HD constexpr int power_up_to(i64 n, int most) {
  int p = 1;
  while (2 * p <= most && 2 * p <= n) p *= 2;
  return p;
}

/// The best split for that number of warps; pass_stages is 0 where nothing fits.
FOURSCALE_HD constexpr plan best_split(plan p, i64 n, machine const& m, int concurrent) {
  plan best = p;
  best.pass_stages = 0;
  for (p.parts = 1; p.parts <= p.warps; p.parts *= 2) {
    p.unit_rows = warp_rows * p.row_warps();
    p.units = static_cast<int>(ceil_div<i64>(n, p.unit_rows));
    p.clusters = p.units < concurrent ? p.units : concurrent;
    const int room = (m.shared_bytes - p.ring_bytes() - p.sum_bytes()) / x_stage_bytes(p.n_tiles);
    p.pass_stages = room < p.stages ? room : p.stages;
    const bool faster = p.cost() < best.cost() || (p.cost() == best.cost() && p.clusters > best.clusters);
    if (p.pass_stages > 0 && (best.pass_stages == 0 || faster)) best = p;
  }
  return best;
}

}  // namespace detail

/// CTAs in a cluster for that K.
FOURSCALE_HD constexpr int ctas_for(i64 k, machine const& m) {
  return m.clusters ? detail::power_up_to(ceil_div<i64>(k, stage_values), most_ctas) : 1;
}

/// The plan for `rows` rows of X (at most 64), N and K on a device that runs `concurrent` clusters at a time.
/// As many warps as leave room for four stages of X, or fewer; `warps` is 0 where not even two fit.
FOURSCALE_HD constexpr plan make_plan(int rows, i64 n, i64 k, machine const& m, int concurrent) {
  plan p;
  p.n_tiles = rows <= 8 ? 1 : rows <= 16 ? 2 : rows <= 32 ? 4 : 8;
  p.ctas = ctas_for(k, m);
  p.stages = static_cast<int>(ceil_div<i64>(ceil_div<i64>(k, stage_values), p.ctas));
  plan any;
  for (p.warps = most_warps(p.n_tiles); p.warps >= 2; p.warps /= 2) {
    const plan best = detail::best_split(p, n, m, concurrent);
    if (best.pass_stages >= (p.stages < 4 ? p.stages : 4)) return best;
    if (best.pass_stages > any.pass_stages || (any.warps == 0 && best.pass_stages > 0)) any = best;
  }
  return any;
}

}  // namespace FOURSCALE_NAMESPACE::mma::weight_only
