// SPDX-License-Identifier: Apache-2.0
// decode_rows(): a CTA decodes eight rows of a packed operand, a warp each, in one pass along K: values to
// bf16 and, with `Certify`, what tells when their sums are exact (model/certificate.hpp). A warp reads parts
// of 16 steps ahead, and leaves facts about each step in shared memory. Behind a barrier, the CTA makes of
// these the bounds and the magnitudes that its eight rows share.
#pragma once

#include "../mma/codes_to_bf16.hpp"
#include "../ptx/arith.hpp"
#include "gemm_decode_input.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The magnitudes of eight codes of E2M1 as selectors of prmt: of the first four, and of the others.
struct selectors {
  u32 low, high;

  explicit FOURSCALE_D selectors(u32 codes) : low(codes & 0x7777'7777u), high(low >> 16) {}
};

/// The bitwise OR of the magnitudes of 16 codes, in halves, and the sum of their squares.
FOURSCALE_D inline model::code_facts facts_of_codes(selectors const& first, selectors const& second) {
  u32 const of_four[4] = {first.low, first.high, second.low, second.high};
  u32 any = 0, squares = 0;
  FOURSCALE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const u32 m = ptx::prmt_b32(0x0302'0100u, 0x0c08'0604u, of_four[i]);  // 0 to 12, a byte each
    any |= m;
    squares = __dp4a(m, m, squares);
  }
  any |= any >> 16;
  return {(any | any >> 8) & 0xfu, squares};
}

/// The magnitudes of a group's 16 values, looked up in `codes`, a byte each.
FOURSCALE_D inline uint4 magnitudes_of(selectors const& first, selectors const& second,
                                       model::magnitude_codes const& codes) {
  const auto look_up = [&](u32 selector) { return ptx::prmt_b32(codes.low, codes.high, selector); };
  return {look_up(first.low), look_up(first.high), look_up(second.low), look_up(second.high)};
}

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
  static constexpr int parts = 4;  ///< one that is decoded, and those on their way
  decode_input part[parts];
  uint2 scales[32];

  FOURSCALE_D static int after(int i) { return i == parts - 1 ? 0 : i + 1; }
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

/// What the warps of a CTA know of their rows' values in each step of a part. Magnitudes need the widths of
/// all eight rows, so these facts are found a part ahead, while the part before is decoded.
struct facts_memory {
  /// The facts of a lane's half of a step. Both halves lie side by side.
  struct alignas(8) half_facts {
    float squares;
    short lowest, largest_scale;

    FOURSCALE_D explicit operator model::value_facts() const {
      model::value_facts x;
      x.squares = squares, x.lowest = lowest, x.largest_scale = largest_scale;
      return x;
    }
  };
  half_facts halves[32 * decode_warps];      ///< [thread]; two neighbours have one step
  mma::bytes_of_eight widths[decode_steps];  ///< [step], a byte for each row

  /// The exponent of the unit in which the eight rows have their magnitudes in a step.
  FOURSCALE_D u32 magnitude_exponent(u32 step) const {
    return model::magnitude_exponent(widths[step].largest());
  }
};
/// What the CTA makes of these facts for its eight rows.
struct certify_memory {
  uint4 magnitudes[decode_warps][lane_groups][32];  ///< [row][group of the lane][lane]
  u32 bounds[decode_warps / 2][decode_steps];       ///< of two rows: width; span in the upper half
  u32 spans[decode_warps / 2][decode_steps];        ///< of two rows: accumulator_bounds::span
  mma::bytes_of_eight depths[decode_steps];         ///< accumulator_bounds::depth of each row
};

/// Which word of step_magnitudes a thread makes for the eight rows: of which step of a part, which one.
struct largest_word {
  static constexpr int in_step = sizeof(model::step_magnitudes) / 4;
  static_assert(decode_steps * in_step == 32 * decode_warps);
  u32 step = threadIdx.x / in_step, word = threadIdx.x % in_step;

  /// The largest of the eight rows, byte by byte.
  FOURSCALE_D u32 of(certify_memory const& rows) const {
    const u32 group = word / 4, lane = lanes_a_step * step + group / lane_groups;
    u32 x[decode_warps];
    FOURSCALE_UNROLL
    for (int i = 0; i < decode_warps; ++i)
      x[i] = reinterpret_cast<u32 const*>(&rows.magnitudes[i][group % lane_groups][lane])[word % 4];
    return mma::largest_bytes(x);
  }
};

