// SPDX-License-Identifier: Apache-2.0
// D = A * B^T with the bits of Blackwell's block-scaled MMA on the tensor cores of Hopper. A step of K = 64
// is a chain of four wgmma from zero, then one addition to the accumulator, rounded toward zero. The kernel
// is persistent. A CTA, three warpgroups, has a tile of 128 x 192 outputs, or of 128 or 64 columns; in a tile
// of 64 x 64 the second warpgroup that multiplies is idle. The two CTAs of a cluster have neighbouring tiles
// and share the loads of B, or of A. Clusters may split the last tiles along K (tile_parts.cuh).
// wgmma_tile.cuh explains runs, windows and strips. The roles, each with the barrier at which it arrives:
//
//   load     one thread of warp 0 has TMA fill a stage with a step of A and of B, by multicast
//            where both CTAs need the same rows (wgmma_load.cuh)                          -> `full`
//   certify  warps 1 to 3 prove which sums are exact, from bounds of rows and columns     -> `window_filled`,
//            (wgmma_certify.cuh)                                                          -> `certified`
//   multiply two warpgroups, 64 rows each, ping-pong: one adds while the products of the other are made.
//            Where no certificate holds, a warp makes the step again, exactly             -> `empty`
#pragma once

#include "../ptx/cluster.cuh"
#include "../ptx/mbarrier.cuh"
#include "../ptx/wgmma.cuh"
#include "wgmma_certify.cuh"
#include "wgmma_load.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

/// A thread's Cols / 2 elements of 64 x Cols sums, in wgmma's order.
template <int Cols>
using accumulator = float[Cols / 2];

/// Adds the sums of a finished chain to the accumulators, rounded toward zero.
template <int N>
FOURSCALE_D void add_chain(float (&sums)[N], float const (&chain)[N]) {
  FOURSCALE_UNROLL
  for (int i = 0; i < N; ++i) sums[i] = __fadd_rz(sums[i], chain[i]);
}

/// What a thread of a multiplying warpgroup needs in every step, computed once. All other addresses are a
/// constant away. A shuffle tells the compiler that `group` is the same in all lanes: so it keeps descriptors
/// in uniform registers, from which wgmma takes them. Every instruction between two chains costs time.
template <int Cols>
struct multiply_state {
  using memory = shared_memory<Cols>;
  u32 base, a_word;  ///< shared address of `m`; low word of the descriptor of the warpgroup's rows of A
  u32 turn, empty;   ///< barriers: the warpgroup's turn; `empty` of stage 0 in CTA lane % 2 of the cluster
  bool one, tells;   ///< lane 0; lanes 0 and 1, each of which arrives at `empty` in one CTA of the cluster
  bool alone;        ///< the tiles are low, so no other warpgroup takes turns

  FOURSCALE_D multiply_state(memory& m, int of_warp, bool low) : alone(low) {
    const u32 lane = threadIdx.x % 32;
    const int group = __shfl_sync(~0u, of_warp, 0);
    base = ptx::shared_address(&m);
    a_word =
        static_cast<u32>(ptx::wgmma_descriptor_b128(base + static_cast<u32>(group * 64 * decoded_row_bytes)));
    turn = ptx::shared_address(m.turn + group);
    empty = ptx::mapa_shared_cluster(ptx::shared_address(m.empty), lane % cluster_ctas);
    one = lane == 0;
    tells = lane < cluster_ctas;
  }
  FOURSCALE_D u32 at(u64 offset) const { return base + static_cast<u32>(offset); }
  FOURSCALE_D u32 b_word() const { return static_cast<u32>(ptx::wgmma_descriptor_b128(base + a_bytes)); }
  /// The number of a run. Where stages depend on it, the compiler learns that it is the same in all lanes.
  FOURSCALE_D static u32 same_in_all(u32 run) {
    return tile<Cols>::stage_runs == 1 ? run : __shfl_sync(~0u, run, 0);
  }
  /// The index of the stage that step `step` of a run has.
  FOURSCALE_D static u32 stage(int step, u32 run) {
    return static_cast<u32>(step) + run % tile<Cols>::stage_runs * run_steps;
  }
  /// Shared addresses of barriers and of a window's words. `run` of certified(), used() and fast() counts
  /// only the runs that no window certifies.
  FOURSCALE_D u32 full(u32 stage) const { return at(offsetof(memory, full)) + 8 * stage; }
  FOURSCALE_D u32 certified(u32 run) const {
    return at(offsetof(memory, certified)) + 8 * (run % certified_runs);
  }
  FOURSCALE_D u32 used(u32 run) const { return at(offsetof(memory, used)) + 8 * (run % certified_runs); }
  FOURSCALE_D u32 window(u32 i) const {
    return at(offsetof(memory, window)) + u32{sizeof(window_words)} * (i & 1);
  }
  FOURSCALE_D u32 window_filled(u32 i) const { return at(offsetof(memory, window_filled)) + 8 * (i & 1); }
  FOURSCALE_D u32 window_read(u32 i) const { return at(offsetof(memory, window_read)) + 8 * (i & 1); }
  FOURSCALE_D u32 group() const { return (turn - at(offsetof(memory, turn))) / 8; }
  FOURSCALE_D u32 next_turn() const {
    static_assert(multiply_groups == 2);
    const u32 other = 2 * at(offsetof(memory, turn)) + 8 - turn;
    return alone ? turn : other;
  }
  /// The phase parity of `turn` to wait for in a run's first step. Warpgroup 0's very first wait passes at
  /// once.
  FOURSCALE_D u32 turn_parity() const {
    static_assert(run_steps % 2 == 0, "The same in each run.");
    return group() ^ 1;
  }
  /// Address of the warpgroup's four words of a run, one for each step.
  FOURSCALE_D u32 fast(u32 run) const {
    return at(offsetof(memory, fast)) + u32{sizeof(memory::fast[0])} * (run % certified_runs) +
           u32{sizeof(memory::fast[0][0])} * group();
  }
};

