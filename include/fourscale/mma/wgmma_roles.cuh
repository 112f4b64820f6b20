// SPDX-License-Identifier: Apache-2.0
// D = A * B^T with the bits of Blackwell's block-scaled MMA on the tensor cores of Hopper. A step of K = 64
// is four wgmma from zero, and one addition rounded toward zero to the accumulator. A CTA of three warpgroups
// takes a tile of 128 x 192, and two CTAs of a cluster share its rows:
//
//   load     one warp has TMA fill a stage with a step of B and half of A, for both CTAs  -> `full`
//   certify  three warps compare the bounds of rows and columns: where are sums exact?    -> `certified`
//   multiply two warpgroups, 64 rows each, in turns: one adds while the other one's products are made.
//            Where no certificate holds, the step is made again, exactly                  -> `empty`
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "../ptx/cluster.cuh"
#include "../ptx/elect.cuh"
#include "../ptx/mbarrier.cuh"
#include "../ptx/wgmma.cuh"
#include "../view/gemm_epilogue.hpp"
#include "../view/gemm_factors.hpp"
#include "exact_step.cuh"
#include "output_rows.cuh"
#include "step_counts.cuh"
#include "tile_walk.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

inline constexpr int cluster_ctas = 2, multiply_groups = 2, threads = 128 * (1 + multiply_groups);
inline constexpr int tile_rows = 64 * multiply_groups, tile_cols = 192, stages = 4;
inline constexpr int multiply_registers = 232, other_registers = 40;  ///< of a thread
inline constexpr int col_groups = tile_cols / bounds_rows;  ///< of eight columns, which share their bounds
inline constexpr int strips =
    tile_rows / output_rows;  ///< of sixteen rows, one for each warp that multiplies
inline constexpr int half_rows = tile_rows / cluster_ctas;  ///< of A, which each CTA loads for both
inline constexpr int a_bytes = tile_rows * decoded_row_bytes, b_bytes = tile_cols * decoded_row_bytes;
inline constexpr int stage_bytes = a_bytes + b_bytes;
/// Steps of a tile go in runs, a stage each, so that an inner loop knows all addresses. Behind K they are of
/// zeros, which change no sum.
inline constexpr int run_steps = stages, certify_warps = 3;
inline constexpr u32 all_cols = (1u << col_groups) - 1;

/// launch_wgmma() refuses what has more tiles than this can count.
using tile_walk = mma::tile_walk<tile_rows, tile_cols, cluster_ctas>;

struct shared_memory {
  alignas(1024) u8 stage[stages][stage_bytes];     ///< A, then B
  output_rows_of_warp<tile_cols> outputs[strips];  ///< of each warp
  tile_walk walks[strips];                         ///< the same: registers are for the sums
  certificates of_rows[2][run_steps][strips];  ///< of an even run and an odd one; bits: eight columns each
  alignas(
      16) u32 fast[2][multiply_groups][run_steps];  ///< all of a warpgroup's certificates of the step hold
  alignas(8) std::uint64_t full[stages], empty[stages], turn[multiply_groups], certified[2], used[2];
};

/// D = alpha * A * B^T + beta * D: the arguments of the kernel.
template <class T, class Factors>
struct problem {
  CUtensorMap map_a, map_b;  ///< of the values: boxes of a step by half_rows, and by tile_cols
  decoded_operand a, b;
  matrix_view<T> d;
  Factors factor_of;  ///< of an output: see output_strip.cuh
  float beta;
  gemm_steps* steps;  ///< counts, or null
};

/// Runs of a tile.
template <class P>
FOURSCALE_D int runs_of(P const& p) {
  return static_cast<int>(ceil_div<i64>(p.a.steps, run_steps));
}

