// SPDX-License-Identifier: Apache-2.0
// What each warp may rely on: vector clocks over the warps of one CTA or of a pair, and the mbarriers that
// carry them. PTX ISA 9.7.16.6.
#pragma once

#include "misuse.hpp"

namespace FOURSCALE_NAMESPACE::model {

inline constexpr u32 warps_per_cta = 8, max_agents = 2 * warps_per_cta, barriers_per_cta = 16;

/// A warp, or the thread of it that issues: what instructions are counted by. warp < warps_per_cta.
struct agent {
  u32 cta = 0, warp = 0;
  FOURSCALE_HD constexpr u32 index() const { return cta * warps_per_cta + warp; }
};

/// What is known of the operations of one agent, as the number of the latest.
struct progress {
  u32 ordered = 0;   ///< issued, so that a pipelined successor comes after
  u32 finished = 0;  ///< mma, cp: complete
  u32 loaded = 0;    ///< ld: complete
  u32 stored = 0;    ///< st: complete
  u32 shared = 0;    ///< writes to shared memory

  FOURSCALE_HD constexpr void merge(progress const& p) {
    raise(ordered, p.ordered), raise(finished, p.finished), raise(loaded, p.loaded), raise(stored, p.stored);
    raise(shared, p.shared);
  }
  FOURSCALE_HD static constexpr void raise(u32& x, u32 to) { x = to > x ? to : x; }
};

struct knowledge {
  progress of[max_agents] = {};
  FOURSCALE_HD constexpr void merge(knowledge const& k) {
    for (u32 i = 0; i < max_agents; ++i) of[i].merge(k.of[i]);
  }
  /// Only of shared memory, which barriers order without a tcgen05.fence.
  FOURSCALE_HD constexpr void merge_shared(knowledge const& k) {
    for (u32 i = 0; i < max_agents; ++i) progress::raise(of[i].shared, k.of[i].shared);
  }
};

/// An mbarrier, without its transaction count: a TMA write arrives with the arrival that announces it.
struct model_barrier {
  u32 count = 0, pending = 0, phases = 0;
  knowledge gathering, complete;

  FOURSCALE_HD constexpr misuse arrive(knowledge const& k) {
    if (count == 0) return misuse::bad_barrier;
    gathering.merge(k);
    if (--pending == 0) complete.merge(gathering), pending = count, ++phases;
    return misuse::ok;
  }
  /// mbarrier.try_wait.parity: true once the phase of that parity is over.
  FOURSCALE_HD constexpr bool passed(u32 parity) const { return phases % 2 != parity % 2; }
};

}  // namespace FOURSCALE_NAMESPACE::model
