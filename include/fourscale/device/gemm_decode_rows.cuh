// SPDX-License-Identifier: Apache-2.0
// Eight rows of a packed operand to their decoded form, bounds included where they are needed, in one pass.
#pragma once

#include "../mma/codes_to_bf16.hpp"
#include "../mma/decoded_operand.cuh"
#include "../ptx/mma_sync_f16.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

inline constexpr int decode_warps = mma::bounds_rows;  ///< a warp takes a row
inline constexpr int lane_values = 32;                 ///< that a lane takes at a time, in groups of 16
inline constexpr int lane_groups = lane_values / mma::group_values;
inline constexpr int lanes_a_step = mma::decoded_step / lane_values;
inline constexpr int decode_steps = 32 / lanes_a_step;  ///< that a warp takes at a time
static_assert(lane_groups == 2 && lanes_a_step == 2);

/// Magnitudes of eight codes as what __byte_perm selects by: the first four, and the others.
struct selectors {
  u32 low, high;

  explicit FOURSCALE_D selectors(u32 codes) : low(codes & 0x7777'7777u), high(low >> 16) {}
};

/// Every bit that a magnitude of 16 codes has, in halves, and the sum of their squares.
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

/// Codes of the magnitudes of a group's 16 values, a byte each.
FOURSCALE_D inline uint4 magnitudes_of(selectors const& first, selectors const& second,
                                       model::magnitude_codes const& codes) {
  const auto look_up = [&](u32 selector) { return ptx::prmt_b32(codes.low, codes.high, selector); };
  return {look_up(first.low), look_up(first.high), look_up(second.low), look_up(second.high)};
}

/// Eight codes times their scale, which is in both halves of a word: exact in bf16, 0 gives zeros, and NaN
/// NaNs.
FOURSCALE_D inline uint4 decode_eight(u32 codes, u32 scale) {
  constexpr u32 factor = 0x7e80'7e80u;  // 2^126, which codes_to_bf16 leaves out
  u32 r[4];
  mma::codes_to_bf16(codes, r);
  FOURSCALE_UNROLL
  for (u32& x : r) x = ptx::mul_rn_bf16x2(ptx::mul_rn_bf16x2(x, factor), scale);
  return {r[0], r[1], r[2], r[3]};
}

/// What a warp has of its row at a time: all codes, and the scales of groups in bf16. Lanes take 32 codes in
/// a row, but store eight values of each quarter, so that a store of the warp writes 512 bytes in a row.
struct decode_stage {
  uint4 codes[32];
  u32 scales[32];  ///< two each

  /// Decodes and stores a lane's codes, and others', up to `left` steps.
  FOURSCALE_D void store(u32 const (&mine)[2 * lane_groups], u32 mine_scales, bf16* to, int left) {
    constexpr int quarter = decode_steps / 4;  // in steps
    const u32 lane = threadIdx.x % 32;
    __syncwarp();
    codes[lane] = {mine[0], mine[1], mine[2], mine[3]};
    scales[lane] = mine_scales;
    __syncwarp();
    u32 const* const eights = reinterpret_cast<u32 const*>(codes) + lane;
    u16 const* const groups = reinterpret_cast<u16 const*>(scales) + lane / 2;
    left -= static_cast<int>(lane / (mma::decoded_step / 8));
    to += 8 * lane;
    FOURSCALE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint4 eight = decode_eight(eights[32 * i], ptx::prmt_b32(groups[16 * i], 0, 0x1010u));
      if (i * quarter < left) *reinterpret_cast<uint4*>(to + i * quarter * mma::decoded_step) = eight;
    }
  }
};

/// What a lane takes of a row: 32 codes, and the scales of two groups or, in one word, of a whole step; zeros
/// beyond the matrix. Nothing is done with them until they are used, so that they can be on their way.
struct decode_input {
  u32 codes[4] = {};
  u32 scales[lane_groups] = {};
  int left = 0;  ///< columns from here on
};

/// Reads a lane's part of a row, from column `col` on, 32 times `lane_values` codes after the other.
template <class F, class Layout>
struct row_reader {
  static constexpr int together = 32 * lane_values, blocks_together = together / F::block_size;
  /// Scales in these layouts are as far apart everywhere, four blocks and two in a lane: addresses are added.
  static constexpr bool has_strides = same_type<Layout, linear> || same_type<Layout, swizzled_128x4>;
  static constexpr i64 stride = Layout::offset(0, blocks_together, 0) - Layout::offset(0, 0, 0);
  static_assert(!has_strides || (blocks_together % 4 == 0 && Layout::offset(0, 1, 0) == 1));

