// SPDX-License-Identifier: Apache-2.0
// Which shared memory was written by whom, and which is still being read by an mma or a cp. Old entries are
// dropped when a log is full: then a misuse may pass, but nothing right is refused.
#pragma once

#include "knowledge.hpp"
#include "shared_memory.hpp"

namespace FOURSCALE_NAMESPACE::model {

struct shared_write {
  u32 begin = 0, end = 0, ticket = 0, cta = 0;
  bool fenced = false;  ///< visible to the async proxy
};

struct shared_read {
  strided_range range;
  u32 ticket = 0, agent = 0, cta = 0;
};

struct shared_log {
  static constexpr u32 writes_each = 8, reads_kept = 64;
  shared_write writes[max_agents][writes_each] = {};
  shared_read reads[reads_kept] = {};
  u32 next_write[max_agents] = {}, next_read = 0;
  u32 told[max_agents] = {};  ///< the last write that others may know of

  /// Joins neighbours, but not what others were told of with what they were not.
  FOURSCALE_HD constexpr void note_write(u32 who, shared_write const& w) {
    for (shared_write& old : writes[who]) {
      const bool touches = old.begin <= w.end && w.begin <= old.end;
      if (old.ticket <= told[who] || old.cta != w.cta || old.fenced != w.fenced || !touches) continue;
      old.begin = w.begin < old.begin ? w.begin : old.begin;
      old.end = w.end > old.end ? w.end : old.end;
      old.ticket = w.ticket;
      return;
    }
    writes[who][next_write[who]++ % writes_each] = w;
  }
  FOURSCALE_HD constexpr void proxy_fence(u32 who) {
    for (shared_write& w : writes[who]) w.fenced = true;
  }
  FOURSCALE_HD constexpr void note_read(shared_read const& r) {
    for (shared_read& old : reads)
      if (old.ticket != 0 && old.agent == r.agent && old.cta == r.cta && old.range == r.range) {
        old.ticket = r.ticket;
        return;
      }
    reads[next_read++ % reads_kept] = r;
  }

  /// May an agent that knows `now` read `range` of `cta` through the async proxy?
  FOURSCALE_HD constexpr misuse can_read(u32 who, knowledge const& now, u32 cta,
                                         strided_range const& range) const {
    for (u32 writer = 0; writer < max_agents; ++writer)
      for (shared_write const& w : writes[writer]) {
        if (w.ticket == 0 || w.cta != cta || !range.meets(w.begin, w.end)) continue;
        if (!w.fenced) return misuse::missing_proxy_fence;
        if (writer != who && now.of[writer].shared < w.ticket) return misuse::missing_barrier;
      }
    return misuse::ok;
  }
  /// May an agent that was told `now` and `arrived` write [begin, end)?
  FOURSCALE_HD constexpr misuse can_write(knowledge const& now, knowledge const& arrived, u32 cta, u32 begin,
                                          u32 end) const {
    for (shared_read const& r : reads) {
      if (r.ticket == 0 || r.cta != cta || !r.range.meets(begin, end)) continue;
      if (now.of[r.agent].finished < r.ticket && arrived.of[r.agent].finished < r.ticket)
        return misuse::shared_in_use;
    }
    return misuse::ok;
  }
};

}  // namespace FOURSCALE_NAMESPACE::model
