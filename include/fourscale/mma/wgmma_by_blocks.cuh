// SPDX-License-Identifier: Apache-2.0
// The other way of the GEMM by wgmma, for operands whose block scales differ so much that few sums of 64
// products are exact: every step is made by blocks of 16 values, with mma.sync. There are no certificates,
// and CTAs share nothing. Tiles have the columns that a CTA of the first way (wgmma_roles.cuh) loads of B,
// half as many, so that the code of a step stays in the instruction cache: fetching it took most of the time.
// A persistent kernel; a stage is one step of K = 64. The roles:
//
//   load      one warp has TMA fill a stage with a step of A and of B                      -> `full`
//   bound     three warps write limits: below them, the adder drops nothing                -> `full`
//   multiply  eight warps, 16 rows each: sums of blocks by mma.sync, added by brackets     -> `empty`
#pragma once

#include <cuda/ptx>

#include "../ptx/elect.cuh"
#include "../ptx/mbarrier.cuh"
#include "../ptx/wgmma.cuh"  // setmaxnreg
#include "wgmma_by_blocks_tiles.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma::by_blocks {

template <int Cols>
struct shared_memory {
  alignas(1024) u8 stage[stages][tile<Cols>::stage_bytes];  ///< A, then B
  output_strip outputs[strips];
  exact_columns left[strips];
  /// Limits of accumulators, for each 16 rows by eight columns; the bounds that they come from; and the
  /// depths of each row and column, for closer limits (row_limits).
  alignas(16) kept_limits limits[stages][strips][tile<Cols>::col_groups];
  fourscale::model::accumulator_bounds bounds[stages][row_groups + tile<Cols>::col_groups];
  alignas(8) u8 depths_of_rows[stages][tile_rows], depths_of_cols[stages][tile<Cols>::cols];
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

/// The sums of two blocks with which the brackets of a batch begin.
template <int Outputs>
struct pairs_of_blocks {
  detail::sums_of_two pairs[Outputs];

  /// keep() makes the compiler leave these additions here. The warp then waits for the products at its next
  /// branch, and not in the additions behind that branch.
  template <class Batch>
  FOURSCALE_D void add(Batch const& blocks) {
    FOURSCALE_UNROLL
    for (int i = 0; i < Outputs; ++i) {
      pairs[i] = detail::add_in_twos(blocks.of(i));
      ptx::keep(pairs[i].first.low), ptx::keep(pairs[i].first.high);
      ptx::keep(pairs[i].last.low), ptx::keep(pairs[i].last.high);
    }
  }
};

/// Waits for a phase parity, and sleeps between polls. For a warp that is stages ahead: it then takes no
/// issue slots from the warps that multiply.
FOURSCALE_D inline void wait_asleep(std::uint64_t* barrier, u32 parity) {
  while (!cuda::ptx::mbarrier_try_wait_parity(barrier, parity)) __nanosleep(100);
}

/// The role `load`: one thread.
template <class P, int Cols>
FOURSCALE_D void load(P const& p, shared_memory<Cols>& m) {
  for (walk<Cols, P> w(p); w.more(); w.next()) {
    const i32 row = w.row(), col = w.col(), begin = w.first_step(), end = begin + w.steps();
    for (i32 step = begin; step < end; ++step, w.next_stage()) {
      wait_asleep(m.empty + w.stage(), w.parity() ^ 1);  // the first time around, at once
      std::uint64_t* const full = m.full + w.stage();
      u8* const to = m.stage[w.stage()];
      cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                           cuda::ptx::space_shared, full, tile<Cols>::stage_bytes);
      const i32 box_rows = has_low_tiles<Cols>(p) ? low_tile_rows : tile_rows;
      for (i32 i = 0; i < tile_rows; i += box_rows)
        cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global,
                                        to + i * decoded_row_bytes, &p.map_a, {step * decoded_step, row + i},
                                        full);
      cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to + a_bytes,
                                      &p.map_b, {step * decoded_step, col}, full);
    }
  }
}