  block_scaled_view<F, Layout, u8 const> const& q;
  u8 const *codes, *scales;
  i64 row;
  int col, left;
  bool wide;         ///< codes can be read 16 bytes at a time
  bool wide_scales;  ///< a step's can, four in a word, of which the lane has two
  u32 first_bit;     ///< where they are in it

  FOURSCALE_D row_reader(block_scaled_view<F, Layout, u8 const> const& from, i64 of_row, int first)
      : q(from),
        codes(q.codes + of_row * (q.cols / 2) + first / 2),
        scales(q.scales + q.scale_offset(of_row, first / F::block_size)),
        row(of_row),
        col(first),
        left(of_row < q.rows ? static_cast<int>(q.cols) - col : 0),
        wide(reinterpret_cast<u64>(q.codes) % 16 == 0 && q.cols % lane_values == 0),
        wide_scales(has_strides && F::block_size == mma::group_values &&
                    reinterpret_cast<u64>(scales - first_scale(first)) % 4 == 0 &&
                    (!same_type<Layout, linear> || q.cols % mma::decoded_step == 0)),
        first_bit(8 * static_cast<u32>(first_scale(first))) {
    if (wide_scales) scales -= first_scale(first);
  }

  FOURSCALE_D decode_input next() {
    decode_input x;
    if (left > 0) read(x);
    codes += together / 2, scales += stride, col += together, left -= together;
    return x;
  }
  FOURSCALE_D typename F::scale scale(decode_input const& x, int i) const {
    const u32 word =
        wide_scales ? x.scales[0] >> (first_bit + 8 * i) : x.scales[F::block_size == lane_values ? 0 : i];
    return {static_cast<u8>(mma::group_values * i < x.left ? word : 0u)};
  }

 private:
  FOURSCALE_D static int first_scale(int column) { return column / lane_values % lanes_a_step * lane_groups; }
  FOURSCALE_D void read(decode_input& x) const {
    if (wide) {
      const uint4 words = *reinterpret_cast<uint4 const*>(codes);
      x.codes[0] = words.x, x.codes[1] = words.y, x.codes[2] = words.z, x.codes[3] = words.w;
    } else {
#pragma unroll 1
      for (int i = 0; i < lane_values / 2 && 2 * i < left; ++i) {
        const u32 byte = u32{codes[i]} << (8 * (i % 4));
        FOURSCALE_UNROLL
        for (int k = 0; k < 4; ++k) x.codes[k] |= k == i / 4 ? byte : 0u;
      }
    }
    x.left = left;
    const bool has_second = left > mma::group_values && F::block_size == mma::group_values;
    if (wide_scales) {
      x.scales[0] = *reinterpret_cast<u32 const*>(scales);
    } else if constexpr (has_strides) {
      x.scales[0] = scales[0];
      if (has_second) x.scales[1] = scales[1];
    } else {
      x.scales[0] = q.load_scale(row, col / F::block_size).bits;
      if (has_second) x.scales[1] = q.load_scale(row, col / F::block_size + 1).bits;
    }
  }
};

/// What the warps of a CTA know of their rows' values in each step. Magnitudes need the widths of all eight
/// rows, and so it is found while the steps before are decoded.
struct facts_memory {
  /// What a lane knows of its half of a step; both halves side by side.
  struct alignas(8) half_facts {
    float squares;
    short lowest, largest_scale;

    FOURSCALE_D explicit operator model::value_facts() const {
      model::value_facts x;
      x.squares = squares, x.lowest = lowest, x.largest_scale = largest_scale;
      return x;
    }
  };
  half_facts halves[decode_warps][decode_steps][lanes_a_step];
  mma::bytes_of_eight widths[decode_steps];

  /// The unit of the magnitudes that eight rows have in a step.
  FOURSCALE_D u32 magnitude_exponent(u32 step) const {
    return model::magnitude_exponent(widths[step].largest());
  }
};
/// And what is made of it for eight rows.
struct certify_memory {
  uint4 magnitudes[decode_warps][lane_groups][32];
  u32 bounds[decode_warps / 2][decode_steps];  ///< of two rows: width, and span in the upper half
  u32 spans[decode_warps / 2][decode_steps];   ///< the same: those of accumulator_bounds
  mma::bytes_of_eight depths[decode_steps];
};

