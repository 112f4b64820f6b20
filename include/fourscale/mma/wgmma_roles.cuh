// SPDX-License-Identifier: Apache-2.0
// D = A * B^T with the bits of Blackwell's block-scaled MMA on the tensor cores of Hopper. A step of K = 64
// is four wgmma from zero, and one addition rounded toward zero to the accumulator. A CTA of three warpgroups
// takes a tile of 128 x 192, two CTAs of a cluster share its columns:
//
//   load     one warp has TMA fill a stage with a step of A and half of B, for both CTAs  -> `full`
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
#include "output_strip.cuh"
#include "step_counts.cuh"
#include "tile_walk.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

inline constexpr int cluster_ctas = 2, multiply_groups = 2, threads = 128 * (1 + multiply_groups);
inline constexpr int tile_rows = 64 * multiply_groups, tile_cols = 192, stages = 5;
inline constexpr int col_groups = tile_cols / bounds_rows;  ///< of eight columns, which share their bounds
inline constexpr int half_cols = tile_cols / cluster_ctas;  ///< of B, which each CTA loads for both
inline constexpr int a_bytes = tile_rows * decoded_row_bytes, b_bytes = tile_cols * decoded_row_bytes;
inline constexpr int stage_bytes = a_bytes + b_bytes;
/// Certificates are found for runs of steps, by warps that take turns; each has its own place for them.
inline constexpr int run_steps = 4, certify_warps = 3;
inline constexpr u32 all_cols = (1u << col_groups) - 1;

struct shared_memory {
  alignas(1024) u8 stage[stages][stage_bytes];                     ///< A, then B
  output_strip strips[4 * multiply_groups];                        ///< of each warp
  certificates of_rows[certify_warps][run_steps][tile_rows / 16];  ///< bits: eight columns each
  alignas(8) std::uint64_t full[stages], empty[stages], certified[certify_warps], used[certify_warps],
      turn[multiply_groups];
};

/// D = alpha * A * B^T + beta * D: the arguments of the kernel.
template <class T, class Factors>
struct problem {
  CUtensorMap map_a, map_b;  ///< of the values: boxes of a step by tile_rows, and by half_cols
  decoded_operand a, b;
  matrix_view<T> d;
  Factors factor_of;  ///< of an output: see output_strip.cuh
  float beta;
  gemm_steps* steps;  ///< counts, or null
};

/// launch_wgmma() refuses what has more tiles than this can count.
using tile_walk = mma::tile_walk<tile_rows, tile_cols, cluster_ctas>;

