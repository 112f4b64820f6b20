// SPDX-License-Identifier: Apache-2.0
// Opt-in, because it allocates and includes <vector>: a GEMM on the CPU with the bits of Blackwell's tensor
// cores. Operands are decoded to f32, where a code times its scale is exact; a step of K = 64 is then an
// ordinary sum, one addition rounded toward zero, and a certificate that this was exact. See
// docs/exact_gemm.md.
#pragma once

#include <vector>

#include "../model/certificate.hpp"
#include "../view/accumulate.hpp"
#include "../view/gemm_epilogue.hpp"
#include "../view/gemm_factors.hpp"
#include "../view/validate.hpp"

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
inline constexpr int step_values = 64, panel_rows = 128, strip_cols = 32;
inline constexpr int rows_at_once = vector_bytes / 16;  ///< so that their sums fit in registers
inline constexpr i64 chunk_steps = 32, panel_cols = 512;

/// The formats whose step is 64 values of E2M1.
template <class F>
inline constexpr bool has_steps_of_64 = same_type<typename F::element, e2m1> &&
                                        ((F::block_size == 16 && same_type<typename F::scale, e4m3>) ||
                                         (F::block_size == 32 && same_type<typename F::scale, e8m0>));
template <class F>
inline constexpr model::mma_format step_format = F::block_size == 16 ? model::nvfp4_mma : model::mxfp4_mma;

