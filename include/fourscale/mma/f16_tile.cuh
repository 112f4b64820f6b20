// SPDX-License-Identifier: Apache-2.0
// A CTA's 128 x 128 tile of A * B^T with the bits of Blackwell's kind mxf8f6f4, on any GPU from sm_80 on. A
// step of K = 32 is a chain of two mma.sync from zero, or one chain for each part of B's elements, and one
// addition of the scaled sum to the accumulator, rounded toward zero. Each output has its own certificate.
// Outputs without one go to a list of the warp (f16_list.cuh).
//
// Sixteen warps take 32 x 32 outputs each. All threads copy steps with cp.async into three pipeline stages, a
// step ahead. Each stage has two mbarriers, so that a warp with outputs to make again holds up the others
// only when it is two steps behind.
#pragma once

#include "../ptx/bar.cuh"
#include "../ptx/cp_async.cuh"
#include "../ptx/mbarrier.cuh"
#include "f16_list.cuh"
#include "failed_strips.cuh"
#include "output_strip.cuh"
#include "ring.cuh"
#include "tile_walk.cuh"

namespace FOURSCALE_NAMESPACE::mma::f16_tile {

inline constexpr int stages = 3;

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

/// Shared memory of a CTA. In the epilogue, strips of outputs overwrite the stages.
struct cta_memory {
  u8 stage[stages][stage_bytes];
  block_numbers numbers[stages][tile_rows + tile_cols];  ///< of each stage: rows, then columns
  output_list lists[warps];
  u64 full[stages], empty[stages];  ///< mbarriers, where all threads arrive
};
static_assert(sizeof(output_strip) * warps <= sizeof(u8[stages][stage_bytes]));

/// All threads, before the first tile.
FOURSCALE_D inline void init_barriers(cta_memory& memory) {
  if (threadIdx.x == 0) {
    for (u64& x : memory.full) ptx::mbarrier_init(ptx::shared_address(&x), threads);
    for (u64& x : memory.empty) ptx::mbarrier_init(ptx::shared_address(&x), threads);
  }
  __syncthreads();
}

/// Where a warp is in the ring of stages. It goes on from tile to tile.
struct places_in_ring {
  ring<stages> to_copy, to_multiply;
};

/// Copies steps into stages: a thread copies 16 bytes of a row of A and of a row of B. In place of rows
/// beyond the operand it copies the last row; outputs of these are not stored.
struct step_copies {
  u8 const *a, *b;
  u32 to;

  FOURSCALE_D step_copies(f16_operand const& x, f16_operand const& y, int row, int col) {
    const u32 r = threadIdx.x / 4, chunk = threadIdx.x % 4;
    a = reinterpret_cast<u8 const*>(x.values + min(i64{row} + r, x.rows - 1) * x.padded_k()) + 16 * chunk;
    b = reinterpret_cast<u8 const*>(y.values + min(i64{col} + r, y.rows - 1) * y.padded_k()) + 16 * chunk;
    to = f16_chunk_place(r, chunk);
  }
  /// Starts the next step, into the stage at this shared address.
  FOURSCALE_D void start(u32 stage) {
    ptx::cp_async_cg_16(stage + to, a);
    ptx::cp_async_cg_16(stage + a_bytes + to, b);
    a += f16_row_bytes, b += f16_row_bytes;
  }
};
static_assert(threads == 4 * tile_rows && threads == 4 * tile_cols);

/// Reads the facts (block_word) of a row or column, step after step: a thread for each, other threads none.
struct facts_reader {
  u32 const* at;
  i64 rows;

  FOURSCALE_D facts_reader(f16_operand const& x, f16_operand const& y, int row, int col) {
    f16_operand const& of = is_of_a() ? x : y;
    at = of.facts + min(is_of_a() ? i64{row} + threadIdx.x : i64{col} + threadIdx.x - tile_rows, of.rows - 1);
    rows = of.rows;
  }
  FOURSCALE_D static bool reads() { return threadIdx.x < tile_rows + tile_cols; }
  FOURSCALE_D static bool is_of_a() { return threadIdx.x < tile_rows; }
  FOURSCALE_D u32 next() {
    const u32 word = *at;
    at += rows;
    return word;
  }
};

/// A thread's share of bringing steps into their stages, one after the other.
struct step_producer {
  step_copies copies;
  facts_reader facts;
  u32 next_facts;

