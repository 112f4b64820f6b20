// SPDX-License-Identifier: Apache-2.0
// Steps of 32 along K for the CPU GEMM with Blackwell's bits: MXFP8, MXFP6 and MXFP4 by one another.
// steps_of_32 reads what one instruction takes of a row, decodes it to f32 and finds its bounds. Where a
// certificate fails, add_by_rule() adds the step as the adder itself does, without branches, 32 columns at a
// time. docs/exact_gemm.md proves it right.
#pragma once

#include "../model/certificate_8bit.hpp"
#include "gemm_step.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

namespace detail {

using model::has_steps_of_32, model::type_of_element, model::format_of_step;
using step_exponent = short;  ///< exponent of a scaled value, or of a product

/// Table, indexed by container: the facts of each element.
struct element_table {
  model::element_facts facts[256] = {};

  constexpr explicit element_table(model::element_type type) {
    for (u32 i = 0; i < 256; ++i) facts[i] = model::element_facts(type, i);
  }
};
template <class E>
inline constexpr element_table of_element{type_of_element<E>()};

/// The exponents, as the adder sees them, of 32 values of element type E. `values` are scaled by
/// 2^scale_of(j).
template <class E, class ScaleOf>
void find_exponents(float const* values, ScaleOf const& scale_of, step_exponent* to) {
  for (int j = 0; j < 32; ++j) {
    const int field = static_cast<int>(bit_cast<u32>(values[j]) >> 23 & 0xffu), scale = scale_of(j),
              least = 1 - E::bias + scale, normal = field - 127 > least ? field - 127 : least;
    to[j] = static_cast<step_exponent>(field == 0 ? model::detail::zero_exponent + scale : normal);
  }
}

/// What add_by_rule() needs of a strip's columns in one step. find() fills in the exponents when a row first
/// needs them. It also clears the values of columns without bounds: only the model adds those columns, and it
/// reads codes, not these values.
struct rule_of_strip {
  bool found = false;  ///< whether `exponents` is filled in
  step_exponent exponents[32][strip_cols];
  int lowest[strip_cols], top[strip_cols];  ///< of each column's block_bounds

  void set(i64 column, model::block_bounds x) {
    lowest[column] = x.lowest, top[column] = x.top;
    found = false;
  }
  template <class E, class ScaleOf>
  void find(float* values, ScaleOf const& scale_of) {
    int scales[strip_cols];
    for (int j = 0; j < strip_cols; ++j) {
      scales[j] = scale_of(j);
      for (int k = 0; k < 32 && lowest[j] == model::block_bounds::none().lowest; ++k)
        values[k * strip_cols + j] = 0.0f;
    }
    for (int k = 0; k < 32; ++k)
      find_exponents<E>(
          values + k * strip_cols, [&](int j) { return scales[j]; }, exponents[k]);
    found = true;
  }
};
static_assert(strip_cols == 32, "find_exponents() takes as many columns as a step has values.");

/// How an operand of format F is read and decoded in steps of 32 (kind mxf8f6f4): MXFP8, MXFP6, and MXFP4
/// with one of them.
template <class F>
struct steps_of_32 {
  static constexpr int values = 32;
  using bounds = model::block_bounds;
  using columns = rule_of_strip;
  struct state {};

