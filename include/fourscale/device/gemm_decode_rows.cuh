// SPDX-License-Identifier: Apache-2.0
// decode_rows(): a CTA decodes eight rows of a packed operand, a warp each, in one pass along K: values to
// bf16 and, with `Certify`, what tells when their sums are exact (gemm_decode_facts.cuh). A warp reads parts
// of 16 steps ahead. After each two parts, a window, it knows its row's widths in these 32 steps. Behind a
// barrier it finds the row's magnitudes in the unit that the eight rows share, and its other bounds. Behind
// another one, the CTA stores the largest of the eight.
#pragma once

#include "../mma/codes_to_bf16.hpp"
#include "../ptx/arith.hpp"
#include "gemm_decode_facts.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// Eight codes times their scale, which is in both halves of a word: exact in bf16. A scale of 0 gives
/// zeros, a NaN scale NaNs.
FOURSCALE_D inline uint4 decode_eight(u32 codes, u32 scale) {
  constexpr u32 factor = 0x7e80'7e80u;  // codes_to_bf16() gives values 2^126 times too small
  u32 r[4];
  mma::codes_to_bf16(codes, r);
  FOURSCALE_UNROLL
  for (u32& x : r) x = ptx::mul_rn_bf16x2(ptx::mul_rn_bf16x2(x, factor), scale);
  return {r[0], r[1], r[2], r[3]};
}

/// Shared memory of one warp: a ring of parts of its row, and the scales of the groups of one part, each in
/// bf16 in both halves of a word. A lane reads 32 consecutive codes, but stores eight values of each quarter
/// of a part, so that a store of the warp writes 512 consecutive bytes.
struct decode_stage {
  static constexpr int parts = 4;  ///< two of a window that is decoded, and those on their way
  decode_input part[parts];
  uint2 scales[32];

  FOURSCALE_D static int before(int i) { return i == 0 ? parts - 1 : i - 1; }

  /// Leaves the lane's two scales for the warp. When it ends, no lane needs the part before any more.
  FOURSCALE_D void put(u32 const (&mine)[lane_groups]) {
    __syncwarp();
    scales[threadIdx.x % 32] = {ptx::prmt_b32(mine[0], 0, 0x3232u), ptx::prmt_b32(mine[1], 0, 0x3232u)};
    __syncwarp();
  }
  /// The lane's eight values of quarter `quarter` of a part, under the scales that put() has left.
  FOURSCALE_D uint4 decoded(decode_input const& part, int quarter) const {
    const u32 lane = threadIdx.x % 32;
    u32 const* const eights = reinterpret_cast<u32 const*>(part.codes) + lane;
    u32 const* const groups = reinterpret_cast<u32 const*>(scales) + lane / 2;
    return decode_eight(eights[32 * quarter], groups[16 * quarter]);
  }
  /// Decodes a part and stores it at `to`, but no more than `left` steps. All lanes call it.
  FOURSCALE_D void store(decode_input const& part, bf16* to, int left) const {
    constexpr int quarter = decode_steps / 4;  // in steps
    const u32 lane = threadIdx.x % 32;
    left -= static_cast<int>(lane / (mma::decoded_step / 8));
    to += 8 * lane;
    FOURSCALE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint4 eight = decoded(part, i);
      if (i * quarter < left) *reinterpret_cast<uint4*>(to + i * quarter * mma::decoded_step) = eight;
    }
  }
};

/// The shared memory of a CTA that decodes eight rows or takes a sample (gemm_way.cuh). A window's parts lie
/// in two neighbouring slots of the ring.
struct decode_memory {
  decode_stage stages[decode_warps];
  row_facts facts[decode_warps];
  rows_memory rows[2];
  magnitudes_memory magnitudes[window_parts];
};
static_assert(decode_stage::parts == 2 * window_parts);

/// What a lane has of its half of a step: its scales, as bits of floats, and their exponents in the lower two
/// bytes.
struct half_step {
  u32 scales[lane_groups], exponents;
};
/// Decodes the scales of a part that is there. With Certify it leaves facts in `to`, as part `i` of a window.
template <bool Certify, class F, class Layout>
FOURSCALE_D half_step look_at(row_reader<F, Layout> const& reader, decode_input const& part, row_facts& to,
                              int i) {
  const u32 lane = threadIdx.x % 32;
  const lane_scales scales = reader.scales_of(part.scales[lane]);
  if constexpr (Certify) to.put(i, half_facts<typename F::scale>(part.codes[lane], scales));
  return {{bit_cast<u32>(scales.of[0].value), bit_cast<u32>(scales.of[1].value)},
          ptx::prmt_b32(static_cast<u32>(scales.exponent(0)), static_cast<u32>(scales.exponent(1)), 0x0040u)};
}

/// A warp on its way along a row.
template <class F, class Layout>
struct row_decoder {
  row_reader<F, Layout> reader;
  decode_stage& stage;
  bf16* values;   ///< of the next part
  u8* exponents;  ///< of the lane's groups in it
  int left;       ///< steps from there on; 0 if there is no such row

