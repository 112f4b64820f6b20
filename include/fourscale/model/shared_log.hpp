// SPDX-License-Identifier: Apache-2.0
// Which shared memory was written by whom, and which is still being read by an mma, a cp or a bulk copy. Old
// entries are dropped when a log is full: then a misuse may pass, but nothing right is refused.
#pragma once

#include "knowledge.hpp"
#include "shared_memory.hpp"

namespace FOURSCALE_NAMESPACE::model {

struct shared_write {
  u32 begin = 0, end = 0, ticket = 0, agent = 0;
  bool fenced = false;  ///< visible to the async proxy
};

struct shared_read {
  strided_range range;
  u32 ticket = 0, agent = 0;
  bool bulk = false;  ///< by a copy to global memory, not by the tensor core
};

/// A log for each CTA, whoever writes and reads there.
struct shared_log {
  static constexpr u32 writes_kept = 64, reads_kept = 64;
  shared_write writes[max_ctas][writes_kept] = {};
  shared_read reads[max_ctas][reads_kept] = {};
  u32 next_write[max_ctas] = {}, next_read[max_ctas] = {};
  u32 told[max_agents] = {};  ///< the last write that others may know of

  /// Takes the place of what it covers, and joins neighbours, but not what others were told of with what they
  /// were not.
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

  /// May an agent that knows `now` read `range` of `cta` through the async proxy?
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
  /// Whether each agent that started a bulk copy from the shared memory of `cta` has waited for its end.
  FOURSCALE_HD constexpr bool all_copied(u32 cta, knowledge const (&now)[max_agents]) const {
    for (shared_read const& r : reads[cta])
      if (r.bulk && now[r.agent].of[r.agent].copied < r.ticket) return false;
    return true;
  }
};

}  // namespace FOURSCALE_NAMESPACE::model