/// One row, one step: as the model reads it; zero behind the matrix.
template <class F, class L, class B>
model::operand_row operand_of_step(block_scaled_view<F, L, B> const& q, i64 row, i64 step) {
  constexpr int blocks = step_values / F::block_size, words = 4 / blocks;
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

/// Of a byte of two codes: their values, and what the certificate asks of them.
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

/// Decodes a step of a row; and what the certificate asks of it.
template <class F>
model::step_bounds decode_step(model::operand_row const& x, model::row_bounds& row,
                               float (&values)[step_values]) {
  using scale = typename F::scale;
  model::code_facts facts[4];
  for (int group = 0; group < 4; ++group)
    for (int i = 0; i < 8; ++i) {
      const u32 byte = static_cast<u32>(x.words[group] >> (8 * i)) & 0xffu;
      facts[group].add(of_code_pair.facts[byte]);
      __builtin_memcpy(values + 16 * group + 2 * i, of_code_pair.values[byte], 2 * sizeof(float));
    }
  const auto scale_of = [&](int group) {
    return model::scale_parts(scale{static_cast<u8>(x.scales >> (8 * (group * 16 / F::block_size)))});
  };
  const model::scale_parts scales[4] = {scale_of(0), scale_of(1), scale_of(2), scale_of(3)};
  for (int i = 0; i < step_values; ++i) values[i] *= scales[i / 16].value;
  return row.next(facts, scales);
}

/// Rows of A, decoded over `chunk_steps` steps.
struct decoded_rows {
  std::vector<float> values;               ///< [row][step][value]
  std::vector<model::step_bounds> bounds;  ///< [row][step]
  std::vector<model::row_bounds> state;

  explicit decoded_rows(i64 rows)
      : values(static_cast<u64>(rows * chunk_steps * step_values)),
        bounds(static_cast<u64>(rows * chunk_steps)),
        state(static_cast<u64>(rows)) {}
  float* at(i64 row, i64 step) { return values.data() + (row * chunk_steps + step) * step_values; }
  model::step_bounds& bound(i64 row, i64 step) { return bounds[static_cast<u64>(row * chunk_steps + step)]; }
};

/// strip_cols rows of B, decoded over `chunk_steps` steps and transposed.
struct decoded_strip {
  std::vector<float> values;               ///< [step][value][column]
  std::vector<model::step_bounds> bounds;  ///< [step][column]
  std::vector<model::step_bounds> most;    ///< [step]: of all columns

  decoded_strip()
      : values(static_cast<u64>(chunk_steps * step_values * strip_cols)),
        bounds(static_cast<u64>(chunk_steps * strip_cols)),
        most(static_cast<u64>(chunk_steps)) {}
  float* at(i64 step) { return values.data() + step * step_values * strip_cols; }
};

/// x as f32, rounded toward zero.
inline float toward_zero(double x) {
  const float nearest = static_cast<float>(x);
  const double back = static_cast<double>(nearest);
  return bit_cast<float>(bit_cast<u32>(nearest) - u32{(back < 0.0 ? -back : back) > (x < 0.0 ? -x : x)});
}

/// Columns of a strip that fit in a register.
using lanes [[gnu::vector_size(vector_bytes)]] = float;
inline constexpr int strip_lanes = strip_cols * static_cast<int>(sizeof(float)) / vector_bytes;

/// Products of `Count` values of Rows rows with a strip. Every sum is exact, so the order is free.
template <int Rows, int Count>
void add_products(float const* const (&a)[Rows], float const* b, float (&t)[Rows][strip_cols]) {
  lanes sums[Rows][strip_lanes] = {};
  for (int k = 0; k < Count; ++k) {
    lanes columns[strip_lanes];
    __builtin_memcpy(columns, b + k * strip_cols, sizeof columns);
    FOURSCALE_UNROLL
    for (int r = 0; r < Rows; ++r) {
      FOURSCALE_UNROLL
      for (int l = 0; l < strip_lanes; ++l) sums[r][l] += a[r][k] * columns[l];
    }
  }
  __builtin_memcpy(t, sums, sizeof t);
}

/// A step of Rows rows whose certificates hold for the whole strip.
template <int Rows>
void step_in_f32(float const* const (&a)[Rows], float const* b, float* const (&sums)[Rows]) {
  float t[Rows][strip_cols];
  add_products<Rows, step_values>(a, b, t);
  for (int r = 0; r < Rows; ++r)
    for (int j = 0; j < strip_cols; ++j)
      sums[r][j] = toward_zero(static_cast<double>(sums[r][j]) + static_cast<double>(t[r][j]));
}

/// A step of a row by blocks of 16 values: each is exact in f32, their sum in double where nothing is
/// dropped.
inline void step_in_double(float const* a, float const* b, float const* sums, float* result) {
  double all[strip_cols];
  for (int j = 0; j < strip_cols; ++j) all[j] = static_cast<double>(sums[j]);
  for (int block = 0; block < 4; ++block) {
    float t[1][strip_cols];
    float const* const row[1] = {a + 16 * block};
    add_products<1, 16>(row, b + 16 * block * strip_cols, t);
    for (int j = 0; j < strip_cols; ++j) all[j] += static_cast<double>(t[0][j]);
  }
  for (int j = 0; j < strip_cols; ++j) result[j] = toward_zero(all[j]);
}

/// What a thread works on: panel_rows rows of A with panel_cols rows of B.
template <class F, class LA, class BA, class LB, class BB>
struct gemm_panel {
  block_scaled_view<F, LA, BA> const& a;
  block_scaled_view<F, LB, BB> const& b;
  i64 row, col;
  gemm_steps steps{};
  decoded_rows rows{panel_rows};
  decoded_strip strip{};
  std::vector<model::row_bounds> state_b = std::vector<model::row_bounds>(static_cast<u64>(panel_cols));
  std::vector<float> sums =
      std::vector<float>(static_cast<u64>(panel_rows * panel_cols));  ///< [strip][row][column]

  float* sums_at(i64 c, i64 r) {
    return sums.data() + (c / strip_cols * panel_rows + r) * strip_cols + c % strip_cols;
  }

  void decode_rows(i64 first, i64 count) {
    for (i64 r = 0; r < panel_rows; ++r)
      for (i64 s = 0; s < count; ++s)
        rows.bound(r, s) =
            decode_step<F>(operand_of_step(a, row + r, first + s), rows.state[static_cast<u64>(r)],
                           reinterpret_cast<float(&)[step_values]>(*rows.at(r, s)));
  }
  void decode_strip(i64 c, i64 first, i64 count) {
    for (i64 s = 0; s < count; ++s) {
      model::step_bounds most;
      for (i64 j = 0; j < strip_cols; ++j) {
        float values[step_values];
        const model::step_bounds bound = decode_step<F>(operand_of_step(b, col + c + j, first + s),
                                                        state_b[static_cast<u64>(c + j)], values);
        for (int k = 0; k < step_values; ++k) strip.at(s)[k * strip_cols + j] = values[k];
        strip.bounds[static_cast<u64>(s * strip_cols + j)] = bound;
        most.width = bound.width > most.width ? bound.width : most.width;
        most.span = bound.span > most.span ? bound.span : most.span;
      }
      strip.most[static_cast<u64>(s)] = most;
    }
  }

  /// A step of one row whose certificate does not hold for all of the strip.
  void step_with_care(i64 r, i64 c, i64 step, i64 in_chunk, i64 cols) {
    float* const to = sums_at(c, r);
    float exact[strip_cols];
    step_in_double(rows.at(r, in_chunk), strip.at(in_chunk), to, exact);
    const model::step_bounds bound = rows.bound(r, in_chunk);
    const model::operand_row x = operand_of_step(a, row + r, step);
    for (i64 j = 0; j < cols; ++j)
      if (nothing_is_dropped(bound, strip.bounds[static_cast<u64>(in_chunk * strip_cols + j)])) {
        to[j] = exact[j];
        ++steps.in_double;
      } else {
        to[j] = block_scaled_dot(step_format<F>, x, operand_of_step(b, col + c + j, step), to[j]);
        ++steps.by_model;
      }
  }

  void add_strip(i64 c, i64 first, i64 count) {
    const i64 cols = b.rows - col - c < strip_cols ? b.rows - col - c : strip_cols,
              last = a.rows - row < panel_rows ? a.rows - row : panel_rows;
    for (i64 r = 0; r < last; r += rows_at_once)
      for (i64 s = 0; s < count; ++s) {
        const model::step_bounds most = strip.most[static_cast<u64>(s)];
        float const* values[rows_at_once];
        float* to[rows_at_once];
        bool all = true;
        for (int i = 0; i < rows_at_once; ++i) {
          const model::step_bounds bound = rows.bound(r + i, s);
          all &= sums_are_exact(bound, most) && nothing_is_dropped(bound, most);
          values[i] = rows.at(r + i, s);
          to[i] = sums_at(c, r + i);
        }
        const i64 here = last - r < rows_at_once ? last - r : rows_at_once;
        if (all) {
          step_in_f32<rows_at_once>(values, strip.at(s), to);
          steps.in_f32 += here * cols;
        } else {
          for (i64 i = 0; i < here; ++i) step_with_care(r + i, c, first + s, s, cols);
        }
      }
  }

  void multiply() {
    const i64 all = ceil_div<i64>(a.cols, step_values);
    for (i64 first = 0; first < all; first += chunk_steps) {
      const i64 count = all - first < chunk_steps ? all - first : chunk_steps;
      decode_rows(first, count);
      for (i64 c = 0; c < panel_cols && col + c < b.rows; c += strip_cols) {
        decode_strip(c, first, count);
        add_strip(c, first, count);
      }
    }
  }
};

}  // namespace detail

