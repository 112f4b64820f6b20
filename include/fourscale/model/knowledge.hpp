// SPDX-License-Identifier: Apache-2.0
// What each warp may rely on as complete: vector clocks over the warps of a cluster (one CTA to two pairs),
// and the mbarriers that carry them from one warp to another. PTX ISA 9.7.16.6. checker.hpp uses them.
#pragma once

#include "misuse.hpp"

namespace FOURSCALE_NAMESPACE::model {

inline constexpr u32 max_ctas = 4, warps_per_cta = 8, max_agents = max_ctas * warps_per_cta,
                     barriers_per_cta = 16;

/// The unit that issues operations: a warp, or its elected thread. The checker numbers operations and bulk
/// groups of each agent on their own. `cta` is the rank in the cluster; warp < warps_per_cta.
struct agent {
  u32 cta = 0, warp = 0;
  FOURSCALE_HD constexpr u32 index() const { return cta * warps_per_cta + warp; }
};

/// How far one agent's operations are known to have come: for each kind, the number of the latest one.
struct progress {
  u32 ordered = 0;   ///< any: issued, which is enough for an operation that is pipelined after it
  u32 finished = 0;  ///< mma, cp: complete
  u32 loaded = 0;    ///< ld: complete
  u32 stored = 0;    ///< st: complete
  u32 shared = 0;    ///< writes to shared memory
  u32 released = 0;  ///< mma, cp: complete, for reuse of their shared memory; needs no fence
  u32 copied = 0;    ///< bulk copies from shared memory: reads done

  FOURSCALE_HD constexpr void merge(progress const& p) {
    raise(ordered, p.ordered), raise(finished, p.finished), raise(loaded, p.loaded), raise(stored, p.stored);
    merge_shared(p);
  }
  FOURSCALE_HD constexpr void merge_shared(progress const& p) {
    raise(shared, p.shared), raise(released, p.released), raise(copied, p.copied);
  }
  FOURSCALE_HD static constexpr void raise(u32& x, u32 to) { x = to > x ? to : x; }
};

/// A vector clock: the progress of every agent, as one agent knows it.
struct knowledge {
  progress of[max_agents] = {};
  FOURSCALE_HD constexpr void merge(knowledge const& k) {
    for (u32 i = 0; i < max_agents; ++i) of[i].merge(k.of[i]);
  }
  /// Merges only what concerns shared memory, which barriers order without a tcgen05.fence.
  FOURSCALE_HD constexpr void merge_shared(knowledge const& k) {
    for (u32 i = 0; i < max_agents; ++i) of[i].merge_shared(k.of[i]);
  }
};

/// An mbarrier. The bytes of a copy count as arrived when the copy is issued, so a phase never ends later
/// here than on hardware. `gathering` is what all arrivals so far have told, `complete` what those of
/// finished phases told.
struct model_barrier {
  u32 count = 0, pending = 0, phases = 0;
  i32 bytes = 0;  ///< expected and not yet copied; negative if a copy comes before its expect_tx
  knowledge gathering, complete;

  /// An arrival by an agent that knows `k`; the phase then waits for `expected` more bytes. An arrival beyond
  /// the count of the phase is bad_barrier.
  FOURSCALE_HD constexpr misuse arrive(knowledge const& k, u32 expected = 0) {
    if (count == 0 || pending == 0) return misuse::bad_barrier;
    gathering.merge(k);
    bytes += static_cast<i32>(expected);
    --pending;
    end_phase();
    return misuse::ok;
  }
  /// A copy of `size` bytes, number `ticket` of this agent's writes to shared memory, completes on this
  /// barrier.
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