  /// Reads one step of one row as the model takes it. Rows beyond the matrix are zeros.
  template <class L, class B>
  static model::operand_row read(block_scaled_view<F, L, B> const& q, i64 row, i64 step) {
    model::operand_row result;
    if (row >= q.rows) return result;
    const packed_block<F> p = q.load(row, step);
    result.scales = p.scale.bits;
    using E = typename F::element;
    constexpr u32 four = 4 * E::width;  // bits
    for (int i = 0; i < values / 8; ++i) {
      u64 codes = 0;
      for (int k = 0; k < E::width; ++k) codes |= u64{p.codes[E::width * i + k]} << (8 * k);
      const u64 bytes = bytes_of_four<E>(static_cast<u32>(codes)) |
                        u64{bytes_of_four<E>(static_cast<u32>(codes >> four))} << 32;
      result.words[i] = E::width == 8 ? bytes : bytes >> 2;  // a container has six bits
    }
    return result;
  }
  /// Decodes one step of a row to f32, and returns its bounds.
  static bounds decode(model::operand_row const& x, state&, float* to) {
    element_table const& table = of_element<typename F::element>;
    const e8m0 scale{static_cast<u8>(x.scales)};
    const float factor = fourscale::decode(scale);
    model::block_facts facts[4];  // of every fourth value: so no addition waits for the one before
    for (int first = 0; first < values; first += 4) FOURSCALE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const u64 containers = x.words[first / 8] >> (8 * (first % 8));
      model::element_facts const& of = table.facts[containers >> (8 * i) & 0xffu];
      facts[i].add(of);
      to[first + i] = of.value * factor;
    }
    for (int i = 1; i < 4; ++i) facts[0].add(facts[i]);
    return facts[0].under(scale);
  }
};

/// The steps of an operand in format F that is multiplied by one in format G.
template <class F, class G>
struct steps_of : steps_of_32<F> {};
template <class F, class G>
requires has_steps_of_64<F, G>
struct steps_of<F, G> : steps_of_64<F> {
};

/// model::kept_accumulators::have() of each magnitude m: -1 where it is true.
inline int_lanes are_kept(float_lanes m, float_lanes below, float_lanes whole) {
  return (m < below) & ((m >= whole) | ((m + whole) - whole == m));
}
inline bool all_are_set(int_lanes x) {
  u64 words[sizeof x / sizeof(u64)], all = ~u64{0};
  __builtin_memcpy(words, &x, sizeof x);
  for (const u64 word : words) all &= word;
  return all == ~u64{0};
}

/// True if the step's sums in f32 are exact and the adder drops nothing. Each accumulator of the row, `sums`,
/// is tested, as by model::kept_accumulators.
inline bool is_fast(model::block_bounds a, model::block_bounds b, float const* sums) {
  if (!sums_are_exact(a, b) || !nothing_is_dropped(a, b)) return false;
  const model::kept_accumulators kept(a, b);
  const float_lanes below = float_lanes{} + kept.below(), whole = float_lanes{} + kept.whole();
  int_lanes all = int_lanes{} - 1;  // nvcc 13.0 fails on ~int_lanes{}
  FOURSCALE_UNROLL
  for (int l = 0; l < strip_lanes; ++l) all &= are_kept(magnitude(load_lanes(sums, l)), below, whole);
  return all_are_set(all);
}

/// The exponent of a block's scale; for rows beyond the matrix, that of a zero byte.
template <class F, class L, class B>
int scale_exponent(block_scaled_view<F, L, B> const& q, i64 row, i64 block) {
  return (row < q.rows ? static_cast<int>(q.load_scale(row, block).bits) : 0) - e8m0::bias;
}

using uint_lanes [[gnu::vector_size(vector_bytes)]] = u32;
using short_lanes [[gnu::vector_size(vector_bytes)]] = step_exponent;

/// For each column the largest exponent of the 32 products.
inline void largest_exponents(step_exponent const* a, step_exponent const (&b)[32][strip_cols],
                              step_exponent (&largest)[strip_cols]) {
  constexpr int registers = strip_cols * static_cast<int>(sizeof(step_exponent)) / vector_bytes;
  short_lanes most[registers];
  for (short_lanes& x : most) x = short_lanes{} - step_exponent{0x4000};
  for (int k = 0; k < 32; ++k) FOURSCALE_UNROLL
  for (int l = 0; l < registers; ++l) {
    short_lanes x;
    __builtin_memcpy(&x, b[k] + l * (strip_cols / registers), sizeof x);
    x += a[k];
    most[l] = x > most[l] ? x : most[l];
  }
  __builtin_memcpy(largest, most, sizeof largest);
}

/// Tests the accumulators of a row and a strip; -1 for each column where it is true. `kept`: the adder drops
/// nothing of the accumulator nor of the products, as model::nothing_is_dropped() and kept_accumulators say.
/// `known`: add_by_rule() gives the adder's bits.
struct asked_accumulators {
  int kept[strip_cols], known[strip_cols];

