// SPDX-License-Identifier: Apache-2.0
// A GEMM on the CPU with the bits of Blackwell's tensor cores. Opt-in, because it allocates and includes
// <vector>. Operands are decoded to f32, where a code times its scale is exact. Where a certificate proves it
// exact, a step along K is an ordinary f32 sum and one addition rounded toward zero; elsewhere it is added
// with more care. gemm_step.hpp has the steps of 64, gemm_step_of_32.hpp those of 32. See docs/exact_gemm.md.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include <vector>

#include "../view/accumulate.hpp"
#include "../view/gemm_epilogue.hpp"
#include "../view/gemm_factors.hpp"
#include "../view/validate.hpp"
#include "gemm_step_of_32.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

namespace detail {

inline constexpr i64 chunk_steps = 32, panel_cols = 512;

/// Rows of A in a panel, which is a thread's unit of work. B is decoded anew for each panel, so panels are
/// tall: 512 rows, or down to 128 where there would be fewer than two panels for each thread. `along`: panels
/// along N.
inline i64 rows_of_panel(i64 rows, i64 along, i64 threads) {
  i64 panel = 512;
  while (panel > 128 && along * ceil_div<i64>(rows, panel) < 2 * threads) panel /= 2;
  const i64 all = round_up<i64>(rows > 0 ? rows : 1, rows_at_once);
  return all < panel ? all : panel;
}

/// The rows of A of a panel, decoded over `chunk_steps` steps.
template <class Steps>
struct decoded_rows {
  std::vector<float> values;                   ///< [row][step][value]
  std::vector<typename Steps::bounds> bounds;  ///< [row][step]
  std::vector<typename Steps::state> state;    ///< [row]

  explicit decoded_rows(i64 rows)
      : values(static_cast<u64>(rows * chunk_steps * Steps::values)),
        bounds(static_cast<u64>(rows * chunk_steps)),
        state(static_cast<u64>(rows)) {}
  float* at(i64 row, i64 step) { return values.data() + (row * chunk_steps + step) * Steps::values; }
  auto& bound(i64 row, i64 step) { return bounds[static_cast<u64>(row * chunk_steps + step)]; }
};

/// A strip: strip_cols rows of B (columns of D), decoded over `chunk_steps` steps and transposed.
template <class Steps>
struct decoded_strip {
  std::vector<float> values;                     ///< [step][value][column]
  std::vector<typename Steps::columns> columns;  ///< [step]
  std::vector<typename Steps::bounds> most;      ///< [step]: bounds that hold for all columns

  decoded_strip()
      : values(static_cast<u64>(chunk_steps * Steps::values * strip_cols)),
        columns(static_cast<u64>(chunk_steps)),
        most(static_cast<u64>(chunk_steps)) {}
  float* at(i64 step) { return values.data() + step * Steps::values * strip_cols; }
};

/// A panel: `panel_rows` rows of A by panel_cols rows of B, computed by one thread. It holds the decoded
/// operands of a chunk of steps and the accumulators (`sums`) of all its outputs.
template <class F, class LA, class BA, class G, class LB, class BB>
struct gemm_panel {
  using of_a = steps_of<F, G>;
  using of_b = steps_of<G, F>;
  using bounds = typename of_a::bounds;
  static constexpr int step_values = of_a::values;
  static constexpr model::mma_format format = format_of_step<F, G>();

  block_scaled_view<F, LA, BA> const& a;
  block_scaled_view<G, LB, BB> const& b;
  i64 row, col, panel_rows;
  gemm_steps steps{};
  decoded_rows<of_a> rows{panel_rows};
  decoded_strip<of_b> strip{};
  std::vector<typename of_b::state> state_b = std::vector<typename of_b::state>(static_cast<u64>(panel_cols));
  std::vector<float> sums =
      std::vector<float>(static_cast<u64>(panel_rows * panel_cols));  ///< [strip][row][column]

  float* sums_at(i64 c, i64 r) {
    return sums.data() + (c / strip_cols * panel_rows + r) * strip_cols + c % strip_cols;
  }