/// The stages of shared memory, one after the other and again from the first; `parity` is that of the `full`
/// phase to wait for.
struct ring {
  u32 stage = 0, parity = 0;
  FOURSCALE_D void next() {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

FOURSCALE_D inline void wait(std::uint64_t* barrier, u32 parity) {
  while (!cuda::ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}
FOURSCALE_D inline void init_barriers(shared_memory& m) {
  for (int i = 0; i < stages; ++i) {
    cuda::ptx::mbarrier_init(m.full + i, 1);
    cuda::ptx::mbarrier_init(m.empty + i, 4 * multiply_groups * cluster_ctas);
  }
  for (int i = 0; i < multiply_groups; ++i) cuda::ptx::mbarrier_init(m.turn + i, 4);
  for (int i = 0; i < certify_warps; ++i) {
    cuda::ptx::mbarrier_init(m.certified + i, 1);
    cuda::ptx::mbarrier_init(m.used + i, 4 * multiply_groups);
  }
  cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
}

// ---------------------------------------------------------------- load, certify

/// One thread.
template <class P>
FOURSCALE_D void load(P const& p, shared_memory& m) {
  ring at;
  const i32 rank = static_cast<i32>(blockIdx.x % cluster_ctas);
  for (tile_walk walk(p); walk.more(); walk.next()) {
    const i32 row = walk.row(), col = walk.col() + rank * half_cols;
    for (i32 step = 0; step < p.a.steps; ++step, at.next()) {
      wait(m.empty + at.stage, at.parity ^ 1);  // passes at once the first time around
      u8* const to = m.stage[at.stage];
      std::uint64_t* const full = m.full + at.stage;
      cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                           cuda::ptx::space_shared, full, stage_bytes);
      cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to, &p.map_a,
                                      {step * decoded_step, row}, full);
      cuda::ptx::cp_async_bulk_tensor(
          cuda::ptx::space_cluster, cuda::ptx::space_global, to + a_bytes + rank * (b_bytes / cluster_ctas),
          &p.map_b, {step * decoded_step, col}, full, static_cast<std::uint16_t>((1 << cluster_ctas) - 1));
    }
  }
}

/// The bounds of eight rows, or of none.
FOURSCALE_D inline fourscale::model::step_bounds load_bounds(decoded_operand const& x, i64 row_group,
                                                             i64 step, bool wanted) {
  if (!wanted || row_group >= x.row_groups() || step >= x.steps) return {};
  return x.bounds[step * x.row_groups() + row_group];
}

/// What each of 16 rows' warps may do with a step. A lane has the bounds of eight rows, and of eight columns.
FOURSCALE_D inline certificates certify_step(fourscale::model::step_bounds of_row,
                                             fourscale::model::step_bounds of_col) {
  const auto largest = [](u8 x) { return static_cast<u8>(__reduce_max_sync(~0u, u32{x})); };
  const fourscale::model::step_bounds rows{largest(of_row.width), largest(of_row.span)},
      cols{largest(of_col.width), largest(of_col.span)};
  certificates result{all_cols, all_cols};
  if (sums_are_exact(rows, cols) && nothing_is_dropped(rows, cols)) return result;
  const u32 mine = of_row.width | u32{of_row.span} << 16;
  const u32 of_rows = __vmaxu2(mine, __shfl_xor_sync(~0u, mine, 1));
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int i = 0; i < tile_rows / 16; ++i) {
    const u32 r = __shfl_sync(~0u, of_rows, 2 * i);
    const fourscale::model::step_bounds bounds{static_cast<u8>(r), static_cast<u8>(r >> 16)};
    const u32 exact = __ballot_sync(~0u, sums_are_exact(bounds, of_col)),
              kept = __ballot_sync(~0u, nothing_is_dropped(bounds, of_col));
    if (lane == i) result = {exact & all_cols, kept & all_cols};
  }
  return result;
}

/// One warp of certify_warps, which take turns at runs of steps, so that reading bounds may take as long as
/// several runs do.
template <class P>
FOURSCALE_D void certify(P const& p, shared_memory& m, int warp) {
  const int lane = static_cast<int>(threadIdx.x) % 32,
            runs = static_cast<int>(ceil_div<i64>(p.a.steps, run_steps));
  int before = 0, turn = 0;  // of all runs of the tiles before; of this warp's runs
  for (tile_walk walk(p); walk.more(); walk.next(), before += runs) {
    const i64 row = walk.row() / bounds_rows + lane, col = walk.col() / bounds_rows + lane;
    const bool has_row = lane < tile_rows / bounds_rows, has_col = lane < col_groups;
    const int first = (warp + certify_warps - before % certify_warps) % certify_warps;
    for (int run = first; run < runs; run += certify_warps, ++turn) {
      fourscale::model::step_bounds a[run_steps], b[run_steps];
      FOURSCALE_UNROLL
      for (int i = 0; i < run_steps; ++i) {
        a[i] = load_bounds(p.a, row, run * run_steps + i, has_row);
        b[i] = load_bounds(p.b, col, run * run_steps + i, has_col);
      }
      wait(m.used + warp, static_cast<u32>(turn & 1) ^ 1);
      FOURSCALE_UNROLL
      for (int i = 0; i < run_steps; ++i) {
        const certificates c = certify_step(a[i], b[i]);
        if (lane < tile_rows / 16) m.of_rows[warp][i][lane] = c;
      }
      __syncwarp();
      if (lane == 0) cuda::ptx::mbarrier_arrive(m.certified + warp);
    }
  }
}

// ---------------------------------------------------------------- multiply

/// Sums of a thread, as wgmma has them.
using accumulator = float[tile_cols / 2];