/// Finds the bounds of a part's steps, by the first 128 threads: each has one step of one row, 16 threads a
/// row. `before`: the facts of the row before this part, then those with it. `any_certified`: false where K
/// is too long to certify a step. Each `Steps` of the 16 are a row of their own: gemm_decode_short.cuh.
template <u32 Steps = decode_steps>
FOURSCALE_D void find_bounds(facts_memory const& known, certify_memory& of_rows, bool any_certified,
                             model::value_facts& before) {
  const u32 mine = threadIdx.x, step = mine % decode_steps;
  if (mine >= decode_warps * decode_steps) return;
  model::value_facts facts;
  FOURSCALE_UNROLL
  for (u32 i = 0; i < lanes_a_step; ++i) facts.add(model::value_facts(known.halves[lanes_a_step * mine + i]));
  if (!any_certified) facts.squares = model::value_facts::infinite();
  // An inclusive scan over the steps of a row, then the exclusive one.
  float squares = facts.squares;
  int lowest = facts.lowest;
  FOURSCALE_UNROLL
  for (u32 distance = 1; distance < Steps; distance *= 2) {
    const float other_squares = __shfl_up_sync(~0u, squares, distance, decode_steps);
    const int other_lowest = __shfl_up_sync(~0u, lowest, distance, decode_steps);
    squares += step % Steps >= distance ? other_squares : 0.0f;
    lowest = min(lowest, step % Steps >= distance ? other_lowest : lowest);
  }
  model::value_facts mine_before = before;
  const float other_squares = __shfl_up_sync(~0u, squares, 1, decode_steps);
  const int other_lowest = __shfl_up_sync(~0u, lowest, 1, decode_steps);
  mine_before.squares += step % Steps > 0 ? other_squares : 0.0f;
  mine_before.lowest = min(before.lowest, step % Steps > 0 ? other_lowest : before.lowest);
  before.squares += __shfl_sync(~0u, squares, decode_steps - 1, decode_steps);
  before.lowest = min(before.lowest, __shfl_sync(~0u, lowest, decode_steps - 1, decode_steps));

  const auto of_two = [](u32 low, u32 high) {
    const u32 of_row = low | high << 16;
    return __vmaxu2(of_row, __shfl_xor_sync(~0u, of_row, decode_steps));
  };
  const model::known_bounds bounds =
      bounds_of_step(facts, mine_before, known.widths[step].of_row[mine / decode_steps]);
  const u32 first = of_two(bounds.step.width, bounds.step.span);
  const u32 second = of_two(bounds.of_accumulators.span, 0);
  of_rows.depths[step].of_row[mine / decode_steps] = bounds.of_accumulators.depth;
  if (mine % 32 < decode_steps) {
    of_rows.bounds[mine / 32][step] = first;
    of_rows.spans[mine / 32][step] = second;
  }
}

/// Stores the largest bounds of eight rows in a step, number `mine` of its part. One thread.
template <class To>
FOURSCALE_D void store_bounds_of(To const& to, i64 row_group, int step, certify_memory const& of_rows,
                                 int mine) {
  u32 first_two = 0, span = 0;
  for (auto const& of_two : of_rows.bounds) first_two = __vmaxu2(first_two, of_two[mine]);
  for (auto const& of_two : of_rows.spans) span = max(span, of_two[mine]);
  const i64 at = to.bounds_at(row_group, step);
  to.bounds[at] = {static_cast<u8>(first_two), static_cast<u8>(first_two >> 16)};
  mma::bytes_of_eight const& depths = of_rows.depths[mine];
  to.of_accumulators[at] = {static_cast<u8>(span), depths.largest()};
  to.depths[step * to.row_groups() + row_group] = depths;
}
/// The same for the part that begins with step `first`, by 16 of the threads that do not find bounds.
template <class To>
FOURSCALE_D void store_bounds(To const& to, i64 row_group, int first, certify_memory const& of_rows) {
  const int mine = static_cast<int>(threadIdx.x) - decode_warps * decode_steps, step = first + mine;
  if (mine < 0 || mine >= decode_steps || step >= static_cast<int>(to.steps)) return;
  store_bounds_of(to, row_group, step, of_rows, mine);
}

/// What a lane knows of its half of a step: its scales, as bits of floats, and their exponents in the lower
/// two bytes; with Certify, the exponent of the lowest bit of the whole step.
struct half_step {
  u32 scales[lane_groups];
  u32 exponents;
  int lowest;

  FOURSCALE_D explicit half_step(model::scale_parts const (&of)[lane_groups]) : lowest(0) {
    u32 two[lane_groups];
    FOURSCALE_UNROLL
    for (int i = 0; i < lane_groups; ++i) {
      scales[i] = bit_cast<u32>(of[i].value);
      two[i] = static_cast<u32>(of[i].nan ? mma::nan_exponent : of[i].exponent);
    }
    exponents = ptx::prmt_b32(two[0], two[1], 0x0040u);
  }
};
/// Decodes the scales of a part that is there. With Certify it leaves facts in `known`. All lanes call it.
template <bool Certify, class F, class Layout>
FOURSCALE_D half_step look_at(row_reader<F, Layout> const& reader, decode_input const& part,
                              facts_memory* known) {
  const u32 word = part.scales[threadIdx.x % 32];
  const model::scale_parts scales[lane_groups] = {model::scale_parts(reader.scale(word, 0)),
                                                  model::scale_parts(reader.scale(word, 1))};
  half_step half(scales);
  if constexpr (Certify) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint4 x = part.codes[lane];
    model::value_facts facts(facts_of_codes(selectors(x.x), selectors(x.y)), scales[0]);
    facts.add(model::value_facts(facts_of_codes(selectors(x.z), selectors(x.w)), scales[1]));
    known->halves[threadIdx.x] = {facts.squares, static_cast<short>(facts.lowest),
                                  static_cast<short>(facts.largest_scale)};
    facts.squares += __shfl_xor_sync(~0u, facts.squares, 1);
    half.lowest = facts.lowest = min(facts.lowest, __shfl_xor_sync(~0u, facts.lowest, 1));
    if (lane % lanes_a_step == 0) known->widths[lane / lanes_a_step].of_row[warp] = width_of(facts);
  }
  return half;
}

