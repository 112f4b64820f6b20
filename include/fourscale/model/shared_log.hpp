// SPDX-License-Identifier: Apache-2.0
// The checker's log of shared memory: which agent wrote which bytes, and which bytes an mma, a cp or a bulk
// copy may still read. A full log drops its oldest entries: a misuse may then go unnoticed, but a correct
// program is never refused.
#pragma once

#include "knowledge.hpp"
#include "shared_memory.hpp"

namespace FOURSCALE_NAMESPACE::model {

/// A write of bytes [begin, end).
struct shared_write {
  u32 begin = 0, end = 0, ticket = 0, agent = 0;
  bool fenced = false;  ///< visible to the async proxy
};

/// A read of a range through the async proxy.
struct shared_read {
  strided_range range;
  u32 ticket = 0, agent = 0;
  bool bulk = false;  ///< read by a bulk copy to global memory, not by the tensor core
};

/// One log for the shared memory of each CTA, whichever agent accesses it.
struct shared_log {
  static constexpr u32 writes_kept = 64, reads_kept = 64;
  shared_write writes[max_ctas][writes_kept] = {};
  shared_read reads[max_ctas][reads_kept] = {};
  u32 next_write[max_ctas] = {}, next_read[max_ctas] = {};
  u32 told[max_agents] = {};  ///< by agent: its last write that other agents may know of

  /// Logs a write. It replaces an older write of the same agent that it covers, unless only the older one
  /// lacks the proxy fence. Otherwise it is joined with an adjoining write of the same agent and the same
  /// fence state, but never with one that other agents were told of: they do not know of the new one yet.
  FOURSCALE_HD constexpr void note_write(u32 cta, shared_write const& w) {
    for (shared_write& old : writes[cta]) {
      if (old.ticket == 0 || old.agent != w.agent) continue;
      if (w.begin <= old.begin && old.end <= w.end && (old.fenced || !w.fenced)) {
        old = w;
        return;
      }
      const bool touches = old.begin <= w.end && w.begin <= old.end;
      if (old.ticket <= told[w.agent] || old.fenced != w.fenced || !touches) continue;
      old.begin = w.begin < old.begin ? w.begin : old.begin;
      old.end = w.end > old.end ? w.end : old.end;
      old.ticket = w.ticket;
      return;
    }
    writes[cta][next_write[cta]++ % writes_kept] = w;
  }
  /// fence.proxy.async of agent `who`: all its writes so far are visible to the async proxy.
  FOURSCALE_HD constexpr void proxy_fence(u32 who) {
    for (auto& of_cta : writes)
      for (shared_write& w : of_cta)
        if (w.agent == who) w.fenced = true;
  }
  FOURSCALE_HD constexpr void note_read(u32 cta, shared_read const& r) {
    for (shared_read& old : reads[cta])
      if (old.ticket != 0 && old.agent == r.agent && old.bulk == r.bulk && old.range == r.range) {
        old.ticket = r.ticket;
        return;
      }
    reads[cta][next_read[cta]++ % reads_kept] = r;
  }

  /// May agent `who`, which knows `now`, read `range` of `cta` through the async proxy?
  FOURSCALE_HD constexpr misuse can_read(u32 who, knowledge const& now, u32 cta,
                                         strided_range const& range) const {
    for (shared_write const& w : writes[cta]) {
      if (w.ticket == 0 || !range.meets(w.begin, w.end)) continue;
      if (!w.fenced) return misuse::missing_proxy_fence;
      if (w.agent != who && now.of[w.agent].shared < w.ticket) return misuse::missing_barrier;
    }
    return misuse::ok;
  }
  /// May an agent that knows `now` write [begin, end)?
  FOURSCALE_HD constexpr misuse can_write(knowledge const& now, u32 cta, u32 begin, u32 end) const {
    for (shared_read const& r : reads[cta]) {
      if (r.ticket == 0 || !r.range.meets(begin, end)) continue;
      if (r.bulk && now.of[r.agent].copied < r.ticket) return misuse::bulk_copy_pending;
      if (!r.bulk && now.of[r.agent].released < r.ticket) return misuse::shared_in_use;
    }
    return misuse::ok;
  }
  /// True if each agent that started a bulk copy from the shared memory of `cta` has waited until it was
  /// read.
  FOURSCALE_HD constexpr bool all_copied(u32 cta, knowledge const (&now)[max_agents]) const {
    for (shared_read const& r : reads[cta])
      if (r.bulk && now[r.agent].of[r.agent].copied < r.ticket) return false;
    return true;
  }
};

}  // namespace FOURSCALE_NAMESPACE::model
