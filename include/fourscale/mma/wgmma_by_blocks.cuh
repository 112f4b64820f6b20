// SPDX-License-Identifier: Apache-2.0
// The other way of the GEMM by wgmma, for operands whose block scales differ so much that few sums of 64
// products are exact: every step by blocks of 16 values. There are no certificates, and CTAs share nothing.
// Tiles are as wide as what a CTA of the first way loads of B, so that the code of a step stays in the
// instruction cache: fetching it took most of the time. The roles:
//
//   load      one warp has TMA fill a stage with a step of A and of B                      -> `full`
//   bound     one warp leaves what says of accumulators that the adder drops nothing       -> `full`
//   multiply  two warpgroups, 64 rows each: products of blocks, and brackets around sums   -> `empty`
#pragma once

#include <cuda/ptx>

#include "../ptx/elect.cuh"
#include "../ptx/mbarrier.cuh"
#include "wgmma_blocks.cuh"
#include "wgmma_tile.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma::by_blocks {

inline constexpr int row_groups = tile_rows / bounds_rows;

/// `Cols`: of a tile of the first way.
template <int Cols>
struct tile {
  static constexpr int cols = wgmma::tile<Cols>::half_cols, col_groups = cols / bounds_rows;
  static constexpr int b_bytes = cols * decoded_row_bytes, stage_bytes = a_bytes + b_bytes;
  static constexpr int batch_groups = wgmma::tile<Cols>::batch_groups;
  static_assert(col_groups % batch_groups == 0 && row_groups + col_groups <= 32);
};

template <int Cols>
struct shared_memory {
  alignas(1024) u8 stage[stages][tile<Cols>::stage_bytes];  ///< A, then B
  output_strip outputs[strips];
  fourscale::model::kept_factors factors[stages][row_groups + tile<Cols>::col_groups];
  kept_limits limits[strips][tile<Cols>::col_groups];  ///< of the warp's step
  alignas(8) std::uint64_t full[stages], empty[stages];
};

template <int Cols>
FOURSCALE_D void init_barriers(shared_memory<Cols>& m) {
  for (int i = 0; i < stages; ++i) {
    cuda::ptx::mbarrier_init(m.full + i, 2);
    cuda::ptx::mbarrier_init(m.empty + i, strips);
  }
  cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
}

/// Mean width of what eight rows have in a step, from 64 of an operand; the same in all lanes. Called by a
/// whole warp.
FOURSCALE_D inline float mean_width(decoded_operand const& x) {
  const i64 groups = ceil_div<i64>(x.rows, bounds_rows), lane = threadIdx.x % 32;
  float sum = static_cast<float>(x.widths[lane * groups / 64]) +
              static_cast<float>(x.widths[(lane + 32) * groups / 64]);
  FOURSCALE_UNROLL
  for (int bit = 1; bit < 32; bit *= 2) sum += __shfl_xor_sync(~0u, sum, bit);
  return sum / (64.0f * static_cast<float>(x.steps));
}
/// Whether the kernel goes this way: the same in all CTAs.
template <class P>
FOURSCALE_D bool is_faster(P const& p) {
  return mean_width(p.a) + mean_width(p.b) >= p.widths_by_blocks;
}

/// The tiles of a CTA, down the columns, and the ring of stages that goes on through them.
template <int Cols>
struct walk {
  int row_tiles, count, at, stage = 0;
  u32 parity = 0;

  template <class P>
  FOURSCALE_D explicit walk(P const& p)
      : row_tiles(static_cast<int>(ceil_div<i64>(p.d.rows, tile_rows))),
        count(row_tiles * static_cast<int>(ceil_div<i64>(p.d.cols, tile<Cols>::cols))),
        at(static_cast<int>(blockIdx.x)) {}
  FOURSCALE_D bool more() const { return at < count; }
  FOURSCALE_D void next() { at += static_cast<int>(gridDim.x); }
  FOURSCALE_D int row() const { return at % row_tiles * tile_rows; }
  FOURSCALE_D int col() const { return at / row_tiles * tile<Cols>::cols; }
  FOURSCALE_D void next_stage() {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

/// One thread.
template <class P, int Cols>
FOURSCALE_D void load(P const& p, shared_memory<Cols>& m) {
  const i32 steps = static_cast<i32>(p.a.steps);
  for (walk<Cols> w(p); w.more(); w.next()) {
    const i32 row = w.row(), col = w.col();
    for (i32 step = 0; step < steps; ++step, w.next_stage()) {
      wait(m.empty + w.stage, w.parity ^ 1);  // the first time around, at once
      std::uint64_t* const full = m.full + w.stage;
      u8* const to = m.stage[w.stage];
      cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                           cuda::ptx::space_shared, full, tile<Cols>::stage_bytes);
      cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to, &p.map_a,
                                      {step * decoded_step, row}, full);
      cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to + a_bytes,
                                      &p.map_b, {step * decoded_step, col}, full);
    }
  }
}