/// Leaves magnitudes of a lane's values, over their row's lowest bit, in units that all eight rows share.
FOURSCALE_D inline void leave_magnitudes(decode_input const& part, half_step const& half,
                                         facts_memory const& known, certify_memory& of_rows) {
  const u32 lane = threadIdx.x % 32;
  const uint4 x = part.codes[lane];
  const int unit = half.lowest + static_cast<int>(known.magnitude_exponent(lane / lanes_a_step));
  const auto leave = [&](int i, u32 first, u32 second) {
    of_rows.magnitudes[threadIdx.x / 32][i][lane] = magnitudes_of(
        selectors(first), selectors(second), model::magnitude_codes(bit_cast<float>(half.scales[i]), unit));
  };
  leave(0, x.x, x.y), leave(1, x.z, x.w);
}

/// Decodes eight rows of an operand to a decoded_operand or a part of one. All threads of a CTA call it, a
/// warp for each row. In shared memory: stages[decode_warps], known[3], of_rows[2]. Without `Certify` no
/// exponents are stored, and the bounds are zeros, which certify every step.
template <bool Certify, class F, class Layout, class To>
FOURSCALE_D void decode_rows(block_scaled_view<F, Layout, u8 const> const& q, To const& to, i64 row_group,
                             decode_stage* stages, facts_memory* known, certify_memory* of_rows) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const i64 row = row_group * mma::bounds_rows + warp;
  const int steps = static_cast<int>(to.steps);
  bf16* values = to.values + row * to.padded_k();
  u8* exponents = reinterpret_cast<u8*>(to.exponents) + row * to.row_exponents() + lane_groups * lane;
  const largest_word largest;
  u32* magnitudes =
      reinterpret_cast<u32*>(to.magnitudes + largest.step * to.row_groups() + row_group) + largest.word;
  int left = row < to.rows ? steps : 0;
  model::value_facts before;
  row_reader<F, Layout> reader(q, row, static_cast<int>(lane) * lane_values);
  decode_stage& stage = stages[warp];
  FOURSCALE_UNROLL
  for (int i = 0; i < stage.parts - 1; ++i) reader.start(stage.part[i]);
  ptx::cp_async_wait_group<stage.parts - 2>();
  half_step half = look_at<Certify>(reader, stage.part[0], known);
  if constexpr (Certify) __syncthreads();
  int turn = 0;  // this part's slot of `known`; the next part has one, and others may still read the last
  int at = 0;    // this part's slot of the stage
  for (int first = 0; first < steps; first += decode_steps) {
    stage.put(half.scales);
    reader.start(stage.part[stage.before(at)]);
    decode_input const& x = stage.part[at];
    at = stage.after(at);
    stage.store(x, values, left);
    values += decode_steps * mma::decoded_step;
    facts_memory const& now = known[turn];
    turn = turn == 2 ? 0 : turn + 1;
    if constexpr (Certify) {
      if (static_cast<int>(lane / lanes_a_step) < left)
        *reinterpret_cast<u16*>(exponents) = static_cast<u16>(half.exponents);
      certify_memory& of_eight = of_rows[first / decode_steps % 2];
      leave_magnitudes(x, half, now, of_eight);
      ptx::cp_async_wait_group<stage.parts - 2>();
      if (first + decode_steps < steps) half = look_at<Certify>(reader, stage.part[at], known + turn);
      __syncthreads();
      if (first + static_cast<int>(largest.step) < steps) *magnitudes = largest.of(of_eight);
      find_bounds(now, of_eight, first < model::most_steps, before);
      if (first > 0)
        store_bounds(to, row_group, first - decode_steps, of_rows[(first / decode_steps + 1) % 2]);
      exponents += 32 * lane_groups;
      magnitudes += decode_steps * largest.in_step * to.row_groups();
    } else {
      ptx::cp_async_wait_group<stage.parts - 2>();
      half = look_at<Certify>(reader, stage.part[at], known);
      if (warp == 0 && lane < decode_steps && first + static_cast<int>(lane) < steps)
        to.bounds[to.bounds_at(row_group, first + lane)] = {};
    }
    left -= decode_steps;
  }
  if constexpr (Certify) {
    __syncthreads();
    const int last = (steps - 1) / decode_steps;
    store_bounds(to, row_group, last * decode_steps, of_rows[last % 2]);
  }
}

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