FOURSCALE_D inline void wait(std::uint64_t* barrier, u32 parity) {
  while (!cuda::ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}
FOURSCALE_D inline void init_barriers(shared_memory& m) {
  for (int i = 0; i < stages; ++i) {
    cuda::ptx::mbarrier_init(m.full + i, 1);
    cuda::ptx::mbarrier_init(m.empty + i, strips * cluster_ctas);
  }
  for (int i = 0; i < multiply_groups; ++i) cuda::ptx::mbarrier_init(m.turn + i, 4);
  for (int i = 0; i < 2; ++i) {
    cuda::ptx::mbarrier_init(m.certified + i, certify_warps);
    cuda::ptx::mbarrier_init(m.used + i, strips);
  }
  cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
}

// ---------------------------------------------------------------- load, certify

/// One thread.
template <class P>
FOURSCALE_D void load(P const& p, shared_memory& m) {
  const i32 rank = static_cast<i32>(blockIdx.x % cluster_ctas), steps = runs_of(p) * run_steps;
  u32 parity = 1;  // the first time around, a wait passes at once
  for (tile_walk walk(p); walk.more(); walk.next()) {
    const i32 row = walk.row() + rank * half_rows, col = walk.col();
    for (i32 step = 0; step < steps; ++step) {
      const int stage = step % stages;
      wait(m.empty + stage, parity);
      u8* const to = m.stage[stage];
      std::uint64_t* const full = m.full + stage;
      cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                           cuda::ptx::space_shared, full, stage_bytes);
      cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to + a_bytes,
                                      &p.map_b, {step * decoded_step, col}, full);
      cuda::ptx::cp_async_bulk_tensor(
          cuda::ptx::space_cluster, cuda::ptx::space_global, to + rank * (a_bytes / cluster_ctas), &p.map_a,
          {step * decoded_step, row}, full, static_cast<std::uint16_t>((1 << cluster_ctas) - 1));
      if (stage == stages - 1) parity ^= 1;
    }
  }
}

/// Of `all` of x, its bounds or norms: those of eight rows, or of none.
template <class T>
FOURSCALE_D T load_facts(decoded_operand const& x, T const* all, i64 row_group, i64 step, bool wanted) {
  if (!wanted || row_group >= x.row_groups() || step >= x.steps) return {};
  return all[step * x.row_groups() + row_group];
}

/// Where a certifying warp's lane is: eight rows of A and of B, of a step.
struct certify_place {
  i64 row, col;
  bool has_row, has_col;
};

/// What the warps of all strips may do with a step, in the lane of the same number. A lane has the bounds of
/// eight rows, and of eight columns. Norms are read where widths certify too little.
template <class P>
FOURSCALE_D certificates certify_step(P const& p, certify_place const& at, i64 step,
                                      fourscale::model::step_bounds of_row,
                                      fourscale::model::step_bounds of_col) {
  const auto largest = [](u8 x) { return static_cast<u8>(__reduce_max_sync(~0u, u32{x})); };
  const fourscale::model::step_bounds rows{largest(of_row.width), largest(of_row.span)},
      cols{largest(of_col.width), largest(of_col.span)};
  certificates result{all_cols, all_cols};
  if (sums_are_exact(rows, cols) && nothing_is_dropped(rows, cols)) return result;
  auto row_norms = load_facts(p.a, p.a.norms, at.row, step, at.has_row);
  const auto col_norms = load_facts(p.b, p.b.norms, at.col, step, at.has_col);
  const u32 mine = of_row.width | u32{of_row.span} << 16;
  const u32 of_rows = __vmaxu2(mine, __shfl_xor_sync(~0u, mine, 1));
  FOURSCALE_UNROLL
  for (u32& word : row_norms.words) word = __vmaxu2(word, __shfl_xor_sync(~0u, word, 1));
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int i = 0; i < strips; ++i) {
    const u32 r = __shfl_sync(~0u, of_rows, 2 * i);
    const fourscale::model::step_bounds bounds{static_cast<u8>(r), static_cast<u8>(r >> 16)};
    const fourscale::model::block_norms norms{__shfl_sync(~0u, row_norms.words[0], 2 * i),
                                              __shfl_sync(~0u, row_norms.words[1], 2 * i)};
    const u32 exact = __ballot_sync(~0u, sums_are_exact(bounds, of_col) || sums_are_exact(norms, col_norms)),
              kept = __ballot_sync(~0u, nothing_is_dropped(bounds, of_col));
    if (lane == i) result = {exact & all_cols, kept & all_cols};
  }
  return result;
}

