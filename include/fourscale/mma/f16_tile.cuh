// SPDX-License-Identifier: Apache-2.0
// A CTA's 128 x 128 tile of A * B^T with the bits of Blackwell's kind mxf8f6f4, on any GPU from sm_80 on. A
// step of K = 32 is a chain of two mma.sync from zero, or one chain for each part of A's elements, and one
// fma that adds the scaled sum to the accumulator, rounded toward zero. Each output has its own certificate.
// Outputs without one go to a list of the warp, of which each lane takes one at a time (f16_exact_step.cuh).
//
// Sixteen warps take 32 x 32 outputs each. All threads copy steps with cp.async into four pipeline stages;
// one barrier of the CTA in each step says that a step has landed and that the one before has been read.
#pragma once

#include "../ptx/bar.cuh"
#include "../ptx/cp_async.cuh"
#include "../ptx/mma_sync_f16.cuh"
#include "f16_exact_step.cuh"
#include "failed_strips.cuh"
#include "output_strip.cuh"
#include "step_counts.cuh"
#include "tile_walk.cuh"

namespace FOURSCALE_NAMESPACE::mma::f16_tile {

inline constexpr int warp_rows = 32, warp_cols = 32, warps_down = 4, warps_across = 4;
inline constexpr int warps = warps_down * warps_across, threads = 32 * warps;
inline constexpr int tile_rows = warps_down * warp_rows, tile_cols = warps_across * warp_cols;
inline constexpr int a_bytes = tile_rows * f16_row_bytes, stage_bytes = a_bytes + tile_cols * f16_row_bytes;
inline constexpr int stages = 4, row_blocks = warp_rows / 16, col_blocks = warp_cols / 8;

/// D = alpha * A * B^T + beta * D: the arguments of the kernel.
template <class T>
struct problem {
  f16_operand a, b;
  matrix_view<T> d;
  one_factor factor_of;
  float beta;
  gemm_steps* steps;  ///< counts how steps are added, or null
};
/// The same where only outputs that a kernel before has marked are made.
template <class T>
struct problem_of_failed : problem<T> {
  failed_strips failed;
};
template <class P>
concept is_of_failed = requires(P const& p) {
  p.failed;
};

/// A warp's outputs without a certificate: accumulators, and where they belong: lane * 32 + element.
struct output_list {
  static constexpr int capacity = 256;
  float sums[capacity];
  u16 where[capacity];
};

/// Shared memory of a CTA. In the epilogue, strips of outputs overwrite the stages.
struct cta_memory {
  u8 stage[stages][stage_bytes];
  block_numbers numbers[2][tile_rows + tile_cols];  ///< [step % 2][rows, then columns]
  output_list lists[warps];
};
static_assert(sizeof(output_strip) * warps <= sizeof(u8[stages][stage_bytes]));

/// Where a thread is in the CTA, and where its warp's outputs begin in the tile.
struct place {
  int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int row = warp / warps_across * warp_rows, col = warp % warps_across * warp_cols;  ///< of the warp
};

/// Copies steps into stages: a thread copies 16 bytes of a row of A and of a row of B. In place of rows
/// beyond the operand it copies the last row; outputs of these are not stored.
struct step_copies {
  u8 const *a, *b;
  u32 to;

  FOURSCALE_D step_copies(f16_operand const& x, f16_operand const& y, int row, int col) {
    const int r = static_cast<int>(threadIdx.x) / 4, chunk = static_cast<int>(threadIdx.x) % 4;
    a = reinterpret_cast<u8 const*>(x.values + min(i64{row + r}, x.rows - 1) * x.padded_k()) + 16 * chunk;
    b = reinterpret_cast<u8 const*>(y.values + min(i64{col + r}, y.rows - 1) * y.padded_k()) + 16 * chunk;
    to = f16_chunk_place(r, chunk);
  }
  /// Starts the next step if it is there; commits a group in any case, so that groups count steps.
  FOURSCALE_D void start(u32 stage, bool there) {
    if (there) {
      ptx::cp_async_cg_16(stage + to, a);
      ptx::cp_async_cg_16(stage + a_bytes + to, b);
    }
    a += f16_row_bytes, b += f16_row_bytes;
    ptx::cp_async_commit_group();
  }
};
static_assert(threads == 4 * tile_rows && threads == 4 * tile_cols);

/// Reads the facts (block_word) of a row or column, step after step: a thread for each, other threads none.
struct facts_reader {
  u32 const* at;
  i64 rows;