  asked_accumulators(model::block_bounds a, rule_of_strip const& b, float const* sums) {
    const auto power = [](int_lanes exponent) {
      exponent = exponent < -126 ? int_lanes{} - 126 : exponent;
      exponent = exponent > 127 ? int_lanes{} + 127 : exponent;
      return __builtin_bit_cast(float_lanes, (exponent + 127) << 23);
    };
    using model::block_bounds;
    static_assert(nothing_is_dropped(block_bounds{0, 0, 25}, {0, 0, 0}) &&
                  !nothing_is_dropped(block_bounds{0, 0, 26}, {0, 0, 0}));
    constexpr model::kept_accumulators of_25({0, 0, 25}, {0, 0, 0});
    static_assert(of_25.have(0x1.8p25f) && !of_25.have(0x1p26f) && of_25.have(1.0f) && !of_25.have(0.5f));
    FOURSCALE_UNROLL
    for (int l = 0; l < strip_lanes; ++l) {
      const int_lanes lowest = load_lanes(b.lowest, l), top = load_lanes(b.top, l);
      const float_lanes c = magnitude(load_lanes(sums, l)), below = power(lowest + (a.lowest + 26)),
                        whole = power(top + (a.top - 25 + 23));
      const int_lanes of_products = top - lowest <= 25 - (a.top - a.lowest),
                      of_sums = are_kept(c, below, whole),
                      in_range = (c == 0.0f) | ((c >= 0x1p-100f) & (c < 0x1p100f));
      store_lanes(kept, l, of_products & of_sums);
      store_lanes(known, l, in_range & (lowest != block_bounds::none().lowest));
    }
  }
};

/// Adds a step of one row and a strip by the adder's own rule: terms are truncated toward zero at 2^(E - 25)
/// and taken in units of it, summed exactly, and the sum is rounded toward zero. Columns that are not `known`
/// get meaningless results.
inline void add_by_rule(float const* a, step_exponent const* exponents_a, float const* b,
                        rule_of_strip const& rule, float const* sums, int const* known,
                        float (&results)[strip_cols]) {
  step_exponent largest[strip_cols];
  largest_exponents(exponents_a, rule.exponents, largest);
  float inverse[strip_cols], unit[strip_cols];
  i32 terms[3][strip_cols];  // the first 16 products, the others, the accumulator
  for (int j = 0; j < strip_cols; ++j) {
    const float c = known[j] != 0 ? sums[j] : 0.0f;
    const int field = static_cast<int>(bit_cast<u32>(c) >> 23 & 0xffu);
    int exponent = field == 0 ? model::detail::zero_exponent : field - 127;
    exponent = exponent > largest[j] ? exponent : largest[j];
    exponent = exponent > -100 ? exponent : -100;  // no known term has a bit below 2^-125
    exponent = exponent < 100 ? exponent : 100;
    inverse[j] = model::detail::power_of_two(25 - exponent);
    unit[j] = model::detail::power_of_two(exponent - 25);
    terms[2][j] = static_cast<i32>(c * inverse[j]);
  }
  for (int half = 0; half < 2; ++half) {
    uint_lanes all[strip_lanes] = {};
    for (int k = 16 * half; k < 16 * half + 16; ++k) FOURSCALE_UNROLL
    for (int l = 0; l < strip_lanes; ++l) {
      const float_lanes product = a[k] * load_lanes(b + k * strip_cols, l);
      const int_lanes term = __builtin_convertvector(product * load_lanes(inverse, l), int_lanes);
      all[l] += __builtin_bit_cast(uint_lanes, term);
    }
    __builtin_memcpy(terms[half], all, sizeof all);
  }
  for (int j = 0; j < strip_cols; ++j) {
    const double sum = static_cast<double>(terms[0][j]) + static_cast<double>(terms[1][j]) +
                       static_cast<double>(terms[2][j]);
    results[j] = toward_zero(sum * static_cast<double>(unit[j]));
  }
}

}  // namespace detail

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
