// SPDX-License-Identifier: Apache-2.0
// Adds a step of K = 64 to a warp's accumulators, for 16 rows of A and groups of 8 rows of B, with the bits
// of Blackwell's adder whatever the data. The sums of the four blocks are exact (step_blocks.cuh). They are
// added by brackets or in double where the adder drops nothing, else by its own rule: in floats, or in the
// integers of the model where floats may not hold it. add_kept() is for outputs of which the adder is known
// to drop nothing, add_exactly() for all. docs/exact_gemm.md has the reasons.
#pragma once

#include "../ptx/mbarrier.cuh"
#include "../view/accumulate.hpp"
#include "step_blocks.cuh"

namespace FOURSCALE_NAMESPACE::mma {

namespace detail {

/// Exponent of block i of a word of four group_exponents.
FOURSCALE_D inline int exponent_byte(u32 word, int i) {
  return static_cast<group_exponent>(word >> (8 * i) & 0xffu);
}

/// The adder's own rule in the integers of the model, for c and the exact sums of the four blocks. The words
/// have the exponents of the four scales of each row, a byte each. NaN gives 0x7FFFFFFF; an infinite c stays.
__noinline__ FOURSCALE_D inline float add_by_model(float c, float4 sums, u32 exponents_a, u32 exponents_b) {
  const u32 magnitude = bit_cast<u32>(c) & 0x7fff'ffffu;
  bool nan = magnitude > float_inf_bits;
  fourscale::model::detail::term terms[5];
  float const in_order[4] = {sums.x, sums.y, sums.z, sums.w};
  FOURSCALE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int a = exponent_byte(exponents_a, i), b = exponent_byte(exponents_b, i);
    nan = nan || a == nan_exponent || b == nan_exponent;
    // In units of 2^-8 times the scales' powers of two: 2 bits come from the codes, 3 from each E4M3.
    const int in_sum = (is_in_values(a) ? a : 0) + (is_in_values(b) ? b : 0);
    const float sum = nan ? 0.0f : in_order[i];  // NaN cannot be converted to an integer
    terms[i] = {static_cast<i64>(sum * fourscale::model::detail::power_of_two(8 - in_sum)), 8, a + b};
  }
  if (nan) return bit_cast<float>(fourscale::model::mma_nan_bits);
  if (magnitude == float_inf_bits) return c;
  terms[4] = fourscale::model::detail::accumulator_term(c);
  return fourscale::model::detail::fused_sum(terms, 35);
}

/// The exponents of a row's four groups in a step, a byte each; 0 for rows behind the last one.
FOURSCALE_D inline u32 load_exponents(decoded_operand const& x, i64 row, i64 step) {
  return row < x.rows ? reinterpret_cast<u32 const*>(x.exponents)[row * x.steps + step] : 0u;
}

/// Adds x to `sum`, rounded to nearest, and the rounding error to `rest` (Knuth's two-sum).
FOURSCALE_D inline void add_two(float& sum, float& rest, float x) {
  const float all = __fadd_rn(sum, x), part = __fsub_rn(all, sum);
  rest = __fadd_rn(rest, __fadd_rn(__fsub_rn(sum, __fsub_rn(all, part)), __fsub_rn(x, part)));
  sum = all;
}

/// x truncated toward zero to a multiple of 2^-23 of `unit`, a power of two: an x of `unit` or more is one.
FOURSCALE_D inline float cut_below(float x, float unit) {
  const float u = copysignf(unit, x);
  return fabsf(x) < unit ? __fsub_rn(__fadd_rz(x, u), u) : x;
}

/// (x + y) + (z + w) by two-sums, whose rounding errors are added to `rest`.
FOURSCALE_D inline float sum_of_blocks(float x, float y, float z, float w, float& rest) {
  add_two(x, rest, y);
  add_two(z, rest, w);
  add_two(x, rest, z);
  return x;
}

/// c plus the sums of four blocks, rounded once, toward zero. Only where the adder drops nothing.
FOURSCALE_D inline float add_in_double(float c, float4 sums) {
  return __double2float_rz(__dadd_rn(__dadd_rn(__dadd_rn(sums.x, sums.y), __dadd_rn(sums.z, sums.w)), c));
}

/// low <= rz(c + S) <= high, where S is the exact sum of the four blocks and rz rounds toward zero: S lies
/// between its roundings down and up, and rounding c + S keeps that order. If both are equal, they are the
/// result (if the adder drops nothing); else, and for NaN, another way gives it.
struct bracket {
  float low, high;
};
/// The beginning of a bracket: the sums of the first two and of the last two blocks, rounded down and up.
struct sums_of_two {
  bracket first, last;
};
FOURSCALE_D inline sums_of_two add_in_twos(float4 sums) {
  return {{__fadd_rd(sums.x, sums.y), __fadd_ru(sums.x, sums.y)},
          {__fadd_rd(sums.z, sums.w), __fadd_ru(sums.z, sums.w)}};
}
FOURSCALE_D inline bracket sum_of(sums_of_two const& x) {
  return {__fadd_rd(x.first.low, x.last.low), __fadd_ru(x.first.high, x.last.high)};
}
FOURSCALE_D inline bracket sum_of(float4 sums) { return sum_of(add_in_twos(sums)); }
FOURSCALE_D inline bracket bracket_of(float c, bracket sum) {
  return {__fadd_rz(c, sum.low), __fadd_rz(c, sum.high)};
}

/// The adder's own rule, as add_by_model(): in floats where these hold all that is needed, else by it.
FOURSCALE_D inline float add_and_drop(float c, float4 sums, u32 exponents_a, u32 exponents_b) {
  float x[5] = {sums.x, sums.y, sums.z, sums.w, c};
  const int of_c = static_cast<int>(bit_cast<u32>(c) >> 23 & 0xffu);
  int largest = of_c == 0 ? fourscale::model::detail::zero_exponent : of_c - 127;
  bool simple = of_c != 255;
  FOURSCALE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int a = exponent_byte(exponents_a, i), b = exponent_byte(exponents_b, i);
    largest = max(largest, a + b);
    // A scale that is not in the values does no harm if they are all 0. A NaN scale makes the sum NaN, not 0.
    simple = simple && ((is_in_values(a) && is_in_values(b)) || x[i] == 0.0f);
  }
  simple = simple && largest >= -80 && largest <= 80;  // so that all results below are normal
  const float unit = bit_cast<float>(static_cast<u32>(simple ? largest - 12 + 127 : 127) << 23);
  FOURSCALE_UNROLL
  for (int i = 0; i < 5; ++i) x[i] = cut_below(x[i], unit);
  float rest = 0.0f, low = sum_of_blocks(x[0], x[1], x[2], x[3], rest);
  simple = simple && fabsf(low) < 4096.0f * 4096.0f * unit;
  add_two(low, rest, x[4]);
  simple = simple && fabsf(low) < 4096.0f * 4096.0f * unit;
  return simple ? __fadd_rz(low, rest) : add_by_model(c, sums, exponents_a, exponents_b);
}

}  // namespace detail