/// A step whose chain is done: adds the chain to the sums where it is exact, and makes the step again
/// elsewhere.
template <class P>
FOURSCALE_D void add_with_care(P const& p, exact_place place, certificates c, accumulator& sums,
                               accumulator const& chain) {
  const u32 fast = c.exact & c.kept;
  FOURSCALE_UNROLL
  for (int i = 0; i < tile_cols / 2; ++i)
    if (fast >> (i / 4) & 1) sums[i] = __fadd_rz(sums[i], chain[i]);
  FOURSCALE_UNROLL
  for (int group = 0; group < col_groups; ++group) {
    float* const x = sums + 4 * group;
    if ((fast >> group & 1) == 0) {
      const float4 y = exact_step(p.a, p.b, place, (c.kept >> group & 1) == 0, {x[0], x[1], x[2], x[3]});
      x[0] = y.x, x[1] = y.y, x[2] = y.z, x[3] = y.w;
    }
    place.row_b += bounds_rows;
    place.stage_b += bounds_rows * decoded_row_bytes;
  }
}

/// What a thread of a warpgroup needs in every step, found once.
struct multiply_state {
  u32 first_stage, a_word, b_word;    ///< address; low words of the descriptors of the first stage
  u32 full, empty, turn, other_turn;  ///< addresses of barriers; `empty` in the CTA that the lane tells
  u32 certified, used, of_rows;       ///< of certificates: barriers, and the warp's own
  bool one, tells;                    ///< one lane; one for each CTA of the cluster

  FOURSCALE_D multiply_state(shared_memory& m, int group, int row_in_tile) {
    const u32 lane = threadIdx.x % 32;
    first_stage = ptx::shared_address(m.stage[0]);
    a_word = static_cast<u32>(
        ptx::wgmma_descriptor_b128(first_stage + static_cast<u32>(group * 64 * decoded_row_bytes)));
    b_word = static_cast<u32>(ptx::wgmma_descriptor_b128(first_stage + a_bytes));
    full = ptx::shared_address(m.full);
    empty = ptx::mapa_shared_cluster(ptx::shared_address(m.empty), lane % cluster_ctas);
    turn = ptx::shared_address(m.turn + group);
    other_turn = ptx::shared_address(m.turn + (group ^ 1));
    one = lane == 0;
    tells = lane < cluster_ctas;
    certified = ptx::shared_address(m.certified);
    used = ptx::shared_address(m.used);
    of_rows = ptx::shared_address(&m.of_rows[0][0][row_in_tile / 16]);
    for (u32* x :
         {&first_stage, &a_word, &b_word, &full, &empty, &turn, &other_turn, &certified, &used, &of_rows})
      ptx::keep(*x);
  }
  FOURSCALE_D void wait_for(ring const& at) const { ptx::mbarrier_wait(full + 8 * at.stage, at.parity); }
};

/// A step: 64 products for each output, from zero. The other warpgroup's turn comes when half of it is
/// issued.
FOURSCALE_D inline void issue_chain(multiply_state const& s, u32 a, u32 b, u32 turn_parity,
                                    accumulator& chain) {
  ptx::mbarrier_wait(s.turn, turn_parity);
  ptx::wgmma_fence();
  FOURSCALE_UNROLL
  for (u32 block = 0; block < 4; ++block) {
    ptx::wgmma_m64n192k16_bf16(chain, a + 2 * block, b + 2 * block, block != 0);
    if (block == 1 && s.one) ptx::mbarrier_arrive(s.other_turn);
  }
  ptx::wgmma_commit_group();
}

/// Where a warpgroup is: its stage, its turn, and the certificates of the run.
struct multiply_place {
  ring at;
  u32 turn_parity;
  u32 run_slot = 0, run_parity = 0;
};
FOURSCALE_D inline void issue_step(multiply_state const& s, multiply_place& x, accumulator& chain) {
  constexpr u32 stage_words = stage_bytes / 16;
  issue_chain(s, s.a_word + x.at.stage * stage_words, s.b_word + x.at.stage * stage_words, x.turn_parity,
              chain);
  x.turn_parity ^= 1;
}

/// Waits for the certificates of the next run; true if they hold for all of the warp's outputs.
FOURSCALE_D inline bool run_is_fast(multiply_state const& s, multiply_place const& x, bool whole) {
  constexpr u32 slot_bytes = sizeof(shared_memory::of_rows[0]),
                step_bytes = sizeof(shared_memory::of_rows[0][0]);
  ptx::mbarrier_wait(s.certified + 8 * x.run_slot, x.run_parity);
  u32 fast = whole ? all_cols : 0u;
  FOURSCALE_UNROLL
  for (u32 i = 0; i < run_steps; ++i) {
    const auto c = ptx::load_shared<certificates>(s.of_rows + x.run_slot * slot_bytes + i * step_bytes);
    fast &= c.exact & c.kept;
  }
  return __all_sync(~0u, fast == all_cols);
}
/// This warp is done with the certificates of the run.
FOURSCALE_D inline void release_run(multiply_state const& s, multiply_place& x) {
  if (s.one) ptx::mbarrier_arrive(s.used + 8 * x.run_slot);
  if (++x.run_slot == certify_warps) x.run_slot = 0, x.run_parity ^= 1;
}

