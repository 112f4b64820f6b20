// SPDX-License-Identifier: Apache-2.0
// How a CTA of the GEMM by wgmma begins, and its role `load` (wgmma_roles.cuh): which tiles it has, and the
// TMA copies that fill the stages with their steps. Each CTA of a cluster loads half of what both need, by
// multicast.
#pragma once

#include "../ptx/cluster.cuh"
#include "wgmma_groups.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

/// One thread: finds the tiles of the CTA, for each warp that loads or certifies, and counts their runs. This
/// needs no operands, so it is done while they are still being decoded.
template <class P, template <int> class Memory, int Cols>
FOURSCALE_D void find_tiles(P const& p, Memory<Cols>& m) {
  const auto begin = [&](auto const& walk) {
    for (auto& of_warp : m.walks) of_warp = walk;
    m.all_runs = walk.all_runs();
  };
  if constexpr (P::grouped)
    begin(group_walk<Cols>(p));
  else
    begin(typename tile<Cols>::walk(p, runs_of(p), p.split, p.lie));
}

/// All threads of a CTA, before the operands are decoded: initializes the barriers, prefetches the TMA maps,
/// and finds the CTA's tiles. Threads may use these after barrier_cluster_wait() and then __syncthreads().
template <class P, template <int> class Memory, int Cols>
FOURSCALE_D void begin(P const& p, Memory<Cols>& m, bool low) {
  if (threadIdx.x == 0) init_barriers(m, low);
  if (threadIdx.x == 32) prefetch_maps(p);
  ptx::barrier_cluster_arrive_relaxed();
  if (threadIdx.x == 64) find_tiles(p, m);
}

/// Steps that share their limits: whole runs.
template <class P>
inline constexpr int limit_steps = P::limit_runs* run_steps;
/// One thread: starts the copies of the limits of runs, of `rows` rows and Cols columns, which `full` waits
/// for.
template <class P, int Cols>
FOURSCALE_D void load_limits(P const& p, limits_of_run<Cols>& to, i32 runs, i32 row, i32 rows, i32 col,
                             std::uint64_t* full) {
  const auto copy = [&](run_limits const& of, i32 first, i32 count, run_limit* at) {
    // A tile behind the last row is none of D's: its limits may be any.
    const i64 begin = min(i64{first}, of.rows - count);
    cuda::ptx::cp_async_bulk(cuda::ptx::space_cluster, cuda::ptx::space_global, at,
                             of.of + (runs * of.rows + begin),
                             static_cast<u32>(count) * u32{sizeof(run_limit)}, full);
  };
  copy(p.limits_a, row, rows, to.rows), copy(p.limits_b, col, Cols, to.cols);
}

/// One thread: fills the stages with the steps of all parts. It is ahead of the warps that multiply. So it
/// writes to `parts` where each part lies, and before a second part it waits until the sums of the first part
/// are there. It returns when all stages have been read, in both CTAs.
template <class P, template <int> class Memory, int Cols>
FOURSCALE_D void load(P const& p, Memory<Cols>& m) {
  using tile = wgmma::tile<Cols>;
  const i32 rank = static_cast<i32>(blockIdx.x % cluster_ctas);
  constexpr i32 half_bytes = tile::b_bytes / cluster_ctas;
  const i32 rows = has_low_tiles<Cols>(p) ? low_tile_rows : tile_rows;
  const u32 bytes = tile::stage_bytes - static_cast<u32>((tile_rows - rows) * decoded_row_bytes);
  const auto bytes_of_limits = [&]([[maybe_unused]] i32 step) {
    if constexpr (has_limits<P>)
      return step % limit_steps<P> == 0 ? static_cast<u32>(rows + Cols) * u32{sizeof(run_limit)} : 0u;
    return 0u;
  };
  int stage = 0;
  u32 parity = 1;  // the first time around, a wait passes at once
  const auto next_stage = [&] {
    if (++stage == tile::stages) stage = 0, parity ^= 1;
  };
  auto& walk = m.walks[0];
  // After step `look_ahead` of a part the next part is found, and the factor of its GEMM is requested: at the
  // part's end this would delay the next part's first step. A single GEMM may have only one part, so there
  // the copies of the first run go before.
  constexpr i32 look_ahead = P::grouped ? 0 : run_steps - 1;
  [[maybe_unused]] float factor = 0.0f;
  const auto ask_for_factor = [&] {
    if constexpr (P::grouped)
      if (walk.more()) factor = __ldcg(p.factors + walk.group);
  };
  ask_for_factor();
  for (u32 number = 0; walk.more(); ++number) {
    const i32 row = walk.row, col = walk.col;
    const i32 begin = walk.first * run_steps, end = begin + walk.runs * run_steps;
    for (i32 step = begin; step < end; ++step, next_stage()) {
      wait(m.empty + stage, parity);
      if (step == begin) {
        if (walk.is_second_part())
          p.carried.template wait_for<strips>(static_cast<int>(blockIdx.x) - cluster_ctas);
        m.parts[number % tile::parts] = {walk.row,  walk.col,   walk.is_first_part(),
                                         walk.runs, walk.first, walk.is_second_part()};
        if constexpr (P::grouped) m.parts_of_groups[number % tile::parts] = walk.outputs(factor);
      }
      u8 *const to = m.stage[stage], *const to_b = to + a_bytes;
      std::uint64_t* const full = m.full + stage;
      cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                           cuda::ptx::space_shared, full, bytes + bytes_of_limits(step));
      if constexpr (has_limits<P>)
        if (step % limit_steps<P> == 0)
          load_limits(p, m.of_runs[stage / run_steps], step / limit_steps<P>, row, rows, col, full);
      const auto copy = [&](CUtensorMap const& map, u8* at, i32 first) {
        cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, at, &map,
                                        {step * decoded_step, first}, full);
      };
      const auto copy_for_both = [&](CUtensorMap const& map, u8* at, i32 first) {
        cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, at, &map,
                                        {step * decoded_step, first}, full,
                                        static_cast<std::uint16_t>((1 << cluster_ctas) - 1));
      };
      if (p.lie == cluster_tiles::stacked) {
        copy(p.map_a, to, row);
        copy_for_both(p.map_b, to_b + rank * half_bytes, col + rank * tile::half_cols);
      } else {  // both need the same rows of A: the CTAs load them in turn, a step each
        if (step % cluster_ctas == rank) copy_for_both(p.map_a, to, row);
        for (i32 i = 0; i < cluster_ctas; ++i)
          copy(p.map_b, to_b + i * half_bytes, col + i * tile::half_cols);
      }
      if (step == begin + look_ahead) walk.next(), ask_for_factor();
    }
  }
  // A CTA must not exit while the other one may still arrive at its barriers.
  for (int i = 0; i < tile::stages; ++i, next_stage()) wait(m.empty + stage, parity);
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
