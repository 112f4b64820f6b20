// SPDX-License-Identifier: Apache-2.0
// The other way of the GEMM by wgmma, for operands whose block scales differ so much that few sums of 64
// products are exact: every step by blocks of 16 values. There are no certificates, and CTAs share nothing.
// Tiles are as wide as what a CTA of the first way loads of B, so that the code of a step stays in the
// instruction cache: fetching it took most of the time. The roles:
//
//   load      one warp has TMA fill a stage with a step of A and of B                      -> `full`
//   bound     one warp leaves what says of accumulators that the adder drops nothing       -> `full`
//   multiply  eight warps, 16 rows each: products of blocks, and brackets around sums      -> `empty`
#pragma once

#include <cuda/ptx>

#include "../ptx/elect.cuh"
#include "../ptx/mbarrier.cuh"
#include "../ptx/wgmma.cuh"  // setmaxnreg
#include "wgmma_tile.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma::by_blocks {

inline constexpr int row_groups = tile_rows / bounds_rows;

/// `Cols`: of a tile of the first way.
template <int Cols>
struct tile {
  static constexpr int cols = wgmma::tile<Cols>::half_cols, col_groups = cols / bounds_rows;
  static constexpr int b_bytes = cols * decoded_row_bytes, stage_bytes = a_bytes + b_bytes;
  static constexpr int batch_groups = 2;  ///< whose blocks have registers at a time, twice
  static_assert(col_groups % batch_groups == 0 && row_groups + col_groups <= 32);
};

template <int Cols>
struct shared_memory {
  alignas(1024) u8 stage[stages][tile<Cols>::stage_bytes];  ///< A, then B
  output_strip outputs[strips];
  exact_columns left[strips];
  /// What accumulators are asked: the largest of eight rows or columns each, and depths of each of them.
  fourscale::model::accumulator_bounds bounds[stages][row_groups + tile<Cols>::col_groups];
  alignas(8) u8 depths_of_rows[stages][tile_rows], depths_of_cols[stages][tile<Cols>::cols];
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

/// A batch to the accumulators c, but for groups with an output of which the adder may drop bits, which is
/// when the accumulator is not below the limit: their bits are returned. All lanes take a longer way where
/// one has to; what that is, each group or output asks only then.
template <int Groups>
FOURSCALE_D u32 add_batch(batch_of_blocks<Groups> const& batch, kept_limits const (&limits)[Groups],
                          float* c) {
  constexpr int outputs = 4 * Groups;
  static_assert(outputs <= 32);
  detail::bracket all[outputs];
  u32 differ = 0, left = 0;
  bool kept = true;
  FOURSCALE_UNROLL
  for (int i = 0; i < outputs; ++i) {
    all[i] = detail::bracket_of(c[i], batch.of(i));
    differ |= bit_cast<u32>(all[i].low) ^ bit_cast<u32>(all[i].high);
    if (i % 4 == 3) kept = kept & limits[i / 4].keep(c + i - 3);
  }
  if (!__all_sync(~0u, kept & (differ == 0))) {
    u32 open = 0;
    FOURSCALE_UNROLL
    for (int i = 0; i < outputs; ++i) open |= u32{all[i].low != all[i].high} << i;
    open = __reduce_or_sync(~0u, open);
    FOURSCALE_UNROLL
    for (int i = 0; i < outputs; ++i)
      if (open >> i & 1) all[i].high = detail::add_in_double(c[i], batch.of(i));
    FOURSCALE_UNROLL
    for (int group = 0; group < Groups; ++group) {
      if (__all_sync(~0u, limits[group].keep(c + 4 * group))) continue;
      left |= 1u << group;
      FOURSCALE_UNROLL
      for (int i = 4 * group; i < 4 * group + 4; ++i) all[i].high = c[i];
    }
  }
  FOURSCALE_UNROLL
  for (int i = 0; i < outputs; ++i) c[i] = all[i].high;
  return left;
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
    auto const* from = reinterpret_cast<uint4 const*>(x.of_accumulators) + group;
    const bool there = used && group < groups;
    uint4 next{};
    if (there) next = *from;
    for (int step = 0; step < steps; ++step, w.next_stage()) {
      const uint4 eight = next;
      from += groups;
      if (there && step + 1 < steps) next = *from;
      const u32 four = largest_bytes<2>({eight.x, eight.y}), two = largest_bytes<2>({four, four >> 16}),
                depth = max(two & 0xffu, two >> 8 & 0xffu);
      wait(m.empty + w.stage, w.parity ^ 1);
      if (used) {
        m.bounds[w.stage][lane] = {static_cast<u8>(eight.z), static_cast<u8>(depth)};
        u8* const depths = of_a ? m.depths_of_rows[w.stage] + lane * bounds_rows
                                : m.depths_of_cols[w.stage] + (lane - row_groups) * bounds_rows;
        *reinterpret_cast<uint2*>(depths) = {eight.x, eight.y};
      }
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
    auto const* const rows = m.bounds[stage] + 2 * strip;
    auto const& cols = m.bounds[stage][row_groups + lane];
    m.limits[strip][lane] = {largest_kept(rows[0], cols), largest_kept(rows[1], cols)};
  }
  __syncwarp();
}

/// The groups of columns of which a warp's scales drop nothing.
template <int Cols>
FOURSCALE_D u32 groups_limited(shared_memory<Cols>& m, int stage, int strip) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  bool limited = false;
  if (lane < tile<Cols>::col_groups) {
    auto const* const rows = m.bounds[stage] + 2 * strip;
    auto const& cols = m.bounds[stage][row_groups + lane];
    limited = scales_drop_nothing(rows[0], cols) && scales_drop_nothing(rows[1], cols);
  }
  return __ballot_sync(~0u, limited);
}