  FOURSCALE_D facts_reader(f16_operand const& x, f16_operand const& y, int row, int col) {
    const int i = static_cast<int>(threadIdx.x);
    f16_operand const& of = i < tile_rows ? x : y;
    at = of.facts + min(i64{i < tile_rows ? row + i : col + i - tile_rows}, of.rows - 1);
    rows = of.rows;
  }
  FOURSCALE_D static bool reads() { return static_cast<int>(threadIdx.x) < tile_rows + tile_cols; }
  FOURSCALE_D u32 next() {
    const u32 word = *at;
    at += rows;
    return word;
  }
};

// ---------------------------------------------------------------- multiply

using accumulators = float[row_blocks][warp_cols / 2];
using fragments_a = u32[row_blocks][2][4];

/// Row and column, among the warp's, of element 0 to 31 of a lane's accumulators.
FOURSCALE_D inline int row_of(int lane, int element) {
  return 16 * (element / 16) + lane / 4 + element % 4 / 2 * 8;
}
FOURSCALE_D inline int col_of(int lane, int element) {
  return element % 16 / 4 * 8 + lane % 4 * 2 + element % 2;
}

/// Splits A's elements: `high` holds them on entry and then their high parts, `low` the rest.
FOURSCALE_D inline void split(fragments_a& high, fragments_a& low) {
  constexpr u32 anchor = 0x6e00'6e00u;  // 1536 times part_unit
  static_assert(part_unit == 4.0f);
  FOURSCALE_UNROLL
  for (int i = 0; i < row_blocks * 8; ++i) {
    u32& x = high[i / 8][i / 4 % 2][i % 4];
    const u32 whole = x;
    x = ptx::sub_rn_f16x2(ptx::add_rn_f16x2(whole, anchor), anchor);
    low[i / 8][i / 4 % 2][i % 4] = ptx::sub_rn_f16x2(whole, x);
  }
}

/// Adds a step to the accumulator c of an output if it is certified, and returns whether it is. a, b: numbers
/// of the row and the column. `high`, `low`: the sums of products of both parts.
template <bool Parts>
FOURSCALE_D bool add_certified(block_numbers const& a, block_numbers const& b, float high, float low,
                               float& c) {
  const float sum = Parts ? __fadd_rn(high, low) : high;
  bool exact = mma::detail::is_kept(a, b, c, block_numbers::too_wide | block_numbers::too_far);
  if constexpr (Parts) exact = exact & (__fsub_rn(sum, high) == low) & (__fsub_rn(sum, low) == high);
  c = exact ? __fmaf_rz(sum, a.scale * b.scale, c) : c;
  return exact;
}

/// Adds a step to a warp's accumulators where it is certified. Returns a bit for each other element.
template <bool Parts>
FOURSCALE_D u32 add_step(u8 const* stage, block_numbers const* numbers, place const& at, accumulators& sums) {
  const u32 rows = ptx::shared_address(stage);
  fragments_a a, low;
  FOURSCALE_UNROLL
  for (int i = 0; i < row_blocks * 2; ++i)
    ptx::ldmatrix_m8n8_x4_b16(a[i / 2][i % 2], rows + f16_chunk_place(at.row + i / 2 * 16 + at.lane % 16,
                                                                      i % 2 * 2 + at.lane / 16));
  if constexpr (Parts) split(a, low);
  u32 without = 0;
  FOURSCALE_UNROLL
  for (int j = 0; j < col_blocks; ++j) {
    u32 b[4];
    ptx::ldmatrix_m8n8_x4_b16(b, rows + a_bytes + f16_chunk_place(at.col + 8 * j + at.lane % 8, at.lane / 8));
    block_numbers const* const of_cols = numbers + tile_rows + at.col + col_of(at.lane, 4 * j);
    const block_numbers cols[2] = {of_cols[0], of_cols[1]};
    FOURSCALE_UNROLL
    for (int i = 0; i < row_blocks; ++i) {
      float high[4] = {}, rest[4] = {};
      ptx::mma_sync_m16n8k16_f16(high, a[i][0], b[0], b[1]);
      if constexpr (Parts) ptx::mma_sync_m16n8k16_f16(rest, low[i][0], b[0], b[1]);
      ptx::mma_sync_m16n8k16_f16(high, a[i][1], b[2], b[3]);
      if constexpr (Parts) ptx::mma_sync_m16n8k16_f16(rest, low[i][1], b[2], b[3]);
      FOURSCALE_UNROLL
      for (int e = 0; e < 4; ++e) {
        const int element = 16 * i + 4 * j + e;
        const block_numbers row = numbers[at.row + row_of(at.lane, element)];
        if (!add_certified<Parts>(row, cols[e % 2], high[e], rest[e], sums[i][4 * j + e]))
          without |= 1u << element;
      }
    }
  }
  return without;
}

// ---------------------------------------------------------------- outputs without a certificate

/// Where a step is: its stage, the numbers of its rows and columns, the tile's first row and column in D.
struct step_place {
  u8 const* stage;
  block_numbers const* numbers;
  int row, col, step;
};

/// Adds the step to the first `count` accumulators of a list, a lane each, and counts them. A whole warp.
template <class P>
FOURSCALE_D void add_listed(P const& p, step_place at, output_list& list, int count) {
  const place warp;
  u32 in_double = 0, by_model = 0;
  for (int i = warp.lane; i < count; i += 32) {
    const int where = list.where[i], row = warp.row + row_of(where / 32, where % 32),
              col = warp.col + col_of(where / 32, where % 32);
    const f16_rows rows{at.stage,
                        at.stage + a_bytes,
                        row,
                        col,
                        at.numbers[row],
                        at.numbers[tile_rows + col],
                        least_field(p.a.type),
                        least_field(p.b.type)};
    if (at.row + row >= p.d.rows || at.col + col >= p.d.cols) continue;
    float c = list.sums[i];
    (mma::detail::is_kept(rows.of_a, rows.of_b, c) ? in_double : by_model) += 1;
    if (!mma::detail::add_in_floats(rows, c)) {
      const i64 r = at.row + row, n = at.col + col;
      if constexpr (arch::is_relocatable)
        c = mma::detail::add_block_by_model(p.a, p.b, r, n, at.step, c);
      else
        c = mma::detail::add_block_by_model_apart(p.a, p.b, r, n, at.step, c);
    }
    list.sums[i] = c;
  }
  if (p.steps == nullptr) return;
  __syncwarp();
  const i64 all_in_double = __reduce_add_sync(~0u, in_double),
            all_by_model = __reduce_add_sync(~0u, by_model);
  if (warp.lane != 0) return;
  mma::detail::add_count(p.steps->in_f32, -(all_in_double + all_by_model));
  mma::detail::add_count(p.steps->in_double, all_in_double);
  mma::detail::add_count(p.steps->by_model, all_by_model);
}

/// The same as a function that is called.
template <class P>
__noinline__ FOURSCALE_D void add_listed_apart(P const& p, step_place at, output_list& list, int count) {
  add_listed(p, at, list, count);
}

/// The sum of x over the lanes before this one; `all`: over all lanes. Called by a whole warp.
FOURSCALE_D inline int sum_before(int x, int lane, int& all) {
  int sum = x;
  FOURSCALE_UNROLL
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(~0u, sum, static_cast<unsigned>(distance));
    sum += lane >= distance ? other : 0;
  }
  all = __shfl_sync(~0u, sum, 31);
  return sum - x;
}