/// One warp of certify_warps, which share the steps of a run. Bounds are read while the run before is used.
template <class P>
FOURSCALE_D void certify(P const& p, shared_memory& m, int warp) {
  constexpr int most = ceil_div<int>(run_steps, certify_warps);  // steps of a run for a warp
  const int lane = static_cast<int>(threadIdx.x) % 32, runs = runs_of(p);
  u32 all = 0;  // runs, of all tiles
  for (tile_walk walk(p); walk.more(); walk.next()) {
    const certify_place at{walk.row() / bounds_rows + lane, walk.col() / bounds_rows + lane,
                           lane < tile_rows / bounds_rows, lane < col_groups};
    for (int run = 0; run < runs; ++run, ++all) {
      const u32 slot = all & 1;
      fourscale::model::step_bounds a[most], b[most];
      FOURSCALE_UNROLL
      for (int i = 0; i < most; ++i) {
        const int step = run * run_steps + i * certify_warps + warp;
        a[i] = load_facts(p.a, p.a.bounds, at.row, step, at.has_row);
        b[i] = load_facts(p.b, p.b.bounds, at.col, step, at.has_col);
      }
      wait(m.used + slot, all >> 1 & 1 ^ 1);  // the first time around, it passes at once
      FOURSCALE_UNROLL
      for (int i = 0; i < most; ++i) {
        const int step = i * certify_warps + warp;
        if (step >= run_steps) break;
        const certificates c = certify_step(p, at, run * run_steps + step, a[i], b[i]);
        const u32 fast_strips = __ballot_sync(~0u, (c.exact & c.kept) == all_cols);
        if (lane < strips) m.of_rows[slot][step][lane] = c;
        if (lane < multiply_groups) m.fast[slot][lane][step] = (~fast_strips >> (4 * lane) & 15u) == 0;
      }
      __syncwarp();
      if (lane == 0) cuda::ptx::mbarrier_arrive(m.certified + slot);
    }
  }
}

// ---------------------------------------------------------------- multiply

/// Sums of a thread, as wgmma has them.
using accumulator = float[tile_cols / 2];

FOURSCALE_D inline void add_chain(accumulator& sums, accumulator const& chain) {
  FOURSCALE_UNROLL
  for (int i = 0; i < tile_cols / 2; ++i) sums[i] = __fadd_rz(sums[i], chain[i]);
}

/// A step whose chain is done: adds the chain to the sums where it is exact, and makes the step again
/// elsewhere. The warp decides as one, and the compiler knows it from the reductions.
template <class P>
FOURSCALE_D void add_with_care(P const& p, exact_place place, certificates c, accumulator& sums,
                               accumulator const& chain) {
  const u32 exact = __reduce_and_sync(~0u, c.exact), kept = __reduce_and_sync(~0u, c.kept);
  const u32 fast = exact & kept;
  if (fast == all_cols) {
    add_chain(sums, chain);
    return;
  }
  FOURSCALE_UNROLL
  for (int i = 0; i < tile_cols / 2; ++i)
    if (fast >> (i / 4) & 1) sums[i] = __fadd_rz(sums[i], chain[i]);
  FOURSCALE_UNROLL
  for (int group = 0; group < col_groups; ++group) {
    float* const x = sums + 4 * group;
    if ((fast >> group & 1) == 0) {
      const float4 y = exact_step(p.a, p.b, place, (kept >> group & 1) == 0, {x[0], x[1], x[2], x[3]});
      x[0] = y.x, x[1] = y.y, x[2] = y.z, x[3] = y.w;
    }
    place.row_b += bounds_rows;
    place.stage_b += bounds_rows * decoded_row_bytes;
  }
  if (p.steps != nullptr && threadIdx.x % 32 == 0)
    count_steps(*p.steps, min(p.d.rows - place.row_a, i64{output_rows}), p.d.cols - place.row_b + tile_cols,
                kept & ~exact, all_cols & ~kept);
}