/// What is proved of a step, a bit for each 16 x 8 outputs of a warp. Where both bits are set, the sum of 64
/// products is added in one addition, rounded toward zero.
struct certificates {
  u32 exact,
      kept;  ///< exact: the sum of 64 products is exact in f32; kept: the adder drops nothing
};

/// Where 16 x 8 outputs are in the matrices: the first row of A, the first row of B, and the step along K.
struct step_place {
  int row_a, row_b, step;
};

namespace detail {

/// add_and_drop() for a lane's four accumulators c, with four sums each. Loads exponents from device memory.
FOURSCALE_D inline float4 add_and_drop(decoded_operand const& a, decoded_operand const& b, step_place at,
                                       float4 c, float4 of_x, float4 of_y, float4 of_z, float4 of_w) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  u32 of_a[2], of_b[2];
  FOURSCALE_UNROLL
  for (int i = 0; i < 2; ++i) {
    of_a[i] = load_exponents(a, at.row_a + lane / 4 + 8 * i, at.step);
    of_b[i] = load_exponents(b, at.row_b + 2 * (lane % 4) + i, at.step);
  }
  return {add_and_drop(c.x, of_x, of_a[0], of_b[0]), add_and_drop(c.y, of_y, of_a[0], of_b[1]),
          add_and_drop(c.z, of_z, of_a[1], of_b[0]), add_and_drop(c.w, of_w, of_a[1], of_b[1])};
}

}  // namespace detail