/// Where a warpgroup is among the runs of its CTA's tiles. "Runs with certificates" are those that no window
/// certifies. Registers are scarce: of each count only the bits that slots and phase parities need are kept.
struct multiply_place {
  u32 left;        ///< runs that are left, this one included
  u32 word = 0;    ///< the window's `hold` bits, from those of this run on
  u32 counts = 0;  ///< bits 1:0 windows, 5:2 runs with certificates, 7:6 parts, from 8 on runs
  static_assert(2 * certified_runs == 1 << 4 && certified_runs % depth_runs == 0, "A slot, and a parity.");

  FOURSCALE_D u32 window() const { return counts & 3; }
  FOURSCALE_D u32 certified() const { return counts >> 2 & 15; }
  FOURSCALE_D u32 part() const { return counts >> 6 & 3; }
  FOURSCALE_D u32 run() const { return counts >> 8; }
  FOURSCALE_D void next_window() { counts = (counts & ~3u) | ((counts + 1) & 3); }
  FOURSCALE_D void next_certified() { counts = (counts & ~60u) | ((counts + 4) & 60); }
  FOURSCALE_D void next_part() { counts = (counts & ~192u) | ((counts + 64) & 192); }
  FOURSCALE_D void next_run() { counts += 256, --left; }
};

/// Waits for the warpgroup's turn, and issues the chain of step `step` of a run: 64 products for each output,
/// from zero. The other warpgroup's turn begins when half of the chain is issued.
template <int Cols>
FOURSCALE_D void issue_step(multiply_state<Cols> const& s, int step, u32 run, accumulator<Cols>& chain) {
  const u32 word = s.stage(step, run) * (tile<Cols>::stage_bytes / 16), a = s.a_word + word,
            b = s.b_word() + word;
  ptx::mbarrier_wait(s.turn, s.turn_parity() ^ static_cast<u32>(step & 1));
  ptx::wgmma_fence();
  FOURSCALE_UNROLL
  for (u32 block = 0; block < 4; ++block) {
    ptx::wgmma_bf16(chain, a + 2 * block, b + 2 * block, block != 0);
    if (block == 1 && s.one) ptx::mbarrier_arrive(s.next_turn());
  }
  ptx::wgmma_commit_group();
}