/// Which word of its warps' magnitudes a thread makes those of eight rows: of which step, which one.
struct largest_word {
  static constexpr int in_step = sizeof(model::step_magnitudes) / 4;
  static_assert(decode_steps * in_step == 32 * decode_warps);
  u32 step = threadIdx.x / in_step, word = threadIdx.x % in_step;

  FOURSCALE_D u32 of(certify_memory const& rows) const {
    const u32 group = word / 4, lane = lanes_a_step * step + group / lane_groups;
    u32 x[decode_warps];
    FOURSCALE_UNROLL
    for (int i = 0; i < decode_warps; ++i)
      x[i] = reinterpret_cast<u32 const*>(&rows.magnitudes[i][group % lane_groups][lane])[word % 4];
    return mma::largest_bytes(x);
  }
};

/// Bounds of the warps' steps. A thread has a step of a row, 16 threads a row; `before` is what the row had
/// before the warps' steps, and then after them.
FOURSCALE_D inline void find_bounds(facts_memory const& known, certify_memory& of_rows, bool any_certified,
                                    model::value_facts& before) {
  const u32 mine = threadIdx.x, step = mine % decode_steps;
  if (mine >= decode_warps * decode_steps) return;
  model::value_facts facts;
  for (auto const& half : known.halves[mine / decode_steps][step]) facts.add(model::value_facts(half));
  if (!any_certified) facts.squares = model::value_facts::infinite();
  // Of this step and those before it, then of those before it.
  float squares = facts.squares;
  int lowest = facts.lowest;
  FOURSCALE_UNROLL
  for (u32 distance = 1; distance < decode_steps; distance *= 2) {
    const float other_squares = __shfl_up_sync(~0u, squares, distance, decode_steps);
    const int other_lowest = __shfl_up_sync(~0u, lowest, distance, decode_steps);
    squares += step >= distance ? other_squares : 0.0f;
    lowest = min(lowest, step >= distance ? other_lowest : lowest);
  }
  model::value_facts mine_before = before;
  const float other_squares = __shfl_up_sync(~0u, squares, 1, decode_steps);
  const int other_lowest = __shfl_up_sync(~0u, lowest, 1, decode_steps);
  mine_before.squares += step > 0 ? other_squares : 0.0f;
  mine_before.lowest = min(before.lowest, step > 0 ? other_lowest : before.lowest);
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

/// The largest bounds of eight rows in the warps' steps from `first` on, by the threads that do not find
/// bounds.
FOURSCALE_D inline void store_bounds(mma::decoded_operand const& to, i64 row_group, int first,
                                     certify_memory const& of_rows) {
  const int mine = static_cast<int>(threadIdx.x) - decode_warps * decode_steps, step = first + mine;
  if (mine < 0 || mine >= decode_steps || step >= static_cast<int>(to.steps)) return;
  u32 first_two = 0, span = 0;
  for (auto const& of_two : of_rows.bounds) first_two = __vmaxu2(first_two, of_two[mine]);
  for (auto const& of_two : of_rows.spans) span = max(span, of_two[mine]);
  const i64 at = to.bounds_at(row_group, step);
  to.bounds[at] = {static_cast<u8>(first_two), static_cast<u8>(first_two >> 16)};
  mma::bytes_of_eight const& depths = of_rows.depths[mine];
  to.of_accumulators[at] = {static_cast<u8>(span), depths.largest()};
  to.depths[step * to.row_groups() + row_group] = depths;
}

/// What a lane knows of its half of a step: its scales as values have them, and their exponents, a byte each;
/// the lowest bit of the whole step.
struct half_step {
  u32 scales[lane_groups];
  u32 exponents;
  int lowest;

  FOURSCALE_D explicit half_step(model::scale_parts const (&of)[lane_groups]) : exponents(0), lowest(0) {
    FOURSCALE_UNROLL
    for (int i = 0; i < lane_groups; ++i) {
      scales[i] = bit_cast<u32>(of[i].far && !of[i].nan ? 1.0f : of[i].value);
      exponents |= u32{static_cast<u8>(of[i].nan ? mma::nan_exponent : of[i].exponent)} << (8 * i);
    }
  }
};
/// With Certify it tells others, too, what is known.
template <bool Certify, class F, class Layout>
FOURSCALE_D half_step look_at(row_reader<F, Layout> const& reader, decode_input const& x,
                              facts_memory* known) {
  const model::scale_parts scales[lane_groups] = {model::scale_parts(reader.scale(x, 0)),
                                                  model::scale_parts(reader.scale(x, 1))};
  half_step half(scales);
  if constexpr (Certify) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    model::value_facts facts(facts_of_codes(selectors(x.codes[0]), selectors(x.codes[1])), scales[0]);
    facts.add(model::value_facts(facts_of_codes(selectors(x.codes[2]), selectors(x.codes[3])), scales[1]));
    known->halves[warp][lane / lanes_a_step][lane % lanes_a_step] = {
        facts.squares, static_cast<short>(facts.lowest), static_cast<short>(facts.largest_scale)};
    facts.squares += __shfl_xor_sync(~0u, facts.squares, 1);
    half.lowest = facts.lowest = min(facts.lowest, __shfl_xor_sync(~0u, facts.lowest, 1));
    if (lane % lanes_a_step == 0) known->widths[lane / lanes_a_step].of_row[warp] = width_of(facts);
  }
  return half;
}