  void decode_rows(i64 first, i64 count) {
    for (i64 r = 0; r < panel_rows; ++r)
      for (i64 s = 0; s < count; ++s)
        rows.bound(r, s) =
            of_a::decode(of_a::read(a, row + r, first + s), rows.state[static_cast<u64>(r)], rows.at(r, s));
  }
  void decode_strip(i64 c, i64 first, i64 count) {
    for (i64 s = 0; s < count; ++s) {
      bounds most;
      for (i64 j = 0; j < strip_cols; ++j) {
        float values[step_values];
        const bounds bound =
            of_b::decode(of_b::read(b, col + c + j, first + s), state_b[static_cast<u64>(c + j)], values);
        for (int k = 0; k < step_values; ++k) strip.at(s)[k * strip_cols + j] = values[k];
        strip.columns[static_cast<u64>(s)].set(j, bound);
        most.add(bound);
      }
      strip.most[static_cast<u64>(s)] = most;
    }
  }

  /// Adds one step of `count` rows from r on where a certificate fails for some row and column of the strip.
  void step_with_care(i64 r, i64 count, i64 c, i64 step, i64 in_chunk, i64 cols,
                      float const* const (&values)[rows_at_once], float* const (&to)[rows_at_once]) {
    if constexpr (step_values == 64) {
      float exact[rows_at_once][strip_cols];
      step_in_double(values, strip.at(in_chunk), to, exact);
      for (i64 i = 0; i < count; ++i) {
        int kept[strip_cols], all = 0;
        find_kept(rows.bound(r + i, in_chunk), strip.columns[static_cast<u64>(in_chunk)], to[i], kept);
        for (i64 j = 0; j < cols; ++j) all -= kept[j];
        for (i64 j = 0; all != cols && j < cols; ++j)
          if (kept[j] == 0) exact[i][j] = by_model(r + i, c + j, step, to[i][j]);
        __builtin_memcpy(to[i], exact[i], sizeof exact[i]);
        steps.in_double += all, steps.by_model += cols - all;
      }
    } else {
      for (i64 i = 0; i < count; ++i) step_by_rule(r + i, c, step, in_chunk, cols, values[i], to[i]);
    }
  }
  /// The same for one row, in steps of 32.
  void step_by_rule(i64 r, i64 c, i64 step, i64 in_chunk, i64 cols, float const* values, float* to) {
    if (rows.bound(r, in_chunk).is_none()) {
      for (i64 j = 0; j < cols; ++j) to[j] = by_model(r, c + j, step, to[j]);
      steps.by_model += cols;
      return;
    }
    rule_of_strip& rule = strip.columns[static_cast<u64>(in_chunk)];
    if (!rule.found)
      rule.template find<typename G::element>(strip.at(in_chunk),
                                              [&](i64 j) { return scale_exponent(b, col + c + j, step); });
    step_exponent exponents[32];
    const int scale = scale_exponent(a, row + r, step);
    find_exponents<typename F::element>(
        values, [&](int) { return scale; }, exponents);
    const asked_accumulators asked(rows.bound(r, in_chunk), rule, to);
    float results[strip_cols];
    add_by_rule(values, exponents, strip.at(in_chunk), rule, to, asked.known, results);
    int kept = 0, known = -1;
    for (i64 j = 0; j < cols; ++j) kept -= asked.kept[j], known &= asked.known[j];
    for (i64 j = 0; known == 0 && j < cols; ++j)
      if (asked.known[j] == 0) results[j] = by_model(r, c + j, step, to[j]);
    __builtin_memcpy(to, results, sizeof results);
    steps.in_double += kept, steps.by_model += cols - kept;
  }
  /// One step of one output by the integers of the model.
  float by_model(i64 r, i64 c, i64 step, float sum) const {
    return block_scaled_dot(format, of_a::read(a, row + r, step), of_b::read(b, col + c, step), sum);
  }