/// One warp: a lane has eight rows of A or eight columns of B.
template <class P, int Cols>
FOURSCALE_D void bound(P const& p, shared_memory<Cols>& m) {
  const int lane = static_cast<int>(threadIdx.x) % 32, steps = static_cast<int>(p.a.steps);
  const bool of_a = lane < row_groups, used = lane < row_groups + tile<Cols>::col_groups;
  decoded_operand const& x = of_a ? p.a : p.b;
  for (walk<Cols> w(p); w.more(); w.next()) {
    const i64 groups = x.row_groups(),
              group = of_a ? w.row() / bounds_rows + lane : w.col() / bounds_rows + lane - row_groups;
    auto const* from = x.of_accumulators + group;
    const bool there = used && group < groups;
    fourscale::model::accumulator_bounds next;
    if (there) next = *from;
    for (int step = 0; step < steps; ++step, w.next_stage()) {
      const fourscale::model::kept_factors factors(next);
      from += groups;
      if (there && step + 1 < steps) next = *from;
      wait(m.empty + w.stage, w.parity ^ 1);
      if (used) m.factors[w.stage][lane] = factors;
      __syncwarp();
      if (lane == 0) cuda::ptx::mbarrier_arrive(m.full + w.stage);
    }
  }
}

/// A warp's limits of all groups of columns in a step, a lane each.
template <int Cols>
FOURSCALE_D void find_limits(shared_memory<Cols>& m, int stage, int strip) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();  // the step before has been read
  if (lane < tile<Cols>::col_groups) {
    fourscale::model::kept_factors const *const rows = m.factors[stage] + 2 * strip,
                                                &cols = m.factors[stage][row_groups + lane];
    m.limits[strip][lane] = {largest_kept(rows[0], cols), largest_kept(rows[1], cols)};
  }
  __syncwarp();
}

/// A step of a warpgroup, of which the warp has the strip: the groups of columns that are left. The products
/// of a batch are made while those of the one before are added.
template <int Cols>
FOURSCALE_D u32 multiply_step(shared_memory<Cols>& m, int stage, int strip,
                              float (&sums)[tile<Cols>::cols / 2]) {
  using tile = by_blocks::tile<Cols>;
  constexpr int groups = tile::batch_groups, batches = tile::col_groups / groups;
  constexpr u32 batch_words = groups * bounds_rows * decoded_row_bytes / 16;
  const u32 base = ptx::shared_address(m.stage[0]) + static_cast<u32>(stage * tile::stage_bytes),
            a = static_cast<u32>(
                ptx::wgmma_descriptor_b128(base + static_cast<u32>(strip / 4 * 64 * decoded_row_bytes))),
            b = static_cast<u32>(ptx::wgmma_descriptor_b128(base + a_bytes));
  batch_of_blocks<groups> blocks[2];
  blocks[0].issue(a, b);
  find_limits(m, stage, strip);
  u32 left = 0;
  FOURSCALE_UNROLL
  for (int i = 0; i < batches; ++i) {
    if (i + 1 < batches) {
      blocks[(i + 1) % 2].issue(a, b + static_cast<u32>(i + 1) * batch_words);
      blocks[i % 2].template wait<1>();
    } else {
      blocks[i % 2].template wait<0>();
    }
    kept_limits limits[groups];
    FOURSCALE_UNROLL
    for (int k = 0; k < groups; ++k) limits[k] = m.limits[strip][i * groups + k];
    left |= add_batch(blocks[i % 2], limits, sums + 4 * groups * i) << (groups * i);
  }
  return left;
}

/// A warpgroup: 64 rows of every tile.
template <class P, int Cols>
FOURSCALE_D void multiply(P const& p, shared_memory<Cols>& m) {
  using tile = by_blocks::tile<Cols>;
  const int strip = static_cast<int>(threadIdx.x) / 32 - 4, steps = static_cast<int>(p.a.steps);
  const output_store store(p);
  for (walk<Cols> w(p); w.more(); w.next()) {
    const int row = w.row() + strip * output_rows, col = w.col();
    float sums[tile::cols / 2] = {};
#pragma unroll 1
    for (int step = 0; step < steps; ++step, w.next_stage()) {
      wait(m.full + w.stage, w.parity);
      const u32 left = multiply_step(m, w.stage, strip, sums);
      if (left != 0) {
        const u32 stage = ptx::shared_address(m.stage[w.stage]);
        add_and_drop<tile::cols>(
            p.a, p.b,
            {row, col, step, stage + static_cast<u32>(strip * output_rows * decoded_row_bytes),
             stage + a_bytes},
            left, sums);
      }
      if (p.steps != nullptr && threadIdx.x % 32 == 0)
        count_steps(*p.steps, min(p.d.rows - row, i64{output_rows}), p.d.cols - col,
                    ~left & ((1u << tile::col_groups) - 1), left);
      __syncwarp();
      if (threadIdx.x % 32 == 0) cuda::ptx::mbarrier_arrive(m.empty + w.stage);
    }
    store.template outputs<tile::cols>(p, row, col, sums, m.outputs[strip]);
  }
}

/// All threads of a CTA.
template <class P, int Cols>
FOURSCALE_D void run(P const& p, shared_memory<Cols>& m, int warp) {
  if (warp < 4) {
    ptx::setmaxnreg_dec<other_registers>();
    if (warp == 0 && ptx::elect_sync()) load(p, m);
    if (warp == 1) bound(p, m);
  } else {
    ptx::setmaxnreg_inc<multiply_registers>();
    multiply(p, m);
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma::by_blocks