/// The same, with the shared addresses of these rows in their stages: multiples of eight rows (1024 bytes),
/// where the swizzle pattern begins.
struct exact_place {
  int row_a, row_b, step;
  u32 stage_a, stage_b;
};

/// Limits of accumulators in the upper and in the lower eight of a warp's 16 rows, by eight columns. The
/// adder drops nothing of an output whose accumulator is below its limit in magnitude.
struct kept_limits {
  float upper = 0.0f, lower = 0.0f;
  /// Whether a lane's four accumulators are all below. False for NaN.
  FOURSCALE_D bool keep(float const* c) const {
    return (fabsf(c[0]) < upper) & (fabsf(c[1]) < upper) & (fabsf(c[2]) < lower) & (fabsf(c[3]) < lower);
  }
};

/// Limits from the depths of each row and column, closer than kept_limits. A lane has rows r and r + 8 of the
/// warp's 16, r = lane / 4.
struct row_limits {
  u32 upper, lower;  ///< depths of the two rows
  u32 cols;          ///< shared address of the depths of the lane's two columns in the first group

  /// From the shared addresses of the depths of the warp's rows and of the columns of all groups.
  FOURSCALE_D row_limits(u32 depths_of_rows, u32 depths_of_cols) {
    const u32 lane = threadIdx.x % 32;
    upper = ptx::load_shared_u8(depths_of_rows + lane / 4);
    lower = ptx::load_shared_u8(depths_of_rows + lane / 4 + 8);
    cols = depths_of_cols + lane % 4 * 2;
  }
  /// Depths of the lane's two columns in a group, a byte each: `both` of keep().
  FOURSCALE_D u32 of_cols(int group) const {
    return ptx::load_shared_u16(cols + static_cast<u32>(group * bounds_rows));
  }
  /// Whether a group's four accumulators are below, if scales drop nothing. False for NaN.
  FOURSCALE_D bool keep(u32 both, float const* c) const {
    using fourscale::model::accumulator_limit;
    const u32 left = both & 0xffu, right = both >> 8;
    return (fabsf(c[0]) < accumulator_limit(upper + left)) &
           (fabsf(c[1]) < accumulator_limit(upper + right)) &
           (fabsf(c[2]) < accumulator_limit(lower + left)) & (fabsf(c[3]) < accumulator_limit(lower + right));
  }
};

/// The arguments of add_exactly(): a step that a warp adds by blocks for its 16 rows. The accumulators
/// themselves tell whether the adder may drop bits. It lies in memory, since registers are for the sums.
struct exact_columns {
  decoded_operand const *a, *b;
  exact_place first;  ///< of the first group of eight columns
  u32 limited;        ///< a bit for each group of which scales drop nothing
  u32 rows, cols;     ///< shared addresses of depths: see row_limits

  /// Shared address of the rows of B of a group of columns.
  FOURSCALE_D u32 stage_of(int group) const {
    return first.stage_b + static_cast<u32>(group * bounds_rows * decoded_row_bytes);
  }
  /// Whether the adder drops nothing of a group's four accumulators.
  FOURSCALE_D bool keeps(int group, float const* c) const {
    const row_limits limits(rows, cols);
    return (limited >> group & 1) != 0 && limits.keep(limits.of_cols(group), c);
  }
};