  /// Adds `count` steps to all rows of the panel and the strip at column c.
  void add_strip(i64 c, i64 first, i64 count) {
    const i64 cols = b.rows - col - c < strip_cols ? b.rows - col - c : strip_cols,
              last = a.rows - row < panel_rows ? a.rows - row : panel_rows;
    for (i64 r = 0; r < last; r += rows_at_once)
      for (i64 s = 0; s < count; ++s) {
        const bounds most = strip.most[static_cast<u64>(s)];
        float const* values[rows_at_once];
        float* to[rows_at_once];
        bool all = true;
        for (int i = 0; i < rows_at_once; ++i) {
          values[i] = rows.at(r + i, s);
          to[i] = sums_at(c, r + i);
          all = all && is_fast(rows.bound(r + i, s), most, to[i]);
        }
        const i64 here = last - r < rows_at_once ? last - r : rows_at_once;
        if (all) {
          step_in_f32<step_values>(values, strip.at(s), to);
          steps.in_f32 += here * cols;
        } else {
          step_with_care(r, here, c, first + s, s, cols, values, to);
        }
      }
  }

  /// add_strip() for steps of 64, kept out of line: inlined, its loops are a quarter slower with g++. Steps
  /// of 32 are faster inlined.
  [[gnu::noinline]] void add_strip_of_64(i64 c, i64 first, i64 count) { add_strip(c, first, count); }

  void multiply() {
    const i64 all = ceil_div<i64>(a.cols, step_values);
    for (i64 first = 0; first < all; first += chunk_steps) {
      const i64 count = all - first < chunk_steps ? all - first : chunk_steps;
      decode_rows(first, count);
      for (i64 c = 0; c < panel_cols && col + c < b.rows; c += strip_cols) {
        decode_strip(c, first, count);
        if constexpr (step_values == 64)
          add_strip_of_64(c, first, count);
        else
          add_strip(c, first, count);
      }
    }
  }
};

}  // namespace detail

/// D = alpha * A * B^T + beta * D for A (M x K), B (N x K), D (M x N), with the bits of device::gemm:
/// model::block_scaled_dot chained along K in order, then the epilogue of view/gemm_epilogue.hpp. Formats:
/// NVFP4 by NVFP4, MXFP4 by MXFP4, and any two of MXFP8, MXFP6 and MXFP4; M and N of 1 or more. A NaN in an
/// operand gives NaN in its row or column of D. D is not read when beta = 0. `steps`, if not null, receives
/// how the steps were added. Allocates 1 to 6 MB a thread; throws what std::vector throws. Errors: see
/// validate_gemm(); D is then untouched.
template <class F, class LA, class BA, class G, class LB, class BB, class T>
errc gemm(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
          matrix_view<T> const& d, gemm_factors factors, accumulate::blackwell, gemm_steps* steps = nullptr) {
  static_assert(detail::has_steps_of_64<F, G> || detail::has_steps_of_32<F, G>,
                "accumulate::blackwell on the CPU multiplies NVFP4 by NVFP4, and MX formats by each other.");
  if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
  const output_factors<F, G> factor_for(factors.alpha, a.amax.range, b.amax.range);
  i64 threads = 1;
#ifdef _OPENMP
  threads = omp_get_max_threads();
#endif
  const i64 along = ceil_div<i64>(d.cols, detail::panel_cols),
            panel_rows = detail::rows_of_panel(d.rows, along, threads),
            panels = along * ceil_div<i64>(d.rows, panel_rows);
  i64 in_f32 = 0, in_double = 0, by_model = 0;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) reduction(+ : in_f32, in_double, by_model) if (panels > 1)
#endif
  for (i64 p = 0; p < panels; ++p) {
    detail::gemm_panel<F, LA, BA, G, LB, BB> panel{a, b, p / along * panel_rows,
                                                   p % along * detail::panel_cols, panel_rows};
    panel.multiply();
    for (i64 r = 0; r < panel_rows && panel.row + r < d.rows; ++r)
      for (i64 c = 0; c < detail::panel_cols && panel.col + c < d.cols; ++c) {
        const i64 i = panel.row + r, j = panel.col + c;
        const float factor = factor_for(amax_of_row(a, i), amax_of_row(b, j)), sum = *panel.sums_at(c, r);
        store_output(d.at(i, j), factor, sum, factors.beta);
      }
    in_f32 += panel.steps.in_f32, in_double += panel.steps.in_double, by_model += panel.steps.by_model;
  }
  if (steps != nullptr) *steps = {in_f32, in_double, by_model};
  return errc::ok;
}

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
