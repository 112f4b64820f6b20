// SPDX-License-Identifier: Apache-2.0
// The checker of tcgen05 programs. It records the allocations, the last read and write of each cell of tensor
// memory, the accesses to shared memory, and what each agent (warp) may rely on as complete. The caller owns
// one zero-initialised checker for each cluster (a CTA, a pair of CTAs or two pairs), and serialises its
// calls. A CTA is named by its rank in the cluster.
#pragma once

#include "column_allocator.hpp"
#include "shared_log.hpp"
#include "tensor_memory.hpp"

namespace FOURSCALE_NAMESPACE::model {

/// How an operation completes: mma and cp (`tensor`) through commit, ld (`load`) and st (`store`) through
/// their waits.
enum class flow : u8 { tensor, load, store };

/// A region of tensor memory: columns [column, column + columns) of one CTA, in those of its four 32-lane
/// quarters that the mask names.
struct region {
  u32 cta = 0, column = 0, columns = 0, quarters = 0xf;
};

/// The last operation that read, or that wrote, a cell. Ticket 0: none.
struct access {
  u32 ticket = 0;
  u32 accumulator = 0;  ///< not 0: an mma wrote it as D; equal for the same address and shape
  u8 who = 0;
  flow how = flow::tensor;
};

/// The state of a cell, here one column of one 32-lane quarter.
struct cell {
  access written, read;
};

/// use_group(), dealloc() and the functions can_*() only return a misuse, which their caller must report().
/// The others report it themselves.
class checker {
 public:
  /// The first misuse, and how many there were.
  misuse first = misuse::ok;
  u32 count = 0;

  FOURSCALE_HD constexpr misuse report(misuse e) {
    if (e == misuse::ok) return e;
    if (count++ == 0) first = e;
    return e;
  }

  // ---- allocation

  column_allocator columns[max_ctas];

  /// The first call fixes the cta_group of the kernel, 1 or 2; later calls must agree.
  FOURSCALE_HD constexpr misuse use_group(u32 group) {
    if (group_ == 0) group_ = group;
    return group_ == group ? misuse::ok : misuse::mixed_cta_groups;
  }
  /// tcgen05.dealloc. As far as `a` can know, all operations on these columns must be over.
  FOURSCALE_HD constexpr misuse dealloc(agent a, u32 column, u32 count_of_columns) {
    if (!columns[a.cta].is_allocation(column, count_of_columns)) return misuse::dealloc_mismatch;
    for (u32 c = column; c < column + count_of_columns; ++c)
      for (cell const& x : cells_[a.cta][c])
        if (after(x.written, a, flow::store, 0) != misuse::ok ||
            after(x.read, a, flow::store, 0) != misuse::ok)
          return misuse::dealloc_in_use;
    for (u32 c = column; c < column + count_of_columns; ++c)
      for (cell& x : cells_[a.cta][c]) x = {};
    columns[a.cta].release(column, count_of_columns);
    return misuse::ok;
  }

  // ---- operations on tensor memory: first make all checks, then issue(), then the notes

  /// May an operation of `a` read, or write, the region? `accumulator` is not 0 for the D of an mma.
  FOURSCALE_HD constexpr misuse can_read(agent a, flow how, region const& r, u32 accumulator = 0) const {
    if (!columns[r.cta].holds(r.column, r.columns)) return misuse::unallocated_columns;
    for (u32 c = r.column; c < r.column + r.columns; ++c)
      for (u32 q = 0; q < 4; ++q) {
        if ((r.quarters >> q & 1u) == 0) continue;
        access const& written = cells_[r.cta][c][q].written;
        if (written.ticket == 0) return misuse::uninitialized_cells;
        if (const misuse e = after(written, a, how, accumulator); e != misuse::ok) return e;
      }
    return misuse::ok;
  }
  FOURSCALE_HD constexpr misuse can_write(agent a, flow how, region const& r, u32 accumulator = 0) const {
    if (!columns[r.cta].holds(r.column, r.columns)) return misuse::unallocated_columns;
    for (u32 c = r.column; c < r.column + r.columns; ++c)
      for (u32 q = 0; q < 4; ++q) {
        if ((r.quarters >> q & 1u) == 0) continue;
        cell const& x = cells_[r.cta][c][q];
        if (const misuse e = after(x.written, a, how, accumulator); e != misuse::ok)
          return accumulator != 0 && x.written.accumulator != 0 && x.written.who == a.index()
                     ? misuse::other_accumulator_shape
                     : e;
        if (const misuse e = after(x.read, a, how, accumulator); e != misuse::ok) return e;
      }
    return misuse::ok;
  }
  /// Gives a new operation of this agent its number (ticket). All flows share one sequence.
  FOURSCALE_HD constexpr u32 issue(agent a) { return ++own(a).ordered; }
  FOURSCALE_HD constexpr void note_read(agent a, flow how, u32 ticket, region const& r) {
    for (u32 c = r.column; c < r.column + r.columns; ++c)
      for (u32 q = 0; q < 4; ++q)
        if (r.quarters >> q & 1u) cells_[r.cta][c][q].read = {ticket, 0, static_cast<u8>(a.index()), how};
  }
  FOURSCALE_HD constexpr void note_write(agent a, flow how, u32 ticket, region const& r,
                                         u32 accumulator = 0) {
    for (u32 c = r.column; c < r.column + r.columns; ++c)
      for (u32 q = 0; q < 4; ++q)
        if (r.quarters >> q & 1u)
          cells_[r.cta][c][q].written = {ticket, accumulator, static_cast<u8>(a.index()), how};
  }