/// Adds the blocks of `Groups` groups of columns, from group `first` on, to a lane's accumulators c. A whole
/// warp: where one lane has to take a longer way, all do.
template <int Groups>
FOURSCALE_D void add_groups(exact_columns const& x, int first, batch_of_blocks<Groups> const& blocks,
                            float* c) {
  detail::bracket all[4 * Groups];
  bool kept[Groups], closed = true, all_kept = true;
  FOURSCALE_UNROLL
  for (int group = 0; group < Groups; ++group) {
    FOURSCALE_UNROLL
    for (int i = 4 * group; i < 4 * group + 4; ++i) {
      all[i] = detail::bracket_of(c[i], detail::sum_of(blocks.of(i)));
      closed = closed & (all[i].low == all[i].high);
    }
    kept[group] = x.keeps(first + group, c + 4 * group);
    all_kept = all_kept & kept[group];
  }
  if (__all_sync(~0u, all_kept & closed)) {
    FOURSCALE_UNROLL
    for (int i = 0; i < 4 * Groups; ++i) c[i] = all[i].high;
    return;
  }
  FOURSCALE_UNROLL
  for (int group = 0; group < Groups; ++group) {
    float* const y = c + 4 * group;
    float4 const sums[4] = {blocks.of(4 * group), blocks.of(4 * group + 1), blocks.of(4 * group + 2),
                            blocks.of(4 * group + 3)};
    if (__all_sync(~0u, kept[group])) {
      FOURSCALE_UNROLL
      for (int i = 0; i < 4; ++i) y[i] = detail::add_in_double(y[i], sums[i]);
    } else {
      const step_place at{x.first.row_a, x.first.row_b + (first + group) * bounds_rows, x.first.step};
      const float4 z =
          detail::add_and_drop(*x.a, *x.b, at, {y[0], y[1], y[2], y[3]}, sums[0], sums[1], sums[2], sums[3]);
      y[0] = z.x, y[1] = z.y, y[2] = z.z, y[3] = z.w;
    }
  }
}
/// Adds a step to one group of columns. Never inlined: it is called for each group.
__noinline__ FOURSCALE_D inline float4 exact_step(exact_columns const& x, int group, float4 c) {
  const batch_of_blocks<1> blocks = multiply_blocks<1>(x.first.stage_a, x.stage_of(group));
  float y[4] = {c.x, c.y, c.z, c.w};
  add_groups(x, group, blocks, y);
  return {y[0], y[1], y[2], y[3]};
}
/// Accumulators of a lane in two groups of columns.
struct two_groups {
  float4 first, second;
};
/// `group` and the next one, in less time than one by one: products of one are made while the other is added.
__noinline__ FOURSCALE_D inline two_groups exact_steps(exact_columns const& x, int group, two_groups c) {
  const batch_of_blocks<2> blocks = multiply_blocks<2>(x.first.stage_a, x.stage_of(group));
  float y[8] = {c.first.x, c.first.y, c.first.z, c.first.w, c.second.x, c.second.y, c.second.z, c.second.w};
  add_groups(x, group, blocks, y);
  return {{y[0], y[1], y[2], y[3]}, {y[4], y[5], y[6], y[7]}};
}