/// D = alpha * A * B^T + beta * D for A (M x K), B (N x K), D (M x N), with the bits of
/// model::block_scaled_dot chained along K in order, and of the epilogue in view/gemm_epilogue.hpp: those of
/// device::gemm. NVFP4 by NVFP4 or MXFP4 by MXFP4; any M and N. A NaN among the scales gives NaN in its row
/// or column. D is not read when beta = 0. `steps`, if it is not null, receives how the steps were added.
/// Allocates about 2 MB a thread; throws what std::vector throws. Errors: see validate_gemm(); D is then
/// untouched.
template <class F, class LA, class BA, class LB, class BB, class T>
errc gemm(block_scaled_view<F, LA, BA> const& a, block_scaled_view<F, LB, BB> const& b,
          matrix_view<T> const& d, gemm_factors factors, accumulate::blackwell, gemm_steps* steps = nullptr) {
  static_assert(detail::has_steps_of_64<F>, "accumulate::blackwell on the CPU multiplies NVFP4 or MXFP4.");
  if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
  const output_factors<F, F> factor_for(factors.alpha, a.amax.range, b.amax.range);
  const i64 along = ceil_div<i64>(d.cols, detail::panel_cols),
            panels = along * ceil_div<i64>(d.rows, detail::panel_rows);
  i64 in_f32 = 0, in_double = 0, by_model = 0;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) reduction(+ : in_f32, in_double, by_model) if (panels > 1)
#endif
  for (i64 p = 0; p < panels; ++p) {
    detail::gemm_panel<F, LA, BA, LB, BB> panel{a, b, p / along * detail::panel_rows,
                                                p % along * detail::panel_cols};
    panel.multiply();
    for (i64 r = 0; r < detail::panel_rows && panel.row + r < d.rows; ++r)
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
