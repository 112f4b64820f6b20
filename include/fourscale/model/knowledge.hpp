// SPDX-License-Identifier: Apache-2.0
// What each warp may rely on: vector clocks over the warps of a cluster, a CTA to two pairs of them, and the
// mbarriers that carry them. PTX ISA 9.7.16.6.
#pragma once

#include "misuse.hpp"

namespace FOURSCALE_NAMESPACE::model {

inline constexpr u32 max_ctas = 4, warps_per_cta = 8, max_agents = max_ctas * warps_per_cta,
                     barriers_per_cta = 16;

/// A warp, or the thread of it that issues: what instructions are counted by. cta is the rank in the cluster;
/// warp < warps_per_cta.
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
  u32 released = 0;  ///< mma, cp: complete, as who writes to shared memory needs to know, without a fence
  u32 copied = 0;    ///< bulk copies from shared memory: they have read it

  FOURSCALE_HD constexpr void merge(progress const& p) {
    raise(ordered, p.ordered), raise(finished, p.finished), raise(loaded, p.loaded), raise(stored, p.stored);
    merge_shared(p);
  }
  FOURSCALE_HD constexpr void merge_shared(progress const& p) {
    raise(shared, p.shared), raise(released, p.released), raise(copied, p.copied);
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
    for (u32 i = 0; i < max_agents; ++i) of[i].merge_shared(k.of[i]);
  }
};

/// An mbarrier. The bytes of a copy count when it is issued, so that a phase here is never over later than
/// the real one.
struct model_barrier {
  u32 count = 0, pending = 0, phases = 0;
  i32 bytes = 0;  ///< expected and not yet copied; below zero where a copy is ahead of who expects it
  knowledge gathering, complete;

  /// With `expected` bytes to come. All of the phase's arrivals must not be there yet.
  FOURSCALE_HD constexpr misuse arrive(knowledge const& k, u32 expected = 0) {
    if (count == 0 || pending == 0) return misuse::bad_barrier;
    gathering.merge(k);
    bytes += static_cast<i32>(expected);
    --pending;
    end_phase();
    return misuse::ok;
  }
  /// Write `ticket` of this agent, by a copy that tells this barrier.
  FOURSCALE_HD constexpr misuse copy(u32 agent, u32 ticket, u32 size) {
    if (count == 0) return misuse::bad_barrier;
    progress::raise(gathering.of[agent].shared, ticket);
    bytes -= static_cast<i32>(size);
    end_phase();
    return misuse::ok;
  }
  /// mbarrier.try_wait.parity: true once the phase of that parity is over.
  FOURSCALE_HD constexpr bool passed(u32 parity) const { return phases % 2 != parity % 2; }

 private:
  FOURSCALE_HD constexpr void end_phase() {
    if (pending == 0 && bytes == 0) complete.merge(gathering), pending = count, ++phases;
  }
};

}  // namespace FOURSCALE_NAMESPACE::model