  FOURSCALE_D step_producer(f16_operand const& a, f16_operand const& b, int row, int col)
      : copies(a, b, row, col), facts(a, b, row, col), next_facts(facts.next()) {}
  /// Starts to copy a step, as soon as all warps have left its stage, and writes its numbers. `more`: whether
  /// a step follows.
  FOURSCALE_D void start(cta_memory& memory, ring<stages> const& to, bool more) {
    ptx::mbarrier_wait(ptx::shared_address(&memory.empty[to.stage]), to.parity ^ 1);
    copies.start(ptx::shared_address(memory.stage[to.stage]));
    if (!facts_reader::reads()) return;
    memory.numbers[to.stage][threadIdx.x] = block_word(next_facts).numbers(facts.is_of_a());
    if (more) next_facts = facts.next();
  }
  /// Waits for this thread's copies, and says that they have landed.
  FOURSCALE_D static void finish(cta_memory& memory, ring<stages>& to) {
    ptx::cp_async_wait_all();
    ptx::mbarrier_arrive(ptx::shared_address(&memory.full[to.stage]));
    to.next();
  }
};

// ---------------------------------------------------------------- multiply

/// A's elements of the warp's rows in registers, and their reaches.
struct elements_of_a {
  u32 of[row_blocks][2][4], reaches[row_blocks][4];

  /// `rows`: shared address of a stage.
  FOURSCALE_D elements_of_a(u32 rows, place const& at) {
    FOURSCALE_UNROLL
    for (u32 i = 0; i < row_blocks * 2; ++i) {
      u32(&x)[4] = of[i / 2][i % 2];
      ptx::ldmatrix_m8n8_x4_b16(
          x, rows + f16_chunk_place(at.row + i / 2 * 16 + at.lane % 16, i % 2 * 2 + at.lane / 16));
      reaches[i / 2][i % 2 * 2] = reach::bytes(x[0], x[2]);
      reaches[i / 2][i % 2 * 2 + 1] = reach::bytes(x[1], x[3]);
      FOURSCALE_UNROLL
      for (u32& two : x) two &= reach::elements;
    }
  }
};
/// B's elements of eight columns: whole, or their first parts and the rest; and their reaches.
template <parts Parts>
struct elements_of_b {
  u32 first[4], rest[4], reaches[2];

  /// `rows`: shared address of B's part of a stage. `col`: the first of the columns, in the tile.
  FOURSCALE_D elements_of_b(u32 rows, u32 col, place const& at) {
    ptx::ldmatrix_m8n8_x4_b16(first, rows + f16_chunk_place(col + at.lane % 8, at.lane / 8));
    reaches[0] = reach::bytes(first[0], first[1]), reaches[1] = reach::bytes(first[2], first[3]);
    FOURSCALE_UNROLL
    for (u32& two : first) two &= reach::elements;
    if constexpr (Parts != parts::none) {
      FOURSCALE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const u32 whole = first[i];
        first[i] = first_parts<Parts>(whole);
        rest[i] = ptx::sub_rn_f16x2(whole, first[i]);
      }
    }
  }
};

/// The sums of products that four outputs of a lane need: of both parts of B's elements, and of reaches.
struct step_sums {
  float first[4] = {}, rest[4] = {};
  i32 reaches[4];

  template <parts Parts>
  FOURSCALE_D step_sums(elements_of_a const& a, u32 block, elements_of_b<Parts> const& b) {
    FOURSCALE_UNROLL
    for (int i = 0; i < 2; ++i) {
      ptx::mma_sync_m16n8k16_f16(first, a.of[block][i], b.first[2 * i], b.first[2 * i + 1]);
      if constexpr (Parts != parts::none)
        ptx::mma_sync_m16n8k16_f16(rest, a.of[block][i], b.rest[2 * i], b.rest[2 * i + 1]);
    }
    if constexpr (Parts != parts::none) {
      FOURSCALE_UNROLL
      for (i32& x : reaches) x = bit_cast<i32>(reach::none);
      ptx::mma_sync_m16n8k32_u8(reaches, a.reaches[block], b.reaches[0], b.reaches[1]);
    }
  }
};

/// Adds a step to the accumulator c of an output if it is certified, and returns whether it is. a, b: numbers
/// of the row and the column. `i`: which of the four outputs of `sums` it is.
template <parts Parts>
FOURSCALE_D bool add_certified(block_numbers const& a, block_numbers const& b, step_sums const& sums, int i,
                               float& c) {
  const float m = fabsf(c), below = a.below * b.below, whole = a.whole * b.whole;
  const float largest = fmaf(0.25f, m, whole);  // a quarter of the accumulator and of the largest product
  const float sum =
      (Parts == parts::none ? sums.first[i] : __fadd_rn(sums.first[i], sums.rest[i])) * (a.scale * b.scale);
  bool exact = mma::detail::is_whole(c, whole);
  if constexpr (Parts == parts::none) {
    exact = (largest < below) & exact;
  } else {
    const float r = reach::of_products(bit_cast<float>(sums.reaches[i]));
    exact = (largest * r < below) & exact;
    exact = (fabsf(sum) * r < below) & exact;
  }
  exact = (a.width < b.width) & exact;
  if (exact) c = ptx::add_rz_f32(c, sum);
  return exact;
}