/// Writes the limits of each eight rows by each eight columns, as largest_kept() has them. `own` is the
/// lane's depth + 2^16 * span, so that one addition of two lanes' words gives both sums. A whole warp.
template <int Cols>
FOURSCALE_D void leave_limits(shared_memory<Cols>& m, int stage, u32 own) {
  const u32 lane = threadIdx.x % 32, row = lane % row_groups, of_row = __shfl_sync(~0u, own, row);
  float* const to = reinterpret_cast<float*>(m.limits[stage][row / 2]) + row % 2;  // upper or lower
  FOURSCALE_UNROLL
  for (u32 first = 0; first < tile<Cols>::col_groups; first += 32 / row_groups) {
    const u32 col = first + lane / row_groups, both = of_row + __shfl_sync(~0u, own, row_groups + col);
    const float limit = fourscale::model::accumulator_limit(both & 0xffffu);
    to[2 * col] = fourscale::model::scales_drop_nothing(both >> 16) ? limit : 0.0f;
  }
}

/// The role `bound`: warps 1 to 3, which take steps in turn. A lane has eight rows of A or eight columns.
/// Once the stage is empty, the warp writes their limits, bounds and depths to it, and arrives at `full`.
template <class P, int Cols>
FOURSCALE_D void bound(P const& p, shared_memory<Cols>& m, int warp) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool of_a = lane < row_groups, used = lane < row_groups + tile<Cols>::col_groups;
  decoded_operand const& x = of_a ? p.a : p.b;
  int turn = 1;
  for (walk<Cols, P> w(p); w.more(); w.next()) {
    const i64 groups = x.row_groups(),
              group = of_a ? w.row() / bounds_rows + lane : w.col() / bounds_rows + lane - row_groups;
    auto const* depths = x.depths + w.first_step() * groups + group;
    auto const* largest = x.of_accumulators + x.bounds_at(group, w.first_step());
    const bool there = used && group < groups;
    for (int step = 0, steps = w.steps(); step < steps;
         ++step, depths += groups, largest += bounds_chunk, w.next_stage(), turn = turn % bound_warps + 1) {
      if (turn != warp) continue;
      bytes_of_eight eight;
      fourscale::model::accumulator_bounds of_eight;
      if (there) eight = *depths, of_eight = *largest;
      wait_asleep(m.empty + w.stage(), w.parity() ^ 1);
      leave_limits(m, w.stage(), of_eight.depth | u32{of_eight.span} << 16);
      if (used) {
        m.bounds[w.stage()][lane] = of_eight;
        u8* const to = of_a ? m.depths_of_rows[w.stage()] + lane * bounds_rows
                            : m.depths_of_cols[w.stage()] + (lane - row_groups) * bounds_rows;
        *reinterpret_cast<bytes_of_eight*>(to) = eight;
      }
      __syncwarp();
      if (lane == 0) cuda::ptx::mbarrier_arrive(m.full + w.stage());
    }
  }
}

/// A bit for each group of columns of which scales drop nothing, with a warp's 16 rows. A whole warp.
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

/// Shared addresses of a warp's rows of A and of the rows of B in a stage.
template <int Cols>
FOURSCALE_D u32 rows_of_a(shared_memory<Cols> const& m, int stage, int strip) {
  return ptx::shared_address(m.stage[stage]) + static_cast<u32>(strip * output_rows * decoded_row_bytes);
}
template <int Cols>
FOURSCALE_D u32 rows_of_b(shared_memory<Cols> const& m, int stage) {
  return ptx::shared_address(m.stage[stage]) + a_bytes;
}

/// A warp's software pipeline through a tile: the products of a batch, two groups of columns, are made while
/// those of the batch before are added, across the steps of the tile. A whole warp calls its functions.
template <int Cols>
struct products {
  using tile = by_blocks::tile<Cols>;
  static constexpr int groups = tile::batch_groups, batches = tile::col_groups / groups,
                       outputs = batch_of_blocks<groups>::outputs;
  static_assert(batches % 2 == 0, "The first batch of each step has the same registers.");
  shared_memory<Cols>& m;
  u32 lane, in_a, in_b;          ///< lane, and shared addresses in stage 0, which a step need not find again
  u32 a[4][4], b[groups][4][2];  ///< fragments of the products that come next
  batch_of_blocks<groups> blocks[2];
  pairs_of_blocks<outputs> pairs;
  u32 left;  ///< groups of columns of this step that are not added yet, as the adder may drop bits of them