template <int Cols>
FOURSCALE_D void wait_for_stage(multiply_state<Cols> const& s, int step, u32 run) {
  ptx::mbarrier_wait(s.full(s.stage(step, run)), run / tile<Cols>::stage_runs & 1);
}
/// Called by a warp when it has read a stage: tells the loading threads of both CTAs that they may refill it.
template <int Cols>
FOURSCALE_D void release_stage(multiply_state<Cols> const& s, int step, u32 run) {
  if (s.tells) ptx::mbarrier_arrive_cluster(s.empty + 8 * s.stage(step, run));
}
/// Called by a warp when it has read the certificates of a run: they may be overwritten.
template <int Cols>
FOURSCALE_D void release_run(multiply_state<Cols> const& s, multiply_place& x) {
  if (s.one) ptx::mbarrier_arrive(s.used(x.certified()));
  x.next_certified();
}
/// Whether all certificates of a run hold for the warpgroup's 64 rows; if so, they are released without
/// being read. The warps of a warpgroup decide alike, since they must execute the same wgmma.
template <int Cols>
FOURSCALE_D bool has_fast_steps(multiply_state<Cols> const& s, multiply_place& x) {
  ptx::mbarrier_wait(s.certified(x.certified()), x.certified() / certified_runs);
  const uint4 steps = ptx::load_shared_u32x4(s.fast(x.certified()));
  const bool fast = (steps.x & steps.y & steps.z & steps.w) != 0;
  __syncwarp();  // all lanes have read
  if (fast) release_run(s, x);
  return fast;
}
/// Goes on to run `of_tile` of a part. Returns whether the run is fast: all of its sums are exact, and the
/// adder drops nothing, for all rows of the warpgroup.
template <int Cols>
FOURSCALE_D bool next_is_fast(multiply_state<Cols> const& s, multiply_place& x, int of_tile) {
  x.word >>= run_steps;
  if (of_tile % window_runs == 0) {
    ptx::mbarrier_wait(s.window_filled(x.window()), x.window() >> 1);
    x.word = ptx::load_shared_u32(s.window(x.window()));
    __syncwarp();  // all lanes have read
    if (s.one) ptx::mbarrier_arrive(s.window_read(x.window()));
    x.next_window();
  }
  return (x.word & whole_run) == whole_run || has_fast_steps(s, x);
}

/// Multiplies a fast run, whose first step is already issued, and issues the first step of the next run,
/// `next_of_tile` of its part. Returns whether that run is fast, too. Only the additions stand between the
/// end of a chain and the next chain: all else is done while the tensor core works. Behind the last run of
/// all, a step is issued, too, whose products nobody uses: in a branch, it would make the compiler wait for
/// every wgmma.
template <int Cols>
FOURSCALE_D bool multiply_run(multiply_state<Cols> const& s, multiply_place& x, int next_of_tile,
                              accumulator<Cols>& sums, accumulator<Cols>& chain) {
  const bool more = x.left > 1;
  const bool next = more && next_is_fast(s, x, next_of_tile);
  const u32 run = s.same_in_all(x.run());
  FOURSCALE_UNROLL
  for (int i = 0; i < run_steps; ++i) {
    const bool last = i + 1 == run_steps;
    const int next_step = last ? 0 : i + 1;
    const u32 next_run = last ? run + 1 : run;
    if (!last || more) wait_for_stage(s, next_step, next_run);
    ptx::wgmma_wait_group<0>();
    release_stage(s, i, run);
    add_chain(sums, chain);
    issue_step(s, next_step, next_run, chain);
  }
  x.next_run();
  return next;
}

/// The strip of a multiplying warp. keep() has it computed where it is used, so that no register holds it.
FOURSCALE_D inline int strip_of_thread() {
  u32 thread = threadIdx.x;
  ptx::keep(thread);
  return static_cast<int>(thread) / 32 - 4;
}

/// Adds the sums of a finished chain to the accumulators, except for the groups of columns `redone`.
template <int Cols>
FOURSCALE_D void add_chain_but(u32 redone, accumulator<Cols>& sums, accumulator<Cols> const& chain) {
  FOURSCALE_UNROLL
  for (int group = 0; group < tile<Cols>::col_groups; ++group)
    if ((redone >> group & 1) == 0) {
      FOURSCALE_UNROLL
      for (int i = 4 * group; i < 4 * group + 4; ++i) sums[i] = __fadd_rz(sums[i], chain[i]);
    }
}

