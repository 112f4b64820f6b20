// SPDX-License-Identifier: Apache-2.0
// Steps of 64 along K for the CPU GEMM with Blackwell's bits, NVFP4 and MXFP4. steps_of_64 reads what one
// instruction takes of a row, decodes it to f32 and finds its bounds for the certificate. The functions below
// add a step to the accumulators of some rows and a strip of 32 columns, in vectors. docs/exact_gemm.md
// proves them right.
#pragma once

#include "../model/certificate.hpp"
#include "../view/block_scaled_view.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

namespace detail {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif
inline constexpr int strip_cols = 32;
inline constexpr int rows_at_once = vector_bytes / 16;  ///< rows in one pass: sums fit in registers

template <class F>
concept fp4_format = model::has_steps_of_64<F>;
/// True for two formats that are multiplied in steps of 64 values of E2M1.
template <class F, class G>
concept has_steps_of_64 = fp4_format<F> && same_type<F, G>;

/// Table, indexed by a byte of two codes: their values, and their facts for the certificate.
struct code_pairs {
  float values[256][2] = {};
  model::code_facts facts[256] = {};

  constexpr code_pairs() {
    for (u32 byte = 0; byte < 256; ++byte)
      for (u32 i = 0; i < 2; ++i) {
        const u32 code = byte >> (4 * i) & 15u;
        values[byte][i] = decode(e2m1{static_cast<u8>(code)});
        facts[byte].add(code);
      }
  }
};
inline constexpr code_pairs of_code_pair{};

/// Bounds of a step of 64 values of a row. add() merges the rows of a strip, and only `step`: the bounds of
/// accumulators are kept for each column, in bounds_of_columns.
struct bounds_of_64 : model::known_bounds {
  constexpr void add(bounds_of_64 const& other) { step.add(other.step); }
};

/// The bounds of each column of a strip in a step of 64.
struct bounds_of_columns {
  int span[strip_cols], of_accumulators[strip_cols], depth[strip_cols];

  void set(i64 column, bounds_of_64 const& x) {
    span[column] = x.step.span;
    of_accumulators[column] = x.of_accumulators.span, depth[column] = x.of_accumulators.depth;
  }
};

/// How an operand of format F is read and decoded in steps of 64 (kinds mxf4nvf4 and mxf4). steps_of_32 has
/// the same members.
template <class F>
struct steps_of_64 {
  static constexpr int values = 64;
  using bounds = bounds_of_64;
  using columns = bounds_of_columns;
  using state = model::row_bounds;  ///< what the row's earlier steps leave

