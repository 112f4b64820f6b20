// SPDX-License-Identifier: Apache-2.0
// What device::gemm must give, written as loops over elements: block_scaled_dot chained in issue order, then
// the epilogue. It reads codes and scales one at a time and knows of no fragment, tile or stage.
#pragma once

#include <cstddef>
#include <fourscale/host/gemm.hpp>
#include <fourscale/model/block_scaled_dot.hpp>
#include <vector>

namespace fourscale::test {

/// In which order the instructions along K are chained. Only `ascending` is right.
enum class step_order { ascending, descending };

template <class E>
constexpr model::element_type type_of() {
  if constexpr (same_type<E, e2m1>)
    return model::element_type::e2m1;
  else if constexpr (same_type<E, e5m2>)
    return model::element_type::e5m2;
  else if constexpr (same_type<E, e2m3>)
    return model::element_type::e2m3;
  else if constexpr (same_type<E, e3m2>)
    return model::element_type::e3m2;
  else
    return model::element_type::e4m3;
}

template <class F, class G>
constexpr model::mma_format mma_format_of() {
  if constexpr (F::element::width == 4 && G::element::width == 4)
    return F::block_size == 16 ? model::nvfp4_mma : model::mxfp4_mma;
  model::mma_format f = model::mxfp8_mma;
  f.a = type_of<typename F::element>();
  f.b = type_of<typename G::element>();
  return f;
}

/// What instruction `step` reads of a row; zero behind the matrix. Kind mxf8f6f4 has a byte for each element.
template <class F, class L, class B>
model::operand_row row_of_step(model::mma_format const& f, block_scaled_view<F, L, B> const& q, i64 row,
                               i64 step) {
  const int n = f.k(), width = 256 / n, shift = width == 8 && F::element::width == 4 ? 2 : 0;
  model::operand_row x;
  for (int k = 0; k < n && step * n + k < q.cols; ++k)
    x.words[k * width / 64] |= u64{q.load_code(row, step * n + k).bits} << (k * width % 64 + shift);
  for (int j = 0; j < n / F::block_size; ++j)
    if (const i64 block = step * n / F::block_size + j; block < q.blocks())
      x.scales |= u32{q.load_scale(row, block).bits} << (8 * j);
  return x;
}
template <class F, class L, class B>
std::vector<model::operand_row> all_steps(model::mma_format const& f, block_scaled_view<F, L, B> const& q,
                                          i64 steps) {
  std::vector<model::operand_row> rows;
  for (i64 row = 0; row < q.rows; ++row)
    for (i64 step = 0; step < steps; ++step) rows.push_back(row_of_step(f, q, row, step));
  return rows;
}

/// Transformer Engine's alpha for NVFP4; alpha itself for MX. One rounding an operation.
template <class F>
float oracle_factor(float alpha, tensor_scale<F> const& a, tensor_scale<F> const& b) {
  if constexpr (!F::has_tensor_scale) {
    return alpha;
  } else {
    volatile float x = alpha * a.amax;  // volatile: nothing may be contracted
    x = x * b.amax;
    volatile float range = a.largest * b.largest, inverse = 1.0f / range;
    return x * inverse;
  }
}
template <class F, class G>
float oracle_factor(float alpha, tensor_scale<F> const&, tensor_scale<G> const&) {
  return alpha;
}

/// The accumulators of every output, [row][column].
template <class F, class LA, class BA, class G, class LB, class BB>
std::vector<float> chained_sums(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
                                step_order order = step_order::ascending) {
  constexpr model::mma_format f = mma_format_of<F, G>();
  const i64 steps = ceil_div<i64>(a.cols, f.k());
  const std::vector<model::operand_row> rows_a = all_steps(f, a, steps), rows_b = all_steps(f, b, steps);
  std::vector<float> sums(static_cast<std::size_t>(a.rows * b.rows));
#ifdef _OPENMP
#pragma omp parallel for
#endif
  for (i64 i = 0; i < a.rows; ++i)
    for (i64 j = 0; j < b.rows; ++j) {
      float sum = 0.0f;
      for (i64 s = 0; s < steps; ++s) {
        const i64 step = order == step_order::ascending ? s : steps - 1 - s;
        sum =
            model::block_scaled_dot(f, rows_a.data()[i * steps + step], rows_b.data()[j * steps + step], sum);
      }
      sums[static_cast<std::size_t>(i * b.rows + j)] = sum;
    }
  return sums;
}

/// The epilogue: from sums to D.
template <class F, class LA, class BA, class G, class LB, class BB, class T>
void store_sums(std::vector<float> const& sums, block_scaled_view<F, LA, BA> const& a,
                block_scaled_view<G, LB, BB> const& b, matrix_view<T> const& d, gemm_factors factors) {
  for (i64 i = 0; i < d.rows; ++i)
    for (i64 j = 0; j < d.cols; ++j) {
      const float own = oracle_factor(factors.alpha, a.amax.scale_of_row(i), b.amax.scale_of_row(j));
      volatile float value = own * sums[static_cast<std::size_t>(i * d.cols + j)];
      if (factors.beta != 0.0f) {
        volatile float c = factors.beta * to_float(d.at(i, j));
        value = value + c;
      }
      const float of_gpu = value == value ? value : bit_cast<float>(0x7fff'ffffu);  // its only NaN
      d.at(i, j) = from_float<T>(of_gpu);
    }
}

/// D of the oracle, in the values of its type.
template <class F, class LA, class BA, class G, class LB, class BB, class T>
void gemm_oracle(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
                 matrix_view<T> const& d, gemm_factors factors = {},
                 step_order order = step_order::ascending) {
  store_sums(chained_sums(a, b, order), a, b, d, factors);
}

}  // namespace fourscale::test
