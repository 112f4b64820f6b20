// SPDX-License-Identifier: Apache-2.0
// The error of quantized values: noise, gain, and what was lost to zero, to clipping and to NaN. Every
// machine gives the same numbers: the sums are in double, each of their products is exact, so that no
// contraction of a*b+c can change a bit, and the order of the additions is fixed.
#pragma once

#include "quantize.hpp"

namespace FOURSCALE_NAMESPACE {

/// Counts and sums over values x and their quantized values Q: of a block, of a matrix, or of several, joined
/// by +=. The sums leave out every element whose x or Q is not finite.
struct statistics {
  u64 elements = 0, blocks = 0;
  u64 not_finite = 0;        ///< elements where x is NaN or infinite
  u64 spoiled = 0;           ///< elements where x is finite and Q is not
  u64 first_nan = ~u64{0};   ///< row * cols + col of the first NaN in x (rows hold the blocks); ~0: none
  u64 flushed_scales = 0;    ///< blocks with nonzero values and a stored scale of 0: all values are lost
  u64 saturated_scales = 0;  ///< blocks that clip under the largest scale: they need a larger one
  u64 dead_zone = 0;         ///< elements where x != 0 became Q = 0, in flushed blocks or by rounding
  u64 clipped = 0;           ///< elements beyond the largest value of their block: Q is that value
  double sum_xx = 0;         ///< x * x
  double sum_xq = 0;         ///< x * Q
  double sum_ee = 0;         ///< (Q - x)^2, with Q - x rounded to 26 bits
  float amax = 0;            ///< of x, as amax() gives it: NaN is dropped, infinity stays

  /// Joins two disjoint parts. The three sums depend on the order of such calls; no other member does.
  FOURSCALE_HD constexpr statistics& operator+=(statistics const& s) {
    elements += s.elements, blocks += s.blocks;
    not_finite += s.not_finite, spoiled += s.spoiled;
    first_nan = s.first_nan < first_nan ? s.first_nan : first_nan;
    flushed_scales += s.flushed_scales, saturated_scales += s.saturated_scales;
    dead_zone += s.dead_zone, clipped += s.clipped;
    sum_xx += s.sum_xx, sum_xq += s.sum_xq, sum_ee += s.sum_ee;
    const i32 mine = amax_bits(amax), other = amax_bits(s.amax);
    amax = bit_cast<float>(mine > other ? mine : other);
    return *this;
  }

  /// <x, Q> / <x, x>: 1 if rounding shrinks as much as it grows. NaN if all x are 0.
  FOURSCALE_HD constexpr double gain() const { return quotient(sum_xq, sum_xx); }
  /// sum (Q - x)^2 / sum x^2. Infinity if any element is spoiled, NaN if all x are 0.
  FOURSCALE_HD constexpr double relative_mse() const {
    return spoiled > 0 ? infinity : quotient(sum_ee, sum_xx);
  }
  /// Signal to quantization noise in dB, 10 log10(sum x^2 / sum (Q - x)^2). Infinity if there is no noise,
  /// -infinity if any element is spoiled. Host only.
  FOURSCALE_H double sqnr_db() const {
    if (spoiled > 0) return -infinity;
    if (sum_ee == 0) return infinity;
#if FOURSCALE_DEVICE_PASS
    return 10 * log10(sum_xx / sum_ee);
#else
    return 10 * __builtin_log10(sum_xx / sum_ee);
#endif
  }
  /// The share of the elements with finite x, or of the blocks. NaN if there are none.
  FOURSCALE_HD constexpr double dead_zone_share() const { return share(dead_zone, elements - not_finite); }
  FOURSCALE_HD constexpr double clipped_share() const { return share(clipped, elements - not_finite); }
  FOURSCALE_HD constexpr double flushed_scale_share() const { return share(flushed_scales, blocks); }
  FOURSCALE_HD constexpr double saturated_scale_share() const { return share(saturated_scales, blocks); }

  /// The same as equality of all bits, because no sum is ever NaN or -0.
  friend FOURSCALE_H constexpr bool operator==(statistics const&, statistics const&) = default;

