// SPDX-License-Identifier: Apache-2.0
// The exact product of a GEMM of NVFP4, in integers, or of MX formats, in double, and how far from it the
// sums of accumulate::native, of FP8 and of the model may be. docs/native_gemm.md derives both bounds.
#pragma once

#include <cmath>
#include <cstddef>
#include <fourscale/formats/convert.hpp>
#include <fourscale/view/block_scaled_view.hpp>
#include <vector>

namespace fourscale::test {

/// Sums of f32, in any order and grouping, of k products whose magnitudes add up to `magnitude`.
inline double native_bound(i64 k, double magnitude) {
  const double u = 3 * static_cast<double>(k) * 0x1p-23;
  return u / (1 - u) * magnitude;
}
/// The same of gemm_fp8() on Hopper: groups of 128 in four sums of 14 bits, then in f32.
inline double fp8_bound(i64 k, double magnitude) {
  const double groups = static_cast<double>(ceil_div<i64>(k, 128));
  return (0.0455 + 1.1 * (groups + 1) * 0x1p-24) * magnitude;
}
/// Steps of block_scaled_dot. `scales`: 2 to the largest sum of exponents that two scales have.
inline double model_bound(i64 k, double magnitude, double scales) {
  const double steps = static_cast<double>(ceil_div<i64>(k, 64)), dropped = 5 * 0x1p-35,
               u = steps * (0x1p-23 + dropped);
  return (u * magnitude + steps * dropped * scales) / (1 - u);
}

/// A sum of products without tensor scales. `nan`: one of the scales is NaN.
struct exact_sum {
  double sum, magnitude, scales;
  bool nan;
};

/// Rows of an operand of an MX format as numbers, infinities and NaNs among them. A sum is one of doubles,
/// which is wrong by less than a millionth of what the bound of f32 allows; beyond f32 it is infinite.
struct mx_rows {
  static constexpr double lost_below = 0x1p-125;  ///< by a product and a sum that are no normal numbers
  i64 cols;
  std::vector<double> values;

  template <class F, class Layout, class Byte>
  explicit mx_rows(block_scaled_view<F, Layout, Byte> const& q) : cols(q.cols) {
    for (i64 row = 0; row < q.rows; ++row)
      for (i64 col = 0; col < cols; ++col)
        values.push_back(static_cast<double>(decode(q.load_code(row, col))) *
                         static_cast<double>(decode(q.load_scale(row, col / F::block_size))));
  }
  exact_sum times(i64 i, mx_rows const& b, i64 j) const {
    double sum = 0, magnitude = 0;
    for (i64 k = 0; k < cols; ++k) {
      const double product =
          values[static_cast<std::size_t>(i * cols + k)] * b.values[static_cast<std::size_t>(j * cols + k)];
      sum += product, magnitude += std::fabs(product);
    }
    if (std::fabs(sum) >= 0x1p128) sum = std::copysign(HUGE_VAL, sum);
    return {sum, magnitude, 0, sum != sum};
  }
};

/// Rows of an operand of NVFP4 as numbers: values, and 2 to the exponent of each block's scale. The signs of
/// scales are ignored.
struct exact_rows {
  static constexpr double lost_below = 0;
  i64 cols;
  std::vector<double> values, powers;
  std::vector<bool> nan;

  template <class Layout, class Byte>
  explicit exact_rows(block_scaled_view<nvfp4, Layout, Byte> const& q)
      : cols(q.cols), nan(static_cast<std::size_t>(q.rows)) {
    for (i64 row = 0; row < q.rows; ++row)
      for (i64 col = 0; col < cols; ++col) {
        const u8 bits = q.load_scale(row, col / 16).bits & 0x7f;
        const double scale = bits == e4m3::nan_bits ? 0.0 : static_cast<double>(decode(e4m3{bits}));
        if (bits == e4m3::nan_bits) nan[static_cast<std::size_t>(row)] = true;
        values.push_back(static_cast<double>(decode(q.load_code(row, col))) * scale);
        if (col % 16 == 0)
          powers.push_back(scale == 0 ? 0 : std::ldexp(1.0, std::max(std::ilogb(scale), -6)));
      }
  }
  /// Row i of this one with row j of b. A product is a whole number of 2^-20, below 2^23.
  exact_sum times(i64 i, exact_rows const& b, i64 j) const {
    i64 sum = 0, magnitude = 0;
    for (i64 k = 0; k < cols; ++k) {
      const i64 product = static_cast<i64>(values[at(i, k)] * b.values[at(j, k)] * 0x1p20);
      sum += product;
      magnitude += product < 0 ? -product : product;
    }
    double largest = 0;
    for (i64 k = 0; k < cols / 16; ++k)
      largest = std::max(largest, powers[at(i, k, 16)] * b.powers[at(j, k, 16)]);
    return {static_cast<double>(sum) * 0x1p-20, static_cast<double>(magnitude) * 0x1p-20, largest,
            nan[static_cast<std::size_t>(i)] || b.nan[static_cast<std::size_t>(j)]};
  }

 private:
  std::size_t at(i64 row, i64 k, i64 each = 1) const {
    return static_cast<std::size_t>(row * (cols / each) + k);
  }
};

template <class Layout, class Byte>
exact_rows rows_of(block_scaled_view<nvfp4, Layout, Byte> const& q) {
  return exact_rows(q);
}
template <class F, class Layout, class Byte>
mx_rows rows_of(block_scaled_view<F, Layout, Byte> const& q) {
  return mx_rows(q);
}

/// |value - D| / the largest that it may be, for D = factor * sum + beta * c: the sum's bound, three
/// operations in f32, and one rounding to T, which may be subnormal. `bound`: of the sum.
template <class T>
double error_in_bounds(double value, double factor, exact_sum const& exact, double bound, double beta,
                       double c) {
  const double to_type = sizeof(T) == 4       ? 0
                         : same_type<T, bf16> ? 0x1p-8
                                              : 0x1p-11,
               least = same_type<T, fp16> ? 0x1p-25 : 0x1p-134;
  const double want = factor * exact.sum + beta * c,
               largest = std::fabs(factor) * (std::fabs(exact.sum) + bound) + std::fabs(beta * c);
  const double allowed = std::fabs(factor) * bound + largest * (3 * 0x1p-24 + to_type) * (1 + 0x1p-8) + least;
  return value == want ? 0 : std::fabs(value - want) / allowed;
}

}  // namespace fourscale::test