  // ---- shared memory

  FOURSCALE_HD constexpr misuse can_read_shared(agent a, u32 cta, strided_range const& r) const {
    return shared_.can_read(a.index(), now_[a.index()], cta, r);
  }
  FOURSCALE_HD constexpr void note_read_shared(agent a, u32 cta, strided_range const& r, u32 ticket) {
    shared_.note_read(cta, {r, ticket, a.index(), false});
  }
  /// Bytes [begin, end) of the agent's own CTA were written: by ordinary stores of the warp, or by the async
  /// proxy (TMA) on its behalf.
  FOURSCALE_HD constexpr misuse write_shared(agent a, u32 begin, u32 end, bool async_proxy) {
    return report(write_in(a, a.cta, begin, end, async_proxy));
  }
  /// TMA writes these bytes in each CTA of the mask, and completes them on the mbarrier `barrier` there.
  FOURSCALE_HD constexpr misuse copy_to_shared(agent a, u32 ctas, u32 begin, u32 end, u32 barrier) {
    if (barrier >= barriers_per_cta) return report(misuse::bad_barrier);
    misuse first_of_all = misuse::ok;
    for (u32 cta = 0; cta < max_ctas; ++cta) {
      if ((ctas >> cta & 1u) == 0) continue;
      misuse e = write_in(a, cta, begin, end, true);
      const misuse told = barriers_[cta][barrier].copy(a.index(), own(a).shared, end - begin);
      if (e == misuse::ok) e = told;
      if (first_of_all == misuse::ok) first_of_all = e;
    }
    static_cast<void>(tell_shared(a.index()));
    return report(first_of_all);
  }
  /// A bulk copy of bytes [begin, end) to global memory, committed as a bulk group of its own.
  FOURSCALE_HD constexpr misuse copy_from_shared(agent a, u32 begin, u32 end) {
    const u32 i = a.index();
    const strided_range r{begin, end - begin, 0, 1};
    const misuse e = shared_.can_read(i, now_[i], a.cta, r);
    if (e == misuse::ok) shared_.note_read(a.cta, {r, ++bulk_groups_[i], i, true});
    return report(e);
  }
  /// cp.async.bulk.wait_group.read: all groups of the agent but the latest `left` have read their memory.
  FOURSCALE_HD constexpr void wait_copied(agent a, u32 left) {
    const u32 groups = bulk_groups_[a.index()];
    progress::raise(own(a).copied, groups > left ? groups - left : 0);
  }
  FOURSCALE_HD constexpr void proxy_fence(agent a) { shared_.proxy_fence(a.index()); }

  // ---- order

  FOURSCALE_HD constexpr void fence_before(agent a) { published_[a.index()] = now_[a.index()]; }
  FOURSCALE_HD constexpr void fence_after(agent a) { now_[a.index()].merge(arrived_[a.index()]); }
  FOURSCALE_HD constexpr void wait_ld(agent a) { own(a).loaded = own(a).ordered; }
  FOURSCALE_HD constexpr void wait_st(agent a) { own(a).stored = own(a).ordered; }

  /// A barrier of all agents in the mask: __syncthreads, a named barrier or a cluster barrier.
  FOURSCALE_HD constexpr void sync(u32 agents) {
    knowledge all;
    for (u32 i = 0; i < max_agents; ++i)
      if (agents >> i & 1u) all.merge(published_[i]), all.merge_shared(tell_shared(i));
    for (u32 i = 0; i < max_agents; ++i)
      if (agents >> i & 1u) arrived_[i].merge(all), now_[i].merge_shared(all);
  }