 private:
  static constexpr double infinity = bit_cast<double>(u64{0x7ff0} << 48);
  FOURSCALE_HD static constexpr double quotient(double a, double b) {
    return b == 0 ? bit_cast<double>(u64{0x7ff8} << 48) : a / b;
  }
  FOURSCALE_HD static constexpr double share(u64 part, u64 all) {
    return quotient(static_cast<double>(part), static_cast<double>(all));
  }
};

namespace detail {

/// x as a double, exactly: cvt.f64.f32 in device code, where --use_fast_math would flush subnormals.
FOURSCALE_HD constexpr double to_double(float x) {
#if FOURSCALE_DEVICE_PASS
  if (!is_constant_evaluated()) {
    double d;
    asm("cvt.f64.f32 %0, %1;" : "=d"(d) : "f"(x));
    return d;
  }
#endif
  return static_cast<double>(x);
}

/// q - x, rounded to 26 bits: its square is exact.
FOURSCALE_HD constexpr double error_of(double x, double q) {
  constexpr int dropped = 53 - 26;
  const u64 bits = bit_cast<u64>(q - x) + (u64{1} << (dropped - 1));
  return bit_cast<double>(bits >> dropped << dropped);
}

FOURSCALE_HD constexpr i32 magnitude_bits(float x) {
  return static_cast<i32>(bit_cast<u32>(x) & 0x7fff'ffffu);
}
FOURSCALE_HD constexpr bool is_finite(float x) {
  return magnitude_bits(x) < static_cast<i32>(float_inf_bits);
}

/// How many elements of a block one unrolled loop takes: as many as registers hold.
template <int N>
inline constexpr int together = N < 32 ? N : 32;

/// Counts the values that are not finite, those that became zero, and those larger than `limit`.
template <int N>
FOURSCALE_HD constexpr void count_losses(float const (&x)[N], float const (&q)[N], float limit,
                                         statistics& s) {
  i32 finite = 0, both = 0, to_zero = 0, clipped = 0;
  for (int first = 0; first < N; first += together<N>) {
    FOURSCALE_UNROLL
    for (int i = first; i < first + together<N>; ++i) {
      const i32 x_bits = magnitude_bits(x[i]), q_bits = magnitude_bits(q[i]);
      const i32 x_is_finite = is_finite(x[i]), both_are = x_is_finite & i32{is_finite(q[i])};
      finite += x_is_finite;
      both += both_are;
      to_zero += both_are & i32{x_bits != 0} & i32{q_bits == 0};
      clipped += both_are & i32{x_bits > magnitude_bits(limit)} & i32{q_bits != 0};
    }
  }
  s.not_finite = static_cast<u64>(N - finite);
  s.spoiled = static_cast<u64>(finite - both);
  s.dead_zone = static_cast<u64>(to_zero);
  s.clipped = static_cast<u64>(clipped);
}

/// Adds to the sums in the order of the elements, where both x and q are finite.
template <int N>
FOURSCALE_HD constexpr void add_products(float const (&x)[N], float const (&q)[N], statistics& s) {
  for (int first = 0; first < N; first += together<N>) {
    FOURSCALE_UNROLL
    for (int i = first; i < first + together<N>; ++i) {
      const bool counts = is_finite(x[i]) && is_finite(q[i]);
      const double a = to_double(counts ? x[i] : 0.0f), b = to_double(counts ? q[i] : 0.0f);
      const double e = error_of(a, b);
      s.sum_xx += a * a;
      s.sum_xq += a * b;
      s.sum_ee += e * e;
    }
  }
}

/// Values with a larger magnitude than this count as clipped. It is the largest value that the block can
/// hold, plus 2^-20 of it for the roundings of dequantization and of FP32 scales.
template <block_format F>
FOURSCALE_HD constexpr float clipping_limit(packed_block<F> const& block, tensor_scale<F> const& tensor) {
  const float factor = tensor.dequantize_factor(decode(block.scale));
  return ptx::mul_rn_f32(ptx::mul_rn_f32(factor, largest_element<typename F::element>), 1 + 0x1p-20f);
}

template <block_format F>
FOURSCALE_HD constexpr bool is_largest_scale(typename F::scale scale) {
  if constexpr (format<typename F::scale>)
    return scale.bits == F::scale::max_bits;
  else
    return block_scale_bytes<F> > 0 && scale.bits == float_max_bits;
}

/// The fixed order in which the statistics of a matrix are summed. A strip is up to 32 consecutive blocks of
/// one row; its number is (first block / 32) * rows + row. There are 32 * 2048 partial sums, called lanes.
/// Strip s belongs to the 32 lanes from 32 * (s % 2048) on, one block to each. A lane adds its blocks in the
/// order of their strips. Then neighbouring lanes are joined, 2i with 2i + 1, until one is left. A strip_walk
/// steps through the strips of 32 lanes.
struct strip_walk {
  static constexpr int width = 32, walks = 2048;

  i64 rows, row, first_block;

  /// Begins at strip `walk`; next() goes on to walk + walks, walk + 2 * walks, ...
  FOURSCALE_HD constexpr strip_walk(i64 matrix_rows, i64 walk)
      : rows(matrix_rows), row(walk % rows), first_block(walk / rows * width) {}
  FOURSCALE_HD constexpr void next(i64 rows_on, i64 blocks_on) {
    row += rows_on;
    first_block += blocks_on;
    if (row >= rows) row -= rows, first_block += width;
  }
  FOURSCALE_HD constexpr i64 rows_on() const { return walks % rows; }
  FOURSCALE_HD constexpr i64 blocks_on() const { return walks / rows * width; }
};

}  // namespace detail

/// The statistics of one block. x are the values as they were quantized: after a transform, the transformed
/// ones. `where` is the position of x[0] in a matrix of `cols` columns.
template <block_format F>
FOURSCALE_HD constexpr statistics block_statistics(float const (&x)[F::block_size],
                                                   packed_block<F> const& block,
                                                   tensor_scale<F> const& tensor, position where = {},
                                                   i64 cols = 0) {
  float q[F::block_size]{};
  dequantize_block(block, q, tensor);
  statistics s;
  s.elements = F::block_size;
  s.blocks = 1;
  detail::count_losses(x, q, detail::clipping_limit(block, tensor), s);
  detail::add_products(x, q, s);
  s.amax = block_amax(x);
  if (detail::magnitude_bits(decode(block.scale)) == 0)
    s.flushed_scales = detail::magnitude_bits(s.amax) != 0;
  s.saturated_scales = s.clipped > 0 && detail::is_largest_scale<F>(block.scale);
  if (s.not_finite > 0)
    for (int i = F::block_size - 1; i >= 0; --i)
      if (detail::magnitude_bits(x[i]) > static_cast<i32>(float_inf_bits))
        s.first_nan = static_cast<u64>(where.row * cols + where.col + i);
  return s;
}

}  // namespace FOURSCALE_NAMESPACE
