// SPDX-License-Identifier: Apache-2.0
// Outputs without a certificate in f16_tile.cuh. A warp puts its accumulators of these on a list in shared
// memory, and its lanes take one at a time, or four lanes one if there are few (f16_exact_step.cuh). Also
// which outputs a warp and a lane have.
#pragma once

#include "../warp/scan.cuh"
#include "f16_exact_step.cuh"
#include "step_counts.cuh"

namespace FOURSCALE_NAMESPACE::mma::f16_tile {

inline constexpr u32 warp_rows = 32, warp_cols = 32, warps_down = 4, warps_across = 4;
inline constexpr u32 warps = warps_down * warps_across, threads = 32 * warps;
inline constexpr u32 tile_rows = warps_down * warp_rows, tile_cols = warps_across * warp_cols;
inline constexpr u32 a_bytes = tile_rows * f16_row_bytes, stage_bytes = a_bytes + tile_cols * f16_row_bytes;
inline constexpr u32 row_blocks = warp_rows / 16, col_blocks = warp_cols / 8;

/// Where a thread is in the CTA, and where its warp's outputs begin in the tile.
struct place {
  u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 row = warp / warps_across * warp_rows, col = warp % warps_across * warp_cols;  ///< of the warp
};

/// A lane's accumulators: 32 elements. Their row and column, among the warp's:
using accumulators = float[row_blocks][warp_cols / 2];
FOURSCALE_D inline u32 row_of(u32 lane, u32 element) {
  return 16 * (element / 16) + lane / 4 + element % 4 / 2 * 8;
}
FOURSCALE_D inline u32 col_of(u32 lane, u32 element) {
  return element % 16 / 4 * 8 + lane % 4 * 2 + element % 2;
}

/// A warp's outputs without a certificate: accumulators, and where they belong: lane * 32 + element.
struct output_list {
  static constexpr u32 capacity = 256;
  float sums[capacity];
  u16 where[capacity];
};

/// Where a step is: its stage, the numbers of its rows and columns, the tile's first row and column in D.
struct step_place {
  u8 const* stage;
  block_numbers const* numbers;
  u32 row, col;
  i64 step;
};

/// How many outputs of a list a lane has added, as gemm_steps counts them.
struct listed_counts {
  u32 in_double = 0, by_model = 0;
};

/// Adds the step to `count` outputs of a list, from `first` on, at most 32 / Lanes. Called by a whole warp.
template <int Lanes, class P>
FOURSCALE_D void add_listed(P const& p, step_place const& at, output_list& list, u32 first, u32 count,
                            listed_counts& counts) {
  const place warp;
  const u32 mine = warp.lane / Lanes, i = first + min(mine, count - 1), where = list.where[i];
  const u32 row = warp.row + row_of(where / 32, where % 32), col = warp.col + col_of(where / 32, where % 32);
  const f16_rows rows{at.stage,
                      at.stage + a_bytes,
                      row,
                      col,
                      at.numbers[row],
                      at.numbers[tile_rows + col],
                      least_field(p.a.type),
                      least_field(p.b.type)};
  const bool has_one =
      mine < count && warp.lane % Lanes == 0 && at.row + row < p.d.rows && at.col + col < p.d.cols;
  float c = list.sums[i];
  if (p.steps != nullptr && has_one)
    (mma::detail::is_kept(rows.of_a, rows.of_b, c) ? counts.in_double : counts.by_model) += 1;
  const bool added = mma::detail::add_in_floats<Lanes>(rows, c);
  __syncwarp();  // lanes without an output of their own have read another's
  if (!has_one) return;
  if (!added) {
    if constexpr (arch::is_relocatable)
      c = mma::detail::add_block_by_model(p.a, p.b, i64{at.row + row}, i64{at.col + col}, at.step, c);
    else
      c = mma::detail::add_block_by_model_apart(p.a, p.b, i64{at.row + row}, i64{at.col + col}, at.step, c);
  }
  list.sums[i] = c;
}

/// Adds the step to the first `count` outputs of a list, and counts them. Called by a whole warp.
template <class P>
FOURSCALE_D void add_all_listed(P const& p, step_place const& at, output_list& list, u32 count) {
  constexpr int lanes = 4;
  constexpr u32 few = 32 / lanes;
  listed_counts counts;
  u32 first = 0;
#pragma unroll 1
  for (; first + few < count; first += 32) add_listed<1>(p, at, list, first, min(count - first, 32u), counts);
  if (first < count) add_listed<lanes>(p, at, list, first, count - first, counts);
  if (p.steps == nullptr) return;
  const i64 in_double = __reduce_add_sync(~0u, counts.in_double),
            by_model = __reduce_add_sync(~0u, counts.by_model);
  if (threadIdx.x % 32 != 0) return;
  mma::detail::add_count(p.steps->in_f32, -(in_double + by_model));
  mma::detail::add_count(p.steps->in_double, in_double);
  mma::detail::add_count(p.steps->by_model, by_model);
}

/// Adds the step to the warp's accumulators that `without` names, by way of the list: all at once if it has
/// the room, else eight elements of each lane at a time. Called by a whole warp.
template <class P>
FOURSCALE_D void add_others(P const& p, step_place const& at, u32 without, output_list& list,
                            accumulators& sums) {
  const u32 lane = threadIdx.x % 32;
  u32 all = 0;
  const u32 slot_of_all = warp::sum_before(static_cast<u32>(__popc(without)), all);
  const bool at_once = all <= output_list::capacity;
#pragma unroll 1
  for (u32 part = at_once ? ~0u : 0xffu; part != 0; part = at_once ? 0u : part << 8) {
    const u32 mine = without & part;
    const u32 slot = at_once ? slot_of_all : warp::sum_before(static_cast<u32>(__popc(mine)), all);
    const u32 first = ptx::shared_address(list.sums + slot);
    u32 to = first, from = first;
    FOURSCALE_UNROLL
    for (int i = 0; i < 32; ++i) ptx::store_next_shared_f32(mine & 1u << i, to, sums[i / 16][i % 16]);
    u16* where = list.where + slot;
    for (u32 left = mine; left != 0; left &= left - 1)
      *where++ = static_cast<u16>(lane * 32 + static_cast<u32>(__ffs(static_cast<int>(left))) - 1);
    __syncwarp();
    add_all_listed(p, at, list, all);
    __syncwarp();
    FOURSCALE_UNROLL
    for (int i = 0; i < 32; ++i) ptx::load_next_shared_f32(mine & 1u << i, from, sums[i / 16][i % 16]);
    __syncwarp();
  }
}
static_assert(8 * 32 <= output_list::capacity && warp_rows * warp_cols == 32 * 32);

}  // namespace FOURSCALE_NAMESPACE::mma::f16_tile