/// Adds the step to the warp's accumulators that `without` names, by way of the list: all at once if it has
/// the room, else eight elements of each lane at a time. Called by a whole warp.
template <class P>
FOURSCALE_D void add_others(P const& p, step_place const& at, u32 without, output_list& list,
                            accumulators& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int all = 0;
  sum_before(__popc(without), lane, all);
  const bool at_once = all <= output_list::capacity;
#pragma unroll 1
  for (u32 part = at_once ? ~0u : 0xffu; part != 0; part = at_once ? 0u : part << 8) {
    const u32 mine = without & part;
    const int first = sum_before(__popc(mine), lane, all);
    int slot = first;
    FOURSCALE_UNROLL
    for (int i = 0; i < 32; ++i)
      if (mine >> i & 1) {
        list.sums[slot] = sums[i / 16][i % 16];
        list.where[slot++] = static_cast<u16>(lane * 32 + i);
      }
    __syncwarp();
    if constexpr (arch::is_relocatable)
      add_listed(p, at, list, all);
    else
      add_listed_apart(p, at, list, all);
    __syncwarp();
    slot = first;
    FOURSCALE_UNROLL
    for (int i = 0; i < 32; ++i)
      if (mine >> i & 1) sums[i / 16][i % 16] = list.sums[slot++];
    __syncwarp();
  }
}
static_assert(8 * 32 <= output_list::capacity && warp_rows * warp_cols == 32 * 32);