/// Magnitudes of a lane's values, in units that all eight rows share.
FOURSCALE_D inline void leave_magnitudes(decode_input const& x, half_step const& half,
                                         facts_memory const& known, certify_memory& of_rows) {
  const u32 lane = threadIdx.x % 32;
  const int unit = half.lowest + static_cast<int>(known.magnitude_exponent(lane / lanes_a_step));
  FOURSCALE_UNROLL
  for (int i = 0; i < lane_groups; ++i)
    of_rows.magnitudes[threadIdx.x / 32][i][lane] =
        magnitudes_of(selectors(x.codes[2 * i]), selectors(x.codes[2 * i + 1]),
                      model::magnitude_codes(bit_cast<float>(half.scales[i]), unit));
}

/// Eight rows of an operand, a warp each. Without `Certify` no exponents are stored, and bounds that hold for
/// anything.
template <bool Certify, class F, class Layout>
FOURSCALE_D void decode_rows(block_scaled_view<F, Layout, u8 const> const& q, mma::decoded_operand const& to,
                             i64 row_group, decode_stage* stages, facts_memory* known,
                             certify_memory* of_rows) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const i64 row = row_group * mma::bounds_rows + warp;
  const int steps = static_cast<int>(to.steps);
  bf16* values = to.values + row * to.padded_k();
  u8* exponents = reinterpret_cast<u8*>(to.exponents) +
                  row * to.steps * (mma::decoded_step / mma::group_values) + lane_groups * lane;
  const largest_word largest;
  u32* magnitudes =
      reinterpret_cast<u32*>(to.magnitudes + largest.step * to.row_groups() + row_group) + largest.word;
  int left = row < to.rows ? steps : 0;
  model::value_facts before;
  row_reader<F, Layout> reader(q, row, static_cast<int>(lane) * lane_values);
  decode_input x = reader.next();
  half_step half = look_at<Certify>(reader, x, known);
  if constexpr (Certify) __syncthreads();
  int turn = 0;  // of what is known: of these steps, the next ones, and those before, that others may read
  for (int first = 0; first < steps; first += decode_steps) {
    const decode_input next = reader.next();
    stages[warp].store(x.codes, ptx::prmt_b32(half.scales[0], half.scales[1], 0x7632u), values, left);
    values += decode_steps * mma::decoded_step;
    facts_memory const& now = known[turn];
    turn = turn == 2 ? 0 : turn + 1;
    if constexpr (Certify) {
      if (static_cast<int>(lane / lanes_a_step) < left)
        *reinterpret_cast<u16*>(exponents) = static_cast<u16>(half.exponents);
      certify_memory& of_eight = of_rows[first / decode_steps % 2];
      leave_magnitudes(x, half, now, of_eight);
      half = look_at<Certify>(reader, next, known + turn);
      __syncthreads();
      if (first + static_cast<int>(largest.step) < steps) *magnitudes = largest.of(of_eight);
      find_bounds(now, of_eight, first < model::most_steps, before);
      if (first > 0)
        store_bounds(to, row_group, first - decode_steps, of_rows[(first / decode_steps + 1) % 2]);
      exponents += 32 * lane_groups;
      magnitudes += decode_steps * largest.in_step * to.row_groups();
    } else {
      half = look_at<Certify>(reader, next, known);
      if (warp == 0 && lane < decode_steps && first + static_cast<int>(lane) < steps)
        to.bounds[to.bounds_at(row_group, first + lane)] = {};
    }
    x = next;
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