/// Accumulators of a lane in four groups of columns.
struct four_groups {
  float c[16];
};
/// Adds a step to the groups `which` of four, of whose outputs the adder drops nothing. Shared addresses of
/// the rows of A and of B, place_in_a() and place_in_b() included. Never inlined: it is called for each four.
/// A loop that selects accumulators is faster here than code for each group, as little of it is in the
/// instruction cache.
__noinline__ FOURSCALE_D inline four_groups add_four(u32 rows_a, u32 rows_b, u32 which, four_groups x) {
  u32 a[4][4];
  load_step_a(rows_a, a);
#pragma unroll 1
  for (; which != 0; which &= which - 1) {
    const int group = __ffs(static_cast<int>(which)) - 1;
    u32 b[1][4][2];
    rows_of_step_b(rows_b + static_cast<u32>(group * bounds_rows * decoded_row_bytes)).load(0, b);
    batch_of_blocks<1> blocks;
    blocks.multiply(a, b);
    float c[4], sum[4];
    bool closed = true;
    FOURSCALE_UNROLL
    for (int i = 0; i < 4; ++i) {
      c[i] = group < 2 ? group == 0 ? x.c[i] : x.c[4 + i] : group == 2 ? x.c[8 + i] : x.c[12 + i];
      const detail::bracket ends = detail::bracket_of(c[i], detail::sum_of(blocks.of(i)));
      closed = closed & (ends.low == ends.high);
      sum[i] = ends.high;
    }
    if (!__all_sync(~0u, closed)) {
      FOURSCALE_UNROLL
      for (int i = 0; i < 4; ++i) sum[i] = detail::add_in_double(c[i], blocks.of(i));
    }
    FOURSCALE_UNROLL
    for (int k = 0; k < 4; ++k) FOURSCALE_UNROLL
    for (int i = 0; i < 4; ++i) x.c[4 * k + i] = group == k ? sum[i] : x.c[4 * k + i];
  }
  return x;
}
/// Adds all four groups, two at a time, which takes less time than one by one.
__noinline__ FOURSCALE_D inline four_groups add_all_four(u32 rows_a, u32 rows_b, four_groups x) {
  u32 a[4][4];
  load_step_a(rows_a, a);
  const rows_of_step_b rows(rows_b);
  FOURSCALE_UNROLL
  for (int half = 0; half < 2; ++half) {
    u32 b[2][4][2];
    rows.load(2 * half, b);
    batch_of_blocks<2> blocks;
    blocks.multiply(a, b);
    float sum[8];
    u32 open = 0;
    FOURSCALE_UNROLL
    for (int i = 0; i < 8; ++i) {
      const detail::bracket ends = detail::bracket_of(x.c[8 * half + i], detail::sum_of(blocks.of(i)));
      open |= u32{ends.low != ends.high} << i;
      sum[i] = ends.high;
    }
    open = __reduce_or_sync(~0u, open);
    if (open != 0) {
      FOURSCALE_UNROLL
      for (int i = 0; i < 8; ++i)
        if ((open >> i & 1) != 0) sum[i] = detail::add_in_double(x.c[8 * half + i], blocks.of(i));
    }
    FOURSCALE_UNROLL
    for (int i = 0; i < 8; ++i) x.c[8 * half + i] = sum[i];
  }
  return x;
}
/// Adds a step to a lane's `sums` for the groups of columns `which`, as add_four(). A whole warp; it often
/// has few groups, so it tests four bits at a time.
template <int Groups>
FOURSCALE_D void add_kept(u32 rows_a, u32 rows_b, u32 which, float* sums) {
  which = __reduce_or_sync(~0u, which);  // tells the compiler that it is the same in all lanes
  FOURSCALE_UNROLL
  for (int first = 0; first < Groups; first += 4) {
    const u32 some = which >> first & 15;
    if (some == 0) continue;
    four_groups x;
    FOURSCALE_UNROLL
    for (int i = 0; i < 16; ++i) x.c[i] = sums[4 * first + i];
    const u32 rows = rows_b + static_cast<u32>(first * bounds_rows * decoded_row_bytes);
    x = some == 15 ? add_all_four(rows_a, rows, x) : add_four(rows_a, rows, some, x);
    FOURSCALE_UNROLL
    for (int i = 0; i < 16; ++i) sums[4 * first + i] = x.c[i];
  }
}

/// Adds a step to a lane's `sums`, for the groups of columns with a bit in `which`, whatever the data. Two
/// neighbours go together; bits are tested four at a time, as in add_kept(). A whole warp; x is its own.
template <int Groups>
FOURSCALE_D void add_exactly(exact_columns const& x, u32 which, float* sums) {
  __syncwarp();                          // x has been written
  which = __reduce_or_sync(~0u, which);  // tells the compiler that it is the same in all lanes
  FOURSCALE_UNROLL
  for (int four = 0; four < Groups; four += 4) {
    if ((which >> four & 15) == 0) continue;
    FOURSCALE_UNROLL
    for (int group = four; group < four + 4; group += 2) {
      const u32 both = which >> group & 3;
      float* const c = sums + 4 * group;
      two_groups y{{c[0], c[1], c[2], c[3]}, {c[4], c[5], c[6], c[7]}};
      if (both == 3) {
        y = exact_steps(x, group, y);
      } else if (both == 1) {
        y.first = exact_step(x, group, y.first);
      } else if (both == 2) {
        y.second = exact_step(x, group + 1, y.second);
      }
      c[0] = y.first.x, c[1] = y.first.y, c[2] = y.first.z, c[3] = y.first.w;
      c[4] = y.second.x, c[5] = y.second.y, c[6] = y.second.z, c[7] = y.second.w;
    }
  }
  __syncwarp();  // x has been read
}

}  // namespace FOURSCALE_NAMESPACE::mma