/// Which of a warp's outputs are to be made, a bit for each 16 rows: those at (row, col) of D that have
/// failed.
template <class P>
FOURSCALE_D u32 wanted_rows(P const& p, int row, int col) {
  u32 wanted = 0;
  FOURSCALE_UNROLL
  for (int i = 0; i < row_blocks; ++i) {
    const int at = row + 16 * i;
    if (at < p.d.rows && col < p.d.cols && p.failed.of(at, col) != 0) wanted |= 1u << i;
  }
  return wanted;
}

inline constexpr u32 all_rows = (1u << row_blocks) - 1;

/// Adds the tile's steps to the sums, of a warp's outputs that are `wanted` at least: others, which another
/// kernel has made, have certificates, so that they are counted once. All threads of the CTA.
template <bool Parts, class P>
FOURSCALE_D void multiply_steps(P const& p, int row, int col, u32 wanted, cta_memory& memory,
                                accumulators& sums) {
  const place at;
  const int steps = static_cast<int>(p.a.steps);
  const u32 first_stage = ptx::shared_address(memory.stage);
  const auto stage_of = [&](int step) { return first_stage + static_cast<u32>(step % stages * stage_bytes); };
  step_copies copies(p.a, p.b, row, col);
  for (int i = 0; i < stages - 1; ++i) copies.start(stage_of(i), i < steps);
  facts_reader facts(p.a, p.b, row, col);
  u32 next = 0;
  if (facts_reader::reads()) {
    memory.numbers[0][threadIdx.x] = block_word(facts.next()).numbers();
    if (steps > 1) next = facts.next();
  }
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    ptx::cp_async_wait_group<stages - 2>();
    ptx::bar_sync<0, threads>();  // the step has landed for all threads, and all have read the one before
    copies.start(stage_of(step + stages - 1), step + stages - 1 < steps);
    if (facts_reader::reads()) {
      memory.numbers[(step + 1) % 2][threadIdx.x] = block_word(next).numbers();
      if (step + 2 < steps) next = facts.next();
    }
    u8 const* const stage = memory.stage[step % stages];
    block_numbers const* const numbers = memory.numbers[step % 2];
    const u32 without = wanted != 0 ? add_step<Parts>(stage, numbers, at, sums) : 0;
    if (__any_sync(~0u, without != 0))
      add_others(p, {stage, numbers, row, col, step}, without, memory.lists[at.warp], sums);
  }
}

/// The tile at (row, col) of D, by all threads. `Parts`: A's elements are multiplied in two parts.
template <bool Parts, class P>
FOURSCALE_D void multiply(P const& p, int row, int col, cta_memory& memory) {
  const place at;
  u32 wanted = all_rows;
  if constexpr (is_of_failed<P>) {
    wanted = wanted_rows(p, row + at.row, col + at.col);
    // The barrier also ends the tile before, whose strips are where the stages are.
    if (__syncthreads_or(wanted != 0) == 0) return;
  }
  accumulators sums{};
  multiply_steps<Parts>(p, row, col, wanted, memory, sums);
  ptx::bar_sync<0, threads>();  // the epilogue's strips overwrite the stages
  const output_store store(p);
  FOURSCALE_UNROLL
  for (int i = 0; i < row_blocks; ++i)
    if ((wanted >> i & 1) != 0)
      store.template outputs<warp_cols>(p, row + at.row + 16 * i, col + at.col, sums[i],
                                        reinterpret_cast<output_strip*>(memory.stage)[at.warp]);
}

}  // namespace FOURSCALE_NAMESPACE::mma::f16_tile
