// SPDX-License-Identifier: Apache-2.0
// The reference block-scaled GEMM on the CPU, which the others are compared with: simple, and as exact as
// double allows. host/gemm_blackwell.hpp has the GEMM with the bits of Blackwell.
#pragma once

#include "../block/quantize.hpp"
#include "../view/gemm_factors.hpp"
#include "../view/validate.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

namespace detail {

/// The factor of one operand that the sum of code * scale products still lacks: the inverse of its tensor
/// scale (amax / 2688 for NVFP4), or 1 for formats without a tensor scale.
template <class F>
double tensor_factor(tensor_scale<F> const& tensor) {
  if constexpr (block_scale_bytes<F> == 0)
    return static_cast<double>(tensor.decode);
  else if constexpr (F::has_tensor_scale)
    return static_cast<double>(tensor.amax) / static_cast<double>(tensor.largest);
  else
    return 1.0;
}

/// Row i of A times row j of B, without the tensor scales: summed in order, in double. Products are exact,
/// and so is the sum of a block, except for E5M2, whose range is too wide.
template <class F, class LA, class BA, class G, class LB, class BB>
double dot(block_scaled_view<F, LA, BA> const& a, i64 i, block_scaled_view<G, LB, BB> const& b, i64 j) {
  constexpr int n = F::block_size;
  double sum = 0;
  for (i64 block = 0; block < a.blocks(); ++block) {
    const packed_block<F> x = a.load(i, block);
    const packed_block<G> y = b.load(j, block);
    double in_block = 0;
    for (int k = 0; k < n; ++k)
      in_block += static_cast<double>(decode(x.get(k))) * static_cast<double>(decode(y.get(k)));
    sum += in_block * (static_cast<double>(decode(x.scale)) * static_cast<double>(decode(y.scale)));
  }
  return sum;
}

/// x rounded to odd: truncated to float, and the last bit is set (a sticky bit) if that lost anything.
/// Rounding the result to bf16 or fp16 then gives x rounded once.
inline float to_odd(double x) {
  const float nearest = static_cast<float>(x);
  const double error = x - static_cast<double>(nearest);
  if (!(error != 0.0) || error != error) return nearest;
  u32 bits = bit_cast<u32>(nearest);
  if ((error < 0.0) != (x < 0.0)) --bits;  // `nearest` is beyond x: back toward zero
  return bit_cast<float>(bits | 1u);
}

}  // namespace detail

/// D = alpha * A * B^T + beta * D for A (M x K), B (N x K), D (M x N). The two formats may differ, but must
/// have the same block size. D is rounded once, at the end. Before that rounding |error| <= (K / block_size +
/// 4) * 2^-53 * sum |a||b| |alpha|, since only the sum over blocks and the last four operations are inexact
/// in double; with E5M2, K takes the place of K / block_size. D is not read when beta = 0. Errors: see
/// validate_gemm(); D is then untouched.
template <class F, class LA, class BA, class G, class LB, class BB, class T>
errc gemm(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
          matrix_view<T> const& d, gemm_factors factors = {}) {
  static_assert(F::block_size == G::block_size, "Both operands of a GEMM need blocks of the same size.");
  if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
#ifdef _OPENMP
#pragma omp parallel for if (d.rows * d.cols > 256)
#endif
  for (i64 i = 0; i < d.rows; ++i) {
    const double row_factor =
        static_cast<double>(factors.alpha) * detail::tensor_factor<F>(a.amax.scale_of_row(i));
    for (i64 j = 0; j < d.cols; ++j) {
      const double scale = row_factor * detail::tensor_factor<G>(b.amax.scale_of_row(j));
      double value = scale * detail::dot(a, i, b, j);
      if (factors.beta != 0.0f)
        value += static_cast<double>(factors.beta) * static_cast<double>(to_float(d.at(i, j)));
      d.at(i, j) =
          from_float<T>(sizeof(T) < sizeof(float) ? detail::to_odd(value) : static_cast<float>(value));
    }
  }
  return errc::ok;
}

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