/// A step of a warp: the groups of columns that are left. The products of a batch are made while those of the
/// one before are added.
template <int Cols>
FOURSCALE_D u32 multiply_step(shared_memory<Cols>& m, int stage, int strip,
                              float (&sums)[tile<Cols>::cols / 2]) {
  using tile = by_blocks::tile<Cols>;
  constexpr int groups = tile::batch_groups, batches = tile::col_groups / groups;
  const u32 base = ptx::shared_address(m.stage[0]) + static_cast<u32>(stage * tile::stage_bytes),
            rows_b = base + a_bytes;
  u32 a[4][4], left = 0;
  load_step_a(base + static_cast<u32>(strip * output_rows * decoded_row_bytes), a);
  batch_of_blocks<groups> blocks[2];
  blocks[0].multiply(a, rows_b);
  find_limits(m, stage, strip);
  FOURSCALE_UNROLL
  for (int i = 0; i < batches; ++i) {
    if (i + 1 < batches)
      blocks[(i + 1) % 2].multiply(
          a, rows_b + static_cast<u32>((i + 1) * groups * bounds_rows * decoded_row_bytes));
    kept_limits limits[groups];
    FOURSCALE_UNROLL
    for (int k = 0; k < groups; ++k) limits[k] = m.limits[strip][i * groups + k];
    left |= add_batch(blocks[i % 2], limits, sums + 4 * groups * i) << (groups * i);
  }
  return left;
}

/// A warp: 16 rows of every tile.
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
        const u32 stage = ptx::shared_address(m.stage[w.stage]), limited = groups_limited(m, w.stage, strip);
        exact_columns& x = m.left[strip];
        if (threadIdx.x % 32 == 0)
          x = {&p.a,
               &p.b,
               {row, col, step, stage + static_cast<u32>(strip * output_rows * decoded_row_bytes),
                stage + a_bytes},
               0,
               limited,
               ptx::shared_address(m.depths_of_rows[w.stage] + strip * output_rows),
               ptx::shared_address(m.depths_of_cols[w.stage])};
        add_exactly<tile::col_groups>(x, left, sums);
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
