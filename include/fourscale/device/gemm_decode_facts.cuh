// SPDX-License-Identifier: Apache-2.0
// What decoding finds besides values (model/certificate.hpp). Each lane finds facts of half a step; from
// these a warp finds the bounds of its row, 32 steps at a time, a lane each. Of eight rows the CTA stores the
// largest. Magnitudes are in a unit that eight rows share, so they need the widths of all eight first.
#pragma once

#include "../ptx/shfl.cuh"
#include "gemm_decode_input.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

inline constexpr int window_parts = 2;  ///< parts of a row whose bounds are found together
inline constexpr u32 window_steps = window_parts * decode_steps;
static_assert(window_steps == 32, "A lane has a step of the window.");

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

/// What a lane knows of its half of a step. Values under scales of E4M3 are whole numbers in units of 2^-10,
/// below 2^22: the lowest bit of several is that of their bitwise OR.
template <class Scale>
struct alignas(8) half_facts {
  static constexpr bool in_units = same_type<Scale, e4m3>;
  float squares;  ///< model::value_facts::squares; in_units four times that
  u32 others;     ///< a signed byte, largest_scale; from bit 8 on `lowest`, or in_units that OR

  half_facts() = default;
  FOURSCALE_D half_facts(uint4 const& codes, lane_scales const& scales) {
    model::code_facts const of[lane_groups] = {facts_of_codes(selectors(codes.x), selectors(codes.y)),
                                               facts_of_codes(selectors(codes.z), selectors(codes.w))};
    model::value_facts all;
    u32 any = 0;
    FOURSCALE_UNROLL
    for (int i = 0; i < lane_groups; ++i) {
      if constexpr (in_units) {
        const float scale = scales.of[i].value, shifted = scale + 0x1p14f;  // a float of which bit 0 is 2^-9
        any |= (bit_cast<u32>(shifted) - bit_cast<u32>(0x1p14f)) * of[i].bits;
        all.squares = ptx::fma_rn_f32(static_cast<float>(of[i].squares), scale * scale, all.squares);
        all.largest_scale = max(all.largest_scale, scales.exponent(i));
      } else {
        all.add(model::value_facts(of[i], scales.of[i]));
        any = static_cast<u32>(all.lowest);
      }
    }
    squares = all.squares;
    others = ptx::prmt_b32(any, static_cast<u32>(all.largest_scale), 0x2104u);
  }
  /// The facts of both halves of a step.
  FOURSCALE_D static model::value_facts of_step(half_facts const& x, half_facts const& y) {
    const auto signed_byte = [](u32 of) { return static_cast<int>(static_cast<signed char>(of)); };
    model::value_facts step;
    step.largest_scale = max(signed_byte(x.others), signed_byte(y.others));
    step.squares = x.squares + y.squares;
    if constexpr (in_units) {
      step.squares *= 0.25f;
      const u32 any = (x.others | y.others) >> 8;
      if (any != 0) step.lowest = model::detail::lowest_bit(any) - 10;
    } else {
      step.lowest = min(static_cast<int>(x.others) >> 8, static_cast<int>(y.others) >> 8);
    }
    return step;
  }
};
/// The facts of a warp's row in a window of steps. Both halves of a step lie side by side.
struct alignas(16) row_facts {
  uint2 halves[lanes_a_step * window_steps];  ///< half_facts each

  /// Leaves those of the lane's half of a step, in part `part` of the window.
  template <class Scale>
  FOURSCALE_D void put(int part, half_facts<Scale> const& x) {
    halves[32 * part + static_cast<int>(threadIdx.x) % 32] = bit_cast<uint2>(x);
  }
  /// The facts of a lane's step; none if it is not `there`, but behind the row's end.
  template <class Scale>
  FOURSCALE_D model::value_facts of_step(bool there) const {
    static_assert(lanes_a_step == 2);
    if (!there) return {};
    const uint4 x = reinterpret_cast<uint4 const*>(halves)[threadIdx.x % 32];
    using half = half_facts<Scale>;
    return half::of_step(bit_cast<half>(uint2{x.x, x.y}), bit_cast<half>(uint2{x.z, x.w}));
  }
};

/// The bounds of one row in one step: model::step_bounds, then model::accumulator_bounds.
struct alignas(4) bounds_word {
  u8 width, span, accumulator_span, depth;
};