  template <class To>
  FOURSCALE_D row_decoder(block_scaled_view<F, Layout, u8 const> const& q, To const& to, i64 row,
                          decode_stage& memory)
      : reader(q, row, static_cast<int>(threadIdx.x % 32) * lane_values),
        stage(memory),
        values(to.values + row * to.padded_k()),
        exponents(reinterpret_cast<u8*>(to.exponents) + row * to.row_exponents() +
                  lane_groups * (threadIdx.x % 32)),
        left(row < to.rows ? static_cast<int>(to.steps) : 0) {
    FOURSCALE_UNROLL
    for (int i = 0; i < stage.parts - 1; ++i) reader.start(stage.part[i]);
  }
  /// Decodes the next part, part `i` of a window, from this slot of the ring. `start_next`: asks for the part
  /// that comes into the slot before; else the caller does. With Certify it stores exponents, and leaves
  /// facts in `to`.
  template <bool Certify>
  FOURSCALE_D half_step next(int slot, int i, bool start_next, row_facts& to) {
    ptx::cp_async_wait_group<decode_stage::parts - 2>();
    decode_input const& part = stage.part[slot];
    const half_step half = look_at<Certify>(reader, part, to, i);
    stage.put(half.scales);
    if (start_next) reader.start(stage.part[stage.before(slot)]);
    stage.store(part, values, left);
    if (Certify && static_cast<int>(threadIdx.x % 32 / lanes_a_step) < left)
      *reinterpret_cast<u16*>(exponents) = static_cast<u16>(half.exponents);
    values += decode_steps * mma::decoded_step;
    exponents += 32 * lane_groups;
    left -= decode_steps;
    return half;
  }
};

/// What a warp has decoded of its row's window.
struct decoded_window {
  decode_input const* parts;     ///< its parts, in two slots of the ring
  half_step half[window_parts];  ///< the lane's, of each part
  int there;                     ///< how many parts the row has there
};

/// Finds the bounds of the warp's row, and its magnitudes in the unit that the CTA's eight rows share, from
/// its facts in each lane's step. All threads call it; behind it, those of all eight rows are there. `Steps`,
/// `before`: see bounds_of_row().
template <u32 Steps = window_steps>
FOURSCALE_D void find_bounds(model::value_facts const& facts, decoded_window const& mine, rows_memory& rows,
                             magnitudes_memory (&magnitudes)[window_parts], model::value_facts& before) {
  const u32 lane = threadIdx.x % 32;
  rows.put_width(facts);
  __syncthreads();
  const int unit = rows.unit_of(facts.lowest);
  FOURSCALE_UNROLL
  for (int i = 0; i < window_parts; ++i)
    if (i < mine.there)
      magnitudes[i].put(mine.parts[i].codes[lane], mine.half[i].scales,
                        __shfl_sync(~0u, unit, i * decode_steps + static_cast<int>(lane / lanes_a_step)));
  rows.put(bounds_of_row<Steps>(facts, before));
  __syncthreads();
}

/// A CTA that finds bounds and magnitudes of its eight rows, a window after the other.
template <class To>
struct facts_finder {
  To const& to;
  i64 row_group;
  u32 window = 0, steps;
  largest_word largest;
  u32* magnitudes;  ///< where the thread's word of the window's first part goes
  i64 part_stride;  ///< to that of the next part

  FOURSCALE_D facts_finder(To const& x, i64 of_rows)
      : to(x),
        row_group(of_rows),
        steps(static_cast<u32>(x.steps)),
        magnitudes(reinterpret_cast<u32*>(x.magnitudes + largest.step * x.row_groups() + of_rows) +
                   largest.word),
        part_stride(decode_steps * largest.in_step * x.row_groups()) {
    ptx::keep(part_stride);  // else it is found again for each part
  }

  /// Finds those of the next window from the facts that each warp has left for itself, and stores them.
  /// `before`: see bounds_of_row(). All threads call it.
  template <class Scale>
  FOURSCALE_D void next(decoded_window const& mine, decode_memory& m, model::value_facts& before) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 first = window * window_steps, step = first + lane;
    const bool there = step < steps;
    rows_memory& rows = m.rows[window % 2];
    model::value_facts facts = m.facts[warp].of_step<Scale>(there);
    if (step >= model::most_steps) facts.squares = model::value_facts::infinite();
    find_bounds(facts, mine, rows, m.magnitudes, before);
    if (window % decode_warps == warp && there) rows.store(to, row_group, step, lane);  // warps take turns
    FOURSCALE_UNROLL
    for (int i = 0; i < window_parts; ++i, magnitudes += part_stride)
      if (first + static_cast<u32>(i * decode_steps) + largest.step < steps)
        *magnitudes = largest.of(m.magnitudes[i]);
    ++window;
  }
};

/// Decodes eight rows of an operand to a decoded_operand or a part of one. All threads of a CTA call it, a
/// warp for each row. Without `Certify` no exponents are stored, and the bounds are zeros, which certify
/// every step.
template <bool Certify, class F, class Layout, class To>
FOURSCALE_D void decode_rows(block_scaled_view<F, Layout, u8 const> const& q, To const& to, i64 row_group,
                             decode_memory& m) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int steps = static_cast<int>(to.steps);
  decode_stage& stage = m.stages[warp];
  row_decoder<F, Layout> row(q, to, row_group * mma::bounds_rows + warp, stage);
  facts_finder<To> facts(to, row_group);
  model::value_facts before;
  for (int first = 0, slot = 0; first < steps; first += window_steps, slot ^= window_parts) {
    decoded_window mine{stage.part + slot, {}, ceil_div(steps - first, decode_steps)};
    FOURSCALE_UNROLL
    for (int i = 0; i < window_parts; ++i)
      if (i < mine.there)
        mine.half[i] = row.template next<Certify>(slot + i, i, !Certify || i == 0, m.facts[warp]);
    if constexpr (Certify) {
      facts.template next<typename F::scale>(mine, m, before);
      row.reader.start(stage.part[slot]);  // nobody needs that part any more
    } else if (warp == 0 && first + lane < steps) {
      to.bounds[to.bounds_at(row_group, first + lane)] = {};
    }
  }
}

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