/// Shared addresses of a step's depths, of the warp's rows and of all columns: they give each accumulator its
/// limit (row_limits). `run` counts runs with certificates.
template <int Cols>
FOURSCALE_D u32 depths_of_rows(multiply_state<Cols> const& s, u32 run, int step) {
  return s.at(offsetof(shared_memory<Cols>, depths_of_rows)) +
         ((run % depth_runs * run_steps) + static_cast<u32>(step)) * tile_rows +
         static_cast<u32>(strip_of_thread() * output_rows);
}
template <int Cols>
FOURSCALE_D u32 depths_of_cols(multiply_state<Cols> const& s, u32 run, int step) {
  return s.at(offsetof(shared_memory<Cols>, depths_of_cols)) +
         ((run % depth_runs * run_steps) + static_cast<u32>(step)) * Cols;
}
/// The adder drops nothing of a group of columns if scales drop nothing, as in all groups `asked`, and its
/// accumulators are below their limits. Returns such groups. Mostly all accumulators of the warp are below
/// the least limit, `limit_of_all`; else each is compared with its own. NaN is below no limit. A whole warp.
template <int Cols>
FOURSCALE_D u32 kept_by_accumulators(multiply_state<Cols> const& s, u32 run, int step, u32 asked,
                                     float limit_of_all, accumulator<Cols> const& sums) {
  float largest[4]{};
  FOURSCALE_UNROLL
  for (int i = 0; i < Cols / 2; ++i) largest[i % 4] = ptx::max_nan_f32(largest[i % 4], fabsf(sums[i]));
  FOURSCALE_UNROLL
  for (int i = 1; i < 4; ++i) largest[0] = ptx::max_nan_f32(largest[0], largest[i]);
  if (__all_sync(~0u, largest[0] < limit_of_all)) return asked;
  const row_limits limits(depths_of_rows(s, run, step), depths_of_cols(s, run, step));
  u32 kept = 0;
  FOURSCALE_UNROLL
  for (int four = 0; four < tile<Cols>::col_groups; four += 4) {
    if ((asked >> four & 15) == 0) continue;
    u32 cols[4];
    FOURSCALE_UNROLL
    for (int i = 0; i < 4; ++i) cols[i] = limits.of_cols(four + i);
    FOURSCALE_UNROLL
    for (int i = 0; i < 4; ++i) kept |= u32{limits.keep(cols[i], sums + 4 * (four + i))} << (four + i);
  }
  return asked & ~__reduce_or_sync(~0u, ~kept);
}

/// Adds step `step` of the part by blocks, for the groups of columns `redone`. A whole warp. When it returns,
/// all lanes have read the stage.
template <class P, int Cols>
FOURSCALE_D void add_by_blocks(P const& p, multiply_state<Cols> const& s, shared_memory<Cols>& m,
                               multiply_place const& place, int step, certificates c, u32 redone,
                               accumulator<Cols>& sums) {
  const int of_run = step % run_steps, strip = strip_of_thread();
  const u32 stage = s.base + s.stage(of_run, place.run()) * tile<Cols>::stage_bytes,
            stage_b = stage + a_bytes,
            stage_a = stage + static_cast<u32>(strip * output_rows * decoded_row_bytes);
  add_kept<tile<Cols>::col_groups>(stage_a + place_in_a(), stage_b + place_in_b(), redone & c.kept, sums);
  tile_part const& part = m.parts[place.part() % tile<Cols>::parts];
  if (p.steps != nullptr && s.one)
    count_steps(*p.steps, min(p.d.rows - part.row - strip * output_rows, i64{output_rows}),
                p.d.cols - part.col, c.kept & ~c.exact, tile<Cols>::all_cols & ~c.kept);
  if ((redone & ~c.kept) != 0) {
    const u32 run = place.certified();
    exact_columns& x = m.redone[strip];
    if (s.one)
      x = {&p.a,
           &p.b,
           {part.row + strip * output_rows, part.col, part.first * run_steps + step, stage_a, stage_b},
           m.limited[run % depth_runs][of_run][strip],
           depths_of_rows(s, run, of_run),
           depths_of_cols(s, run, of_run)};
    add_exactly<tile<Cols>::col_groups>(x, redone & ~c.kept, sums);
  }
  __syncwarp();
}