  FOURSCALE_D products(shared_memory<Cols>& memory, int strip)
      : m(memory),
        lane(threadIdx.x % 32),
        in_a(rows_of_a(m, 0, strip) + place_in_a()),
        in_b(rows_of_b(m, 0) + place_in_b()) {
    ptx::keep(lane), ptx::keep(in_a), ptx::keep(in_b);
  }

  /// Loads the fragments of the rows of A and of the first columns of a step, once its stage is full.
  FOURSCALE_D void load(int stage, u32 parity) {
    const u32 at = static_cast<u32>(stage * tile::stage_bytes);
    wait(m.full + stage, parity);
    load_step_a(in_a + at, a);
    rows_of_step_b(in_b + at).load(0, b);
  }
  /// The first products of a tile.
  FOURSCALE_D void begin(int stage, u32 parity) {
    load(stage, parity);
    blocks[0].multiply(a, b);
    pairs.add(blocks[0]);
  }

  /// Adds a step, whose first products are made, to `sums`, but for groups in `left`; makes the first
  /// products of the tile's next step, if there are `more`. `stage` is the step's own; w is at the next step.
  template <class P>
  FOURSCALE_D void add_step(int stage, walk<Cols, P> const& w, bool more, float (&sums)[tile::outputs]) {
    const rows_of_step_b rows(in_b + static_cast<u32>(stage * tile::stage_bytes));
    u32 thread = threadIdx.x;
    ptx::keep(thread);  // so that values derived from it hold no register
    const u32 limits_at = ptx::shared_address(m.limits[stage][thread / 32 - 4]);
    left = 0;
    FOURSCALE_UNROLL
    for (int i = 0; i < batches; ++i) {
      kept_limits of_batch[groups];
      static_assert(sizeof(of_batch) == sizeof(uint4));
      const uint4 words = ptx::load_shared_u32x4(limits_at + static_cast<u32>(i) * sizeof(of_batch));
      of_batch[0] = {bit_cast<float>(words.x), bit_cast<float>(words.y)};
      of_batch[1] = {bit_cast<float>(words.z), bit_cast<float>(words.w)};
      if (i + 1 < batches)
        rows.load((i + 1) * groups, b);
      else if (more)
        load(w.stage(), w.parity());  // else add_batch() multiplies old fragments; nobody reads that
      add_batch(i, of_batch, sums + outputs * i);
    }
  }

 private:
  /// Adds batch i to the accumulators c, and makes the products of the next one. A group stays in `left` if
  /// the adder may drop bits of an output: the accumulator is not below its limit. If any lane has such a
  /// group, or a bracket that is open, all lanes branch, and only there look at each group and output.
  FOURSCALE_D void add_batch(int i, kept_limits const (&of_batch)[groups], float* c) {
    constexpr float nothing = -0.0f;  // is added where the accumulator must not change
    detail::bracket sums[outputs], all[outputs];
    u32 differ = 0;
    bool kept = true;
    FOURSCALE_UNROLL
    for (int k = 0; k < outputs; ++k) {
      sums[k] = detail::sum_of(pairs.pairs[k]);
      all[k] = detail::bracket_of(c[k], sums[k]);
      differ |= bit_cast<u32>(all[k].low) ^ bit_cast<u32>(all[k].high);
      if (k % 4 == 3) kept = kept & of_batch[k / 4].keep(c + k - 3);
    }
    blocks[(i + 1) % 2].multiply(a, b);
    pairs.add(blocks[(i + 1) % 2]);
    if (!__all_sync(~0u, kept & (differ == 0))) [[unlikely]] {
      u32 open = 0;
      FOURSCALE_UNROLL
      for (int k = 0; k < outputs; ++k) open |= u32{all[k].low != all[k].high} << k;
      open = __reduce_or_sync(~0u, open);
      FOURSCALE_UNROLL
      for (int group = 0; group < groups; ++group) {
        if (__all_sync(~0u, of_batch[group].keep(c + 4 * group))) continue;
        left |= 1u << (groups * i + group);
        open &= ~(15u << 4 * group);
        FOURSCALE_UNROLL
        for (int k = 4 * group; k < 4 * group + 4; ++k) sums[k].high = nothing;
      }
      FOURSCALE_UNROLL
      for (int k = 0; k < outputs; ++k)
        if ((open >> k & 1) != 0)
          c[k] = detail::add_in_double(c[k], blocks[i % 2].of(k)), sums[k].high = nothing;
    }
    FOURSCALE_UNROLL
    for (int k = 0; k < outputs; ++k)
      c[k] = ptx::add_rz_f32(c[k], sums[k].high);  // in place; all[k].high would be copied to c[k]
  }
};