  FOURSCALE_HD constexpr misuse barrier_init(u32 cta, u32 barrier, u32 arrivals) {
    if (cta >= max_ctas || barrier >= barriers_per_cta || arrivals == 0) return report(misuse::bad_barrier);
    barriers_[cta][barrier] = {};
    barriers_[cta][barrier].count = barriers_[cta][barrier].pending = arrivals;
    return misuse::ok;
  }
  /// mbarrier.arrive on a barrier of `cta`, or arrive.expect_tx of `expected` bytes.
  FOURSCALE_HD constexpr misuse arrive(agent a, u32 cta, u32 barrier, u32 expected = 0) {
    if (cta >= max_ctas || barrier >= barriers_per_cta) return report(misuse::bad_barrier);
    knowledge k = published_[a.index()];
    k.merge_shared(tell_shared(a.index()));
    return report(barriers_[cta][barrier].arrive(k, expected));
  }
  /// tcgen05.commit to `barrier` of each CTA in the mask. Whoever waits for that barrier knows that all mma
  /// and cp that `a` issued before are complete; no fence::before_thread_sync is needed.
  FOURSCALE_HD constexpr misuse commit(agent a, u32 barrier, u32 ctas) {
    if (barrier >= barriers_per_cta) return report(misuse::bad_barrier);
    const u32 i = a.index();
    knowledge k = tell_shared(i);
    k.of[i].finished = k.of[i].released = committed_[i] = k.of[i].ordered;
    for (u32 cta = 0; cta < max_ctas; ++cta)
      if (ctas >> cta & 1u)
        if (const misuse e = barriers_[cta][barrier].arrive(k); e != misuse::ok) return report(e);
    return misuse::ok;
  }
  /// True once the phase of that parity is over.
  FOURSCALE_HD constexpr bool passed(u32 cta, u32 barrier, u32 parity) const {
    return barriers_[cta][barrier].passed(parity);
  }
  /// mbarrier.try_wait.parity until it succeeds, on a barrier of the agent's own CTA. The model does not
  /// wait: a phase that is not over is `would_hang`.
  FOURSCALE_HD constexpr misuse wait(agent a, u32 barrier, u32 parity) {
    if (barrier >= barriers_per_cta || barriers_[a.cta][barrier].count == 0)
      return report(misuse::bad_barrier);
    model_barrier const& b = barriers_[a.cta][barrier];
    if (!b.passed(parity)) return report(misuse::would_hang);
    arrived_[a.index()].merge(b.complete);
    now_[a.index()].merge_shared(b.complete);
    return misuse::ok;
  }

  /// Call it at the end of the kernel, for each CTA.
  FOURSCALE_HD constexpr misuse finish(u32 cta) {
    if (!columns[cta].empty()) return report(misuse::dealloc_forgotten);
    return report(shared_.all_copied(cta, now_) ? misuse::ok : misuse::bulk_copy_pending);
  }

 private:
  u32 group_ = 0;
  cell cells_[max_ctas][tensor_columns][4] = {};
  u32 committed_[max_agents] = {}, bulk_groups_[max_agents] = {};  // last committed ticket; groups
  // By agent: what it may rely on; what barriers told it, before its fence::after_thread_sync; what it tells
  // at barriers, as of its last fence::before_thread_sync.
  knowledge now_[max_agents], arrived_[max_agents], published_[max_agents];
  model_barrier barriers_[max_ctas][barriers_per_cta];
  shared_log shared_;

  FOURSCALE_HD constexpr progress& own(agent a) { return now_[a.index()].of[a.index()]; }
  FOURSCALE_HD constexpr misuse write_in(agent a, u32 cta, u32 begin, u32 end, bool async_proxy) {
    const u32 i = a.index();
    const misuse e = shared_.can_write(now_[i], cta, begin, end);
    if (e == misuse::ok) shared_.note_write(cta, {begin, end, ++own(a).shared, i, async_proxy});
    return e;
  }
  /// What agent i knows, to be told to others through a barrier; marks its writes to shared memory as told.
  FOURSCALE_HD constexpr knowledge const& tell_shared(u32 i) {
    shared_.told[i] = now_[i].of[i].shared;
    return now_[i];
  }

  /// True for pairs of operations that run in the order of issue, without a wait: mma after cp, mma after mma
  /// on the same accumulator (PTX ISA 9.7.16.6.2), and cp after cp, or after an mma that did not write the
  /// cell as D.
  FOURSCALE_HD static constexpr bool pipelined(access const& old, flow how, u32 accumulator) {
    return old.how == flow::tensor && how == flow::tensor &&
           (old.accumulator == 0 || old.accumulator == accumulator);
  }

  /// May an operation of `a` rely on `old` being complete (or, if pipelined, issued)? If not: what is
  /// missing.
  FOURSCALE_HD constexpr misuse after(access const& old, agent a, flow how, u32 accumulator) const {
    if (old.ticket == 0) return misuse::ok;
    const bool in_order = pipelined(old, how, accumulator);
    if (in_order && old.who == a.index()) return misuse::ok;
    const u32 me = a.index(), who = old.who;
    if (reached(now_[me], old, in_order)) return misuse::ok;
    if (reached(arrived_[me], old, in_order)) return misuse::missing_fence_after;
    if (old.how == flow::tensor && !in_order)
      return committed_[who] < old.ticket ? misuse::missing_commit : misuse::missing_wait;
    if (!reached(now_[who], old, in_order))
      return old.how == flow::load ? misuse::missing_wait_ld : misuse::missing_wait_st;
    return reached(published_[who], old, in_order) ? misuse::missing_barrier : misuse::missing_fence_before;
  }
  /// True if `k` includes the completion (or, if in_order, the issue) of `old`.
  FOURSCALE_HD static constexpr bool reached(knowledge const& k, access const& old, bool in_order) {
    progress const& p = k.of[old.who];
    const u32 known = old.how == flow::load    ? p.loaded
                      : old.how == flow::store ? p.stored
                      : in_order               ? p.ordered
                                               : p.finished;
    return known >= old.ticket;
  }
};

}  // namespace FOURSCALE_NAMESPACE::model