/// The bounds of a lane's step, from its facts and those of the lanes before. `before`: the facts of the row
/// before these steps, then those with them. Each `Steps` lanes have a row of their own:
/// gemm_decode_short.cuh.
template <u32 Steps = window_steps>
FOURSCALE_D bounds_word bounds_of_row(model::value_facts const& facts, model::value_facts& before) {
  // An inclusive scan over the steps of a row, then the exclusive one.
  float squares = facts.squares;
  int lowest = facts.lowest;
  FOURSCALE_UNROLL
  for (u32 distance = 1; distance < Steps; distance *= 2) {
    ptx::add_shfl_up<Steps>(squares, squares, distance);
    ptx::min_shfl_up<Steps>(lowest, lowest, distance);
  }
  model::value_facts mine_before = before;
  ptx::add_shfl_up<Steps>(mine_before.squares, squares, 1);
  ptx::min_shfl_up<Steps>(mine_before.lowest, lowest, 1);
  before.squares += __shfl_sync(~0u, squares, 31);
  before.lowest = min(before.lowest, __shfl_sync(~0u, lowest, 31));
  const model::known_bounds x = bounds_of_step(facts, mine_before, width_of(facts));
  return {x.step.width, x.step.span, x.of_accumulators.span, x.of_accumulators.depth};
}

/// What the CTA knows of its eight rows in a window of steps.
struct rows_memory {
  u32 bounds[decode_warps][window_steps];    ///< a bounds_word each
  mma::bytes_of_eight widths[window_steps];  ///< model::width_of() each row

  /// Leaves the bounds of the warp's row in each lane's step.
  FOURSCALE_D void put(bounds_word const& x) {
    bounds[threadIdx.x / 32][threadIdx.x % 32] = bit_cast<u32>(x);
  }
  /// Leaves the width of the warp's row in each lane's step.
  FOURSCALE_D void put_width(model::value_facts const& x) {
    widths[threadIdx.x % 32].of_row[threadIdx.x / 32] = width_of(x);
  }
  /// The exponent of the unit in which the warp's row has its magnitudes in each lane's step. `lowest`: that
  /// of the row's facts there.
  FOURSCALE_D int unit_of(int lowest) const {
    return lowest + static_cast<int>(model::magnitude_exponent(widths[threadIdx.x % 32].largest()));
  }
  /// Stores the largest bounds of the eight rows in `step`, which is lane `at` of the window.
  template <class To>
  FOURSCALE_D void store(To const& to, i64 row_group, i64 step, u32 at) const {
    u32 x[decode_warps];
    FOURSCALE_UNROLL
    for (int i = 0; i < decode_warps; ++i) x[i] = bounds[i][at];
    const auto depths = [&](int i) {  // of four rows
      const u32 two = ptx::prmt_b32(x[i], x[i + 1], 0x73u);
      return ptx::prmt_b32(two, ptx::prmt_b32(x[i + 2], x[i + 3], 0x73u), 0x5410u);
    };
    const u32 largest = mma::largest_bytes(x);
    const i64 place = to.bounds_at(row_group, step);
    reinterpret_cast<u16*>(to.bounds)[place] = static_cast<u16>(largest);
    reinterpret_cast<u16*>(to.of_accumulators)[place] = static_cast<u16>(largest >> 16);
    reinterpret_cast<uint2*>(to.depths)[step * to.row_groups() + row_group] = {depths(0), depths(4)};
  }
};

/// The magnitudes of eight rows in a part, to find the largest of the eight.
struct magnitudes_memory {
  uint4 of[decode_warps][lane_groups][32];  ///< [row][group of the lane][lane]

  /// Leaves those of a lane's values. `scales`: bits of floats. `unit`: that of the lane's half of a step,
  /// from rows_memory::unit_of().
  FOURSCALE_D void put(uint4 const& codes, u32 const (&scales)[lane_groups], int unit) {
    const auto leave = [&](int i, u32 first, u32 second) {
      const model::magnitude_codes table(bit_cast<float>(scales[i]), unit);
      const auto look_up = [&](u32 selector) { return ptx::prmt_b32(table.low, table.high, selector); };
      const selectors a(first), b(second);
      of[threadIdx.x / 32][i][threadIdx.x % 32] = {look_up(a.low), look_up(a.high), look_up(b.low),
                                                   look_up(b.high)};
    };
    leave(0, codes.x, codes.y), leave(1, codes.z, codes.w);
  }
};

/// Which word of step_magnitudes a thread makes for the eight rows: of which step of a part, which one.
struct largest_word {
  static constexpr int in_step = sizeof(model::step_magnitudes) / 4;
  static_assert(decode_steps * in_step == 32 * decode_warps);
  u32 step = threadIdx.x / in_step, word = threadIdx.x % in_step;
  u32 place;  ///< of that word among the first row's magnitudes

  FOURSCALE_D largest_word() {
    constexpr u32 words = sizeof(uint4) / 4;
    const u32 group = word / words, lane = lanes_a_step * step + group / lane_groups;
    place = (group % lane_groups * 32 + lane) * words + word % words;
    ptx::keep(place);  // else it is found again for each part
  }
  /// The largest of the eight rows, byte by byte.
  FOURSCALE_D u32 of(magnitudes_memory const& rows) const {
    u32 x[decode_warps];
    FOURSCALE_UNROLL
    for (int i = 0; i < decode_warps; ++i) x[i] = reinterpret_cast<u32 const*>(rows.of[i])[place];
    return mma::largest_bytes(x);
  }
};

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