/// Adds the groups of columns `left` of a step by add_exactly(), with limits and exponents of each output.
template <class P, int Cols>
FOURSCALE_D void add_left(P const& p, shared_memory<Cols>& m, int stage, int strip, exact_place at, u32 left,
                          float (&sums)[tile<Cols>::outputs]) {
  const u32 limited = groups_limited(m, stage, strip);
  exact_columns& x = m.left[strip];
  at.stage_a = rows_of_a(m, stage, strip), at.stage_b = rows_of_b(m, stage);
  if (threadIdx.x % 32 == 0)
    x = {&p.a,
         &p.b,
         at,
         limited,
         ptx::shared_address(m.depths_of_rows[stage] + strip * output_rows),
         ptx::shared_address(m.depths_of_cols[stage])};
  add_exactly<tile<Cols>::col_groups>(x, left, sums);
}

/// Passes a tile of which the warp has no outputs: it arrives at `empty` for each step.
template <class P, int Cols>
FOURSCALE_D void pass(shared_memory<Cols>& m, walk<Cols, P>& w) {
  for (int left = w.steps(); left > 0; --left, w.next_stage()) {
    wait_asleep(m.full + w.stage(), w.parity());
    __syncwarp();
    if (threadIdx.x % 32 == 0) cuda::ptx::mbarrier_arrive(m.empty + w.stage());
  }
}

/// The role `multiply`: a whole warp, with 16 rows of every tile. What is needed at the end of a tile, or
/// seldom, is computed when it is needed: registers are for the sums.
template <class P, int Cols>
FOURSCALE_D void multiply(P const& p, shared_memory<Cols>& m) {
  using tile = by_blocks::tile<Cols>;
  const int strip = static_cast<int>(threadIdx.x) / 32 - 4;
  const auto row = [&](walk<Cols, P> const& w) { return w.row() + strip * output_rows; };
  products<Cols> x(m, strip);
  for (walk<Cols, P> w(p); w.more(); w.next()) {
    if (!w.has_outputs(strip)) {
      pass(m, w);
      continue;
    }
    float sums[tile::outputs] = {};
    x.begin(w.stage(), w.parity());
#pragma unroll 1
    for (int step = 0, more = w.steps(); more-- > 0; ++step) {
      const int stage = w.stage();
      w.next_stage();
      x.add_step(stage, w, more > 0, sums);
      if (x.left != 0 || p.steps != nullptr) {  // seldom; one test of both in the inner loop
        add_left(p, m, stage, strip, {row(w), w.col(), w.first_step() + step, 0, 0}, x.left, sums);
        if (p.steps != nullptr && x.lane == 0)
          count_steps(*p.steps, min(p.d.rows - row(w), i64{output_rows}), p.d.cols - w.col(),
                      ~x.left & ((1u << tile::col_groups) - 1), x.left);
      }
      __syncwarp();
      if (x.lane == 0) cuda::ptx::mbarrier_arrive(m.empty + stage);
    }
    w.store(strip, sums, m.outputs[strip]);
  }
}

/// All threads of a CTA.
template <class P, int Cols>
FOURSCALE_D void run(P const& p, shared_memory<Cols>& m, int warp) {
  if (warp < 4) {
    ptx::setmaxnreg_dec<other_registers>();
    if (warp == 0 && ptx::elect_sync()) load(p, m);
    if (warp > 0) bound(p, m, warp);
  } else {
    ptx::setmaxnreg_inc<multiply_registers>();
    multiply(p, m);
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma::by_blocks