/// Adds a step to a warp's accumulators where it is certified. Returns a bit for each other element.
template <parts Parts>
FOURSCALE_D u32 add_step(u8 const* stage, block_numbers const* numbers, place const& at, accumulators& sums) {
  const u32 rows = ptx::shared_address(stage);
  const elements_of_a a(rows, at);
  u32 without = 0;
  FOURSCALE_UNROLL
  for (u32 j = 0; j < col_blocks; ++j) {
    const elements_of_b<Parts> b(rows + a_bytes, at.col + 8 * j, at);
    block_numbers const* const of_cols = numbers + tile_rows + at.col + col_of(at.lane, 4 * j);
    const block_numbers cols[2] = {of_cols[0], of_cols[1]};
    FOURSCALE_UNROLL
    for (u32 i = 0; i < row_blocks; ++i) {
      const step_sums of_step(a, i, b);
      FOURSCALE_UNROLL
      for (u32 e = 0; e < 4; ++e) {
        const u32 element = 16 * i + 4 * j + e;
        if (!add_certified<Parts>(numbers[at.row + row_of(at.lane, element)], cols[e % 2], of_step,
                                  static_cast<int>(e), sums[i][4 * j + e]))
          without |= 1u << element;
      }
    }
  }
  return without;
}

// ---------------------------------------------------------------- tiles

/// Which of a warp's outputs are to be made, a bit for each 16 rows: those at (row, col) of D that have
/// failed.
template <class P>
FOURSCALE_D u32 wanted_rows(P const& p, i64 row, i64 col) {
  u32 wanted = 0;
  FOURSCALE_UNROLL
  for (u32 i = 0; i < row_blocks; ++i) {
    const i64 at = row + 16 * i;
    if (at < p.d.rows && col < p.d.cols && p.failed.of(at, col) != 0) wanted |= 1u << i;
  }
  return wanted;
}

inline constexpr u32 all_rows = (1u << row_blocks) - 1;

/// Adds the tile's steps to the sums, of a warp's outputs that are `wanted` at least: others, which another
/// kernel has made, have certificates, so that they are counted once. All threads of the CTA.
template <parts Parts, class P>
FOURSCALE_D void multiply_steps(P const& p, int row, int col, u32 wanted, cta_memory& memory,
                                places_in_ring& places, accumulators& sums) {
  const place at;
  const int steps = static_cast<int>(p.a.steps);
  auto& [to_copy, to_multiply] = places;
  step_producer producer(p.a, p.b, row, col);
  producer.start(memory, to_copy, steps > 1);
  producer.finish(memory, to_copy);
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) producer.start(memory, to_copy, step + 2 < steps);
    u8 const* const stage = memory.stage[to_multiply.stage];
    block_numbers const* const numbers = memory.numbers[to_multiply.stage];
    ptx::mbarrier_wait(ptx::shared_address(&memory.full[to_multiply.stage]), to_multiply.parity);
    const u32 without = wanted != 0 ? add_step<Parts>(stage, numbers, at, sums) : 0;
    if (step + 1 < steps) producer.finish(memory, to_copy);
    if (__any_sync(~0u, without != 0))
      add_others(p, {stage, numbers, static_cast<u32>(row), static_cast<u32>(col), step}, without,
                 memory.lists[at.warp], sums);
    ptx::mbarrier_arrive(ptx::shared_address(&memory.empty[to_multiply.stage]));
    to_multiply.next();
  }
}

/// The tile at (row, col) of D, by all threads. `Parts`: how B's elements are multiplied.
template <parts Parts, class P>
FOURSCALE_D void multiply(P const& p, int row, int col, cta_memory& memory, places_in_ring& places) {
  const place at;
  u32 wanted = all_rows;
  if constexpr (is_of_failed<P>) {
    wanted = wanted_rows(p, i64{row} + at.row, i64{col} + at.col);
    // The barrier also ends the tile before, whose strips are where the stages are.
    if (__syncthreads_or(wanted != 0) == 0) return;
  }
  accumulators sums{};
  multiply_steps<Parts>(p, row, col, wanted, memory, places, sums);
  ptx::bar_sync<0, threads>();  // the epilogue's strips overwrite the stages
  const output_store store(p);
  FOURSCALE_UNROLL
  for (u32 i = 0; i < row_blocks; ++i)
    if ((wanted >> i & 1) != 0)
      store.template outputs<warp_cols>(p, i64{row} + at.row + 16 * i, i64{col} + at.col, sums[i],
                                        reinterpret_cast<output_strip*>(memory.stage)[at.warp]);
}

}  // namespace FOURSCALE_NAMESPACE::mma::f16_tile