/// As multiply_run(), for run `run` of the `runs` of a part, whatever its certificates say: outputs without a
/// certificate are made again by blocks. It is a loop, since the code has to stay in the instruction cache.
template <class P, int Cols>
FOURSCALE_D bool multiply_with_care(P const& p, shared_memory<Cols>& m, multiply_state<Cols> const& s,
                                    multiply_place& x, int run, int runs, accumulator<Cols>& sums,
                                    accumulator<Cols>& chain) {
  const u32 this_run = x.run();
#pragma unroll 1
  for (int i = 0; i < run_steps; ++i) {
    certificates c = m.of_rows[x.certified() % certified_runs][i][strip_of_thread()];
    // Where norms do not prove that nothing is dropped, the accumulators may: they are compared with their
    // limits while the tensor core works.
    if (u32 asked = tile<Cols>::all_cols & ~c.kept; asked != 0) {
      const u32 slot = x.certified() % depth_runs;
      asked &= m.limited[slot][i][strip_of_thread()];
      c.kept |=
          kept_by_accumulators<Cols>(s, x.certified(), i, asked, m.limits[slot][i][strip_of_thread()], sums);
    }
    const u32 redone = tile<Cols>::all_cols & ~(c.exact & c.kept);
    const bool last = i + 1 == run_steps;
    const int next_step = last ? 0 : i + 1;
    const u32 next_run = last ? this_run + 1 : this_run;
    if (!last || x.left > 1) wait_for_stage(s, next_step, next_run);
    ptx::wgmma_wait_group<0>();
    if (redone == 0) release_stage(s, i, this_run);
    add_chain_but<Cols>(redone, sums, chain);
    if (redone != 0) {
      add_by_blocks(p, s, m, x, run * run_steps + i, c, redone, sums);
      release_stage(s, i, this_run);
    }
    issue_step(s, next_step, next_run, chain);
  }
  __syncwarp();  // all lanes have read the certificates
  release_run(s, x);
  x.next_run();
  return x.left != 0 && next_is_fast(s, x, run + 1 < runs ? run + 1 : 0);
}

/// The end of part `number`: its sums are handed over, or stored as outputs. A whole warp.
template <class P, template <int> class Memory, int Cols>
FOURSCALE_D void end_part(P const& p, Memory<Cols>& m, u32 number, accumulator<Cols> const& sums) {
  // The shuffle tells the compiler that lanes have the same strip: FP32 outputs then spill less. In tiles of
  // 64 columns it would put a move to a uniform register between two products.
  const int own = strip_of_thread(), strip = Cols == 64 ? own : __shfl_sync(~0u, own, 0);
  if constexpr (P::grouped) {
    store_outputs_of_group(p, m, number, strip, sums);
  } else {
    const u32 part = ptx::shared_address(m.parts + number % tile<Cols>::parts);
    const output_how how = m.outputs[strip].how();
    const part_end end(part, strip);
    if (end.is_first)
      p.carried.template leave<multiply_threads>(static_cast<int>(blockIdx.x),
                                                 static_cast<int>(threadIdx.x) - 128, sums);
    else
      m.outputs[strip].store(
          p, m.output[strip], m.outputs_there + strip, how, end.at, [&] { return part_end(part, strip).at; },
          sums);
  }
}

/// The role `multiply`: a warpgroup, with 64 rows of every part of a tile. While it stores the outputs of a
/// part, the first products of the next part are made.
template <class P, template <int> class Memory, int Cols>
FOURSCALE_D void multiply(P const& p, Memory<Cols>& m, int group) {
  const int strip = static_cast<int>(threadIdx.x) / 32 - 4;
  const multiply_state<Cols> s(m, group, has_low_tiles<Cols>(p));
  m.outputs[strip].prepare(p);
  if (p.a.steps == 0) return;
  accumulator<Cols> sums, chain;
  wait_for_stage(s, 0, 0);
  issue_step(s, 0, 0, chain);
  multiply_place x{static_cast<u32>(m.all_runs)};
  bool fast = next_is_fast(s, x, 0);
  while (x.left != 0) {
    tile_part const& part = m.parts[x.part() % tile<Cols>::parts];
    begin_part(p, part.is_second != 0, sums);
    const int runs = part.runs;
    [[maybe_unused]] const int ask_at = runs < 2 ? runs : 2;  // many GEMMs: one may have one run
    int run = 0;
#pragma unroll 1
    while (run < runs) {
      if (fast) {
        do {
          ++run;
          if constexpr (P::grouped) {
            if (run == ask_at) ask_for_outputs_of_group(p, m, x.part(), strip);
          } else {
            if (run == 2 && part.is_first == 0)  // by then TMA has read the outputs before: no wait
              m.outputs[strip].ask(p, m.output[strip], m.outputs_there + strip,
                                   {part.row + strip * output_rows, part.col});
          }
          fast = multiply_run(s, x, run < runs ? run : 0, sums, chain);
        } while (fast && run < runs);
      } else {
        fast = multiply_with_care(p, m, s, x, run, runs, sums, chain);
        ++run;
      }
    }
    end_part(p, m, x.part(), sums);
    x.next_part();
  }
  ptx::wgmma_wait_group<0>();
  m.outputs[strip].finish();
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