/// Steps of a run whose certificates all hold; `left` steps follow them in the tile. True if the next run is
/// of the same kind. Between a chain's end and the next one stand only the additions: all else is done while
/// the tensor core works.
FOURSCALE_D inline bool multiply_run(multiply_state const& s, multiply_place& x, int left, accumulator& sums,
                                     accumulator& chain) {
  bool next = false;
  FOURSCALE_UNROLL
  for (int i = 0; i < run_steps; ++i) {
    issue_step(s, x, chain);
    u32 empty = s.empty + 8 * x.at.stage;
    ptx::keep(empty);
    x.at.next();
    if (i + 1 < run_steps) {
      s.wait_for(x.at);
    } else {
      release_run(s, x);
      if (left > 0) {
        s.wait_for(x.at);
        next = run_is_fast(s, x, left >= run_steps);
      }
    }
    ptx::wgmma_wait_group<0>();
    if (s.tells) ptx::mbarrier_arrive_cluster(empty);
    FOURSCALE_UNROLL
    for (int k = 0; k < tile_cols / 2; ++k) sums[k] = __fadd_rz(sums[k], chain[k]);
  }
  return next;
}

/// The same for `count` steps whatever their certificates say; `place` is that of the first, without a stage.
template <class P>
FOURSCALE_D void multiply_with_care(P const& p, shared_memory& m, multiply_state const& s, multiply_place& x,
                                    exact_place place, int row_in_tile, int count, accumulator& sums,
                                    accumulator& chain) {
#pragma unroll 1
  for (int i = 0; i < count; ++i, ++place.step) {
    s.wait_for(x.at);
    const certificates c = m.of_rows[x.run_slot][i][row_in_tile / 16];
    const u32 stage = s.first_stage + x.at.stage * stage_bytes, empty = s.empty + 8 * x.at.stage;
    place.stage_a = stage + static_cast<u32>(row_in_tile * decoded_row_bytes);
    place.stage_b = stage + a_bytes;
    issue_step(s, x, chain);
    ptx::wgmma_wait_group<0>();
    add_with_care(p, place, c, sums, chain);
    if (p.steps != nullptr && threadIdx.x % 32 == 0)
      count_steps(*p.steps, min(p.d.rows - place.row_a, i64{16}), p.d.cols - place.row_b, c.kept & ~c.exact,
                  all_cols & ~c.kept);
    __syncwarp();
    if (s.tells) ptx::mbarrier_arrive_cluster(empty);
    x.at.next();
  }
  release_run(s, x);
}

/// A warpgroup: 64 rows of every tile.
template <class P>
FOURSCALE_D void multiply(P const& p, shared_memory& m, int group) {
  const int warp = static_cast<int>(threadIdx.x) / 32, row_in_tile = group * 64 + warp % 4 * 16,
            steps = static_cast<int>(p.a.steps);
  const multiply_state s(m, group, row_in_tile);
  multiply_place x{{}, static_cast<u32>(group) ^ 1};  // the first turn needs no wait
  const output_store store(p);
  accumulator sums, chain;
  for (tile_walk walk(p); walk.more(); walk.next()) {
    FOURSCALE_UNROLL
    for (float& sum : sums) sum = 0.0f;
    const int row = walk.row() + row_in_tile, col = walk.col();
    bool fast = run_is_fast(s, x, steps >= run_steps);
    s.wait_for(x.at);
#pragma unroll 1
    for (int left = steps; left > 0; left -= run_steps) {
      if (fast) {
        fast = multiply_run(s, x, left - run_steps, sums, chain);
      } else {
        multiply_with_care(p, m, s, x, {row, col, steps - left, 0, 0}, row_in_tile, min(run_steps, left),
                           sums, chain);
        if (left > run_steps) {
          fast = run_is_fast(s, x, left >= 2 * run_steps);
          s.wait_for(x.at);
        }
      }
    }
    store.template outputs<tile_cols>(p, row, col, sums, m.strips[warp - 4]);
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