/// What a thread of a warpgroup needs in every step, found once. All else is a constant away.
struct multiply_state {
  u32 base, a_word;  ///< address of the shared memory; low word of the descriptor of the group's rows of A
  u32 turn, empty;   ///< addresses of barriers: the group's; that of stage 0 in the CTA that the lane tells
  bool one, tells;   ///< one lane; one for each CTA of the cluster

  FOURSCALE_D multiply_state(shared_memory& m, int group) {
    const u32 lane = threadIdx.x % 32;
    base = ptx::shared_address(&m);
    a_word =
        static_cast<u32>(ptx::wgmma_descriptor_b128(base + static_cast<u32>(group * 64 * decoded_row_bytes)));
    turn = ptx::shared_address(m.turn + group);
    empty = ptx::mapa_shared_cluster(ptx::shared_address(m.empty), lane % cluster_ctas);
    one = lane == 0;
    tells = lane < cluster_ctas;
    for (u32* x : {&a_word, &turn, &empty}) ptx::keep(*x);
  }
  FOURSCALE_D u32 at(u64 offset) const { return base + static_cast<u32>(offset); }
  FOURSCALE_D u32 b_word() const { return static_cast<u32>(ptx::wgmma_descriptor_b128(base + a_bytes)); }
  FOURSCALE_D u32 full(int stage) const {
    return at(offsetof(shared_memory, full)) + 8 * static_cast<u32>(stage);
  }
  FOURSCALE_D u32 certified(u32 run) const { return at(offsetof(shared_memory, certified)) + 8 * (run & 1); }
  FOURSCALE_D u32 used(u32 run) const { return at(offsetof(shared_memory, used)) + 8 * (run & 1); }
  FOURSCALE_D u32 group() const { return (turn - at(offsetof(shared_memory, turn))) / 8; }
  FOURSCALE_D u32 next_turn() const {
    static_assert(multiply_groups == 2);
    return 2 * at(offsetof(shared_memory, turn)) + 8 - turn;
  }
  /// Of the turn in a run's first step: the first of all needs no wait.
  FOURSCALE_D u32 turn_parity() const {
    static_assert(run_steps % 2 == 0, "The same in each run.");
    return group() ^ 1;
  }
  /// Address of the group's words of a run.
  FOURSCALE_D u32 fast(u32 run) const {
    return at(offsetof(shared_memory, fast)) + u32{sizeof(shared_memory::fast[0])} * (run & 1) +
           u32{sizeof(shared_memory::fast[0][0])} * group();
  }
};

/// The runs of a CTA's tiles.
struct multiply_place {
  u32 run, runs;  ///< this one, and how many
};

/// A step: 64 products for each output, from zero. The next warpgroup's turn comes when half of it is issued.
FOURSCALE_D inline void issue_step(multiply_state const& s, int stage, accumulator& chain) {
  const u32 word = static_cast<u32>(stage * (stage_bytes / 16)), a = s.a_word + word, b = s.b_word() + word;
  ptx::mbarrier_wait(s.turn, s.turn_parity() ^ static_cast<u32>(stage & 1));
  ptx::wgmma_fence();
  FOURSCALE_UNROLL
  for (u32 block = 0; block < 4; ++block) {
    ptx::wgmma_m64n192k16_bf16(chain, a + 2 * block, b + 2 * block, block != 0);
    if (block == 1 && s.one) ptx::mbarrier_arrive(s.next_turn());
  }
  ptx::wgmma_commit_group();
}

FOURSCALE_D inline void wait_for_stage(multiply_state const& s, int stage, u32 run) {
  ptx::mbarrier_wait(s.full(stage), run & 1);
}
/// Lets the run's certificates be written over.
FOURSCALE_D inline void release_run(multiply_state const& s, u32 run) {
  if (s.one) ptx::mbarrier_arrive(s.used(run));
}
/// Whether all certificates of a run hold; if so, they are not looked at again. A warpgroup decides as one,
/// since its warps must execute the same wgmma.
FOURSCALE_D inline bool is_fast(multiply_state const& s, u32 run) {
  ptx::mbarrier_wait(s.certified(run), run >> 1 & 1);
  const uint4 steps = ptx::load_shared_u32x4(s.fast(run));
  const bool fast = (steps.x & steps.y & steps.z & steps.w) != 0;
  __syncwarp();  // all lanes have read
  if (fast) release_run(s, run);
  return fast;
}