  /// Reads one step of one row as the model takes it. Rows and blocks beyond the matrix are zeros.
  template <class L, class B>
  static model::operand_row read(block_scaled_view<F, L, B> const& q, i64 row, i64 step) {
    constexpr int blocks = values / F::block_size, words = 4 / blocks;
    model::operand_row result;
    for (int j = 0; j < blocks; ++j) {
      const i64 block = step * blocks + j;
      if (row >= q.rows || block >= q.blocks()) break;
      const packed_block<F> p = q.load(row, block);
      result.scales |= u32{p.scale.bits} << (8 * j);
      for (int i = 0; i < block_code_bytes<F>; ++i)
        result.words[j * words + i / 8] |= u64{p.codes[i]} << (8 * (i % 8));
    }
    return result;
  }
  /// Decodes one step of a row to f32, and returns its bounds. Call it for the steps of a row in order.
  static bounds decode(model::operand_row const& x, state& row, float* to) {
    using scale = typename F::scale;
    model::code_facts facts[4];
    for (int group = 0; group < 4; ++group)
      for (int i = 0; i < 8; ++i) {
        const u32 byte = static_cast<u32>(x.words[group] >> (8 * i)) & 0xffu;
        facts[group].add(of_code_pair.facts[byte]);
        __builtin_memcpy(to + 16 * group + 2 * i, of_code_pair.values[byte], 2 * sizeof(float));
      }
    const auto scale_of = [&](int group) {
      return model::scale_parts(scale{static_cast<u8>(x.scales >> (8 * (group * 16 / F::block_size)))});
    };
    const model::scale_parts scales[4] = {scale_of(0), scale_of(1), scale_of(2), scale_of(3)};
    for (int i = 0; i < values; ++i) to[i] *= scales[i / 16].value;
    return {row.next(facts, scales)};
  }
};

/// x as f32, rounded toward zero: to nearest, and one step back if that is beyond x.
inline float toward_zero(double x) {
  const float nearest = static_cast<float>(x);
  const double back = static_cast<double>(nearest);
  return bit_cast<float>(bit_cast<u32>(nearest) - u32{(back < 0.0 ? -back : back) > (x < 0.0 ? -x : x)});
}

/// A vector register of columns of a strip, and the number of registers that a strip takes.
using float_lanes [[gnu::vector_size(vector_bytes)]] = float;
inline constexpr int strip_lanes = strip_cols * static_cast<int>(sizeof(float)) / vector_bytes;

using int_lanes [[gnu::vector_size(vector_bytes)]] = i32;

/// Loads and stores register `i` of a strip's numbers at x. With a copy for each register, g++ keeps the
/// values in registers instead of passing them through the stack.
inline float_lanes load_lanes(float const* x, int i) {
  float_lanes lanes;
  __builtin_memcpy(&lanes, x + i * (strip_cols / strip_lanes), sizeof lanes);
  return lanes;
}
inline int_lanes load_lanes(int const* x, int i) {
  int_lanes lanes;
  __builtin_memcpy(&lanes, x + i * (strip_cols / strip_lanes), sizeof lanes);
  return lanes;
}
inline void store_lanes(float* x, int i, float_lanes lanes) {
  __builtin_memcpy(x + i * (strip_cols / strip_lanes), &lanes, sizeof lanes);
}
inline void store_lanes(int* x, int i, int_lanes lanes) {
  __builtin_memcpy(x + i * (strip_cols / strip_lanes), &lanes, sizeof lanes);
}
inline float_lanes magnitude(float_lanes x) {
  return __builtin_bit_cast(float_lanes, __builtin_bit_cast(int_lanes, x) & 0x7fff'ffff);
}

/// Multiplies `Count` values of Rows rows by those of a strip and sums the products. Calls take(row, register
/// of the strip, sums). Every sum is exact, so the order of additions is free.
template <int Rows, int Count, class Take>
void add_products(float const* const (&a)[Rows], float const* b, Take const& take) {
  float_lanes sums[Rows][strip_lanes] = {};
  for (int k = 0; k < Count; ++k) {
    float_lanes columns[strip_lanes];
    FOURSCALE_UNROLL
    for (int l = 0; l < strip_lanes; ++l) columns[l] = load_lanes(b + k * strip_cols, l);
    FOURSCALE_UNROLL
    for (int r = 0; r < Rows; ++r) {
      FOURSCALE_UNROLL
      for (int l = 0; l < strip_lanes; ++l) sums[r][l] += a[r][k] * columns[l];
    }
  }
  for (int r = 0; r < Rows; ++r) FOURSCALE_UNROLL
  for (int l = 0; l < strip_lanes; ++l) take(r, l, sums[r][l]);
}

/// a + b in f32, rounded toward zero. By Knuth's two-sum, what the nearest sum leaves out is a float, `rest`.
/// If it points toward zero, the nearest sum is beyond a + b, and one step back is the result. If the nearest
/// sum is infinite, `rest` is NaN: again one step back.
inline float_lanes add_toward_zero(float_lanes a, float_lanes b) {
  const float_lanes sum = a + b, of_b = sum - a, rest = (a - (sum - of_b)) + (b - of_b);
  const int_lanes of_sum = __builtin_bit_cast(int_lanes, sum),
                  signs = of_sum ^ __builtin_bit_cast(int_lanes, rest);
  const int_lanes beyond = (rest != 0.0f) & ((signs < 0) | (rest != rest));  // -1 where one step back
  return __builtin_bit_cast(float_lanes, of_sum + beyond);
}

/// Adds a step of Rows rows whose certificates hold for the whole strip: f32 products, then one addition to
/// the accumulator.
template <int Values, int Rows>
void step_in_f32(float const* const (&a)[Rows], float const* b, float* const (&sums)[Rows]) {
  add_products<Rows, Values>(a, b, [&](int r, int l, float_lanes lanes) {
    store_lanes(sums[r], l, add_toward_zero(load_lanes(sums[r], l), lanes));
  });
}

/// A step of 64 of Rows rows for which f32 may not hold the sum of 64 products: four blocks of 16, each sum
/// exact in f32, are added to the accumulator in double. `results` has the MMA's bits only where the adder
/// drops nothing.
template <int Rows>
void step_in_double(float const* const (&a)[Rows], float const* b, float* const (&sums)[Rows],
                    float (&results)[Rows][strip_cols]) {
  double all[Rows][strip_cols];
  for (int r = 0; r < Rows; ++r)
    for (int j = 0; j < strip_cols; ++j) all[r][j] = static_cast<double>(sums[r][j]);
  for (int k = 0; k < 64; k += 16) {
    float t[Rows][strip_cols];
    float const* rows[Rows];
    for (int r = 0; r < Rows; ++r) rows[r] = a[r] + k;
    add_products<Rows, 16>(rows, b + k * strip_cols,
                           [&](int r, int l, float_lanes lanes) { store_lanes(t[r], l, lanes); });
    for (int r = 0; r < Rows; ++r)
      for (int j = 0; j < strip_cols; ++j) all[r][j] += static_cast<double>(t[r][j]);
  }
  for (int r = 0; r < Rows; ++r)
    for (int j = 0; j < strip_cols; ++j) results[r][j] = toward_zero(all[r][j]);
}

/// True if the step's sums in f32 are exact and the adder drops nothing, whatever the accumulators are.
inline bool is_fast(bounds_of_64 const& a, bounds_of_64 const& b, float const*) {
  return sums_are_exact(a.step, b.step) && nothing_is_dropped(a.step, b.step);
}

/// For each column: -1 where the adder drops nothing, neither of the row's accumulator nor of the products
/// added to it. Norms or the accumulator's limit prove it, as model::nothing_is_dropped() and largest_kept()
/// do.
inline void find_kept(bounds_of_64 const& a, bounds_of_columns const& b, float const* sums,
                      int (&kept)[strip_cols]) {
  static_assert(model::scales_drop_nothing(35) && !model::scales_drop_nothing(36));
  static_assert(model::accumulator_limit(0) == 0x1p116f && model::accumulator_limit(1) == 0x1p115f);
  FOURSCALE_UNROLL
  for (int l = 0; l < strip_lanes; ++l) {
    const int_lanes exponents = 116 + 127 - a.of_accumulators.depth - load_lanes(b.depth, l);
    const float_lanes limit = __builtin_bit_cast(float_lanes, exponents << 23);
    const int_lanes by_norms = load_lanes(b.span, l) <= 35 - a.step.span,
                    by_limit = (load_lanes(b.of_accumulators, l) <= 35 - a.of_accumulators.span) &
                               (magnitude(load_lanes(sums, l)) < limit);
    store_lanes(kept, l, by_norms | by_limit);
  }
}

}  // namespace detail

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