/// A run whose certificates all hold. True if the next one is of the same kind. Between a chain's end and the
/// next one stand only the additions: all else is done while the tensor core works.
FOURSCALE_D inline bool multiply_run(multiply_state const& s, multiply_place& x, accumulator& sums,
                                     accumulator& chain) {
  const bool more = x.run + 1 < x.runs;
  bool next = false;
  FOURSCALE_UNROLL
  for (int i = 0; i < run_steps; ++i) {
    issue_step(s, i, chain);
    if (i == 0 && more) next = is_fast(s, x.run + 1);
    if (i + 1 < run_steps)
      wait_for_stage(s, i + 1, x.run);
    else if (more)
      wait_for_stage(s, 0, x.run + 1);
    ptx::wgmma_wait_group<0>();
    if (s.tells) ptx::mbarrier_arrive_cluster(s.empty + 8 * static_cast<u32>(i));
    add_chain(sums, chain);
  }
  ++x.run;
  return next;
}

/// The same whatever the certificates say; `place` is that of the first step, without a stage.
template <class P>
FOURSCALE_D bool multiply_with_care(P const& p, shared_memory& m, multiply_state const& s, multiply_place& x,
                                    exact_place place, int strip, accumulator& sums, accumulator& chain) {
#pragma unroll 1
  for (int i = 0; i < run_steps; ++i, ++place.step) {
    if (i > 0) wait_for_stage(s, i, x.run);
    place.stage_a = s.base + static_cast<u32>(i * stage_bytes + strip * output_rows * decoded_row_bytes);
    place.stage_b = s.base + static_cast<u32>(i * stage_bytes + a_bytes);
    issue_step(s, i, chain);
    const certificates c = m.of_rows[x.run & 1][i][strip];
    ptx::wgmma_wait_group<0>();
    add_with_care(p, place, c, sums, chain);
    __syncwarp();
    if (s.tells) ptx::mbarrier_arrive_cluster(s.empty + 8 * static_cast<u32>(i));
  }
  release_run(s, x.run);
  if (++x.run == x.runs) return false;
  wait_for_stage(s, 0, x.run);
  return is_fast(s, x.run);
}

/// A warpgroup: 64 rows of every tile.
template <class P>
FOURSCALE_D void multiply(P const& p, shared_memory& m, int group) {
  const int strip = static_cast<int>(threadIdx.x) / 32 - 4, runs = runs_of(p);
  const multiply_state s(m, group);
  tile_walk& walk = m.walks[strip];
  if (s.one) walk = tile_walk(p);
  m.outputs[strip].prepare(p);
  multiply_place x{0, static_cast<u32>(walk.left()) * static_cast<u32>(runs)};
  if (x.runs == 0) return;
  accumulator sums, chain;
  bool fast = is_fast(s, 0);
  wait_for_stage(s, 0, 0);
  for (; walk.more();) {
    FOURSCALE_UNROLL
    for (float& sum : sums) sum = 0.0f;
    int run = 0;
#pragma unroll 1
    while (run < runs) {
      if (fast) {
        do {
          fast = multiply_run(s, x, sums, chain);
          ++run;
        } while (fast && run < runs);
      } else {
        const exact_place first{walk.row() + strip * output_rows, walk.col(), run * run_steps, 0, 0};
        fast = multiply_with_care(p, m, s, x, first, strip, sums, chain);
        ++run;
      }
    }
    m.outputs[strip].store(p, walk.row() + strip * output_rows, walk.col(), sums);
    __syncwarp();
    if (s.one) walk.next();
    __syncwarp();
  }
  m.outputs[strip].finish();
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
