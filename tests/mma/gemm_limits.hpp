// SPDX-License-Identifier: Apache-2.0
// A GEMM whose accumulators lie on both sides of the limit below which the MMA drops no product.
#pragma once

#include <cmath>

#include "gemm_case.hpp"
#include "gemm_data.hpp"

namespace fourscale::test {

/// The least product there is takes an accumulator to the float below, unless the accumulator's exponent is
/// more than 35 larger: then the adder drops the product. Groups of 8 rows and of 8 columns have an
/// accumulator each, 2^4 to 2^18, or some bits more.
inline gemm_case<nvfp4, linear, nvfp4, linear, float> large_accumulators() {
  constexpr i64 m = 16 * 16, n = 24, k = 128;
  const auto fill = [](host_buffer<nvfp4>& q, i64 row, int exponent, u8 codes, u8 next, u8 least = 0x01) {
    const size_t at = static_cast<size_t>(row);
    q.codes[at * (k / 2)] = codes;
    q.scales[at * (k / 16)] = static_cast<u8>((7 + exponent) << 3);
    q.codes[at * (k / 2) + 32] = next;
    q.scales[at * (k / 16) + 4] = least;  // 2^-9
  };
  host_buffer<nvfp4> a(m, k, amax_value(2688.0f)), b(n, k, amax_value(2688.0f));
  for (i64 row = 0; row < m; ++row) {  // 1 or 2, lower eights of 16 rows 0.5 too; then 0.5 or -0.5
    const u8 code = static_cast<u8>(row / 16 % 2 == 0 ? 0x02 : 0x04);
    fill(a, row, static_cast<int>(row / 32), row % 16 < 8 ? code : code | 0x10, row % 2 == 0 ? 0x01 : 0x09,
         row % 16 < 8 ? 0x01 : 0x02);
  }
  for (i64 row = 0; row < n; ++row)  // 4, and 0.5 in every other column; then 0.5
    fill(b, row, static_cast<int>(2 + row / 8 * 3), row % 2 == 0 ? 0x06 : 0x16, 0x01);
  auto c = nvfp4_case(a, b, {1.0f, 0.0f});
  const std::vector<float> sums = c.sums();
  int dropped = 0, kept = 0;
  for (i64 row = 1; row < m; row += 32)  // of 1 times 4, minus 2^-20
    for (i64 col = 0; col < n; col += 8)
      (sums[static_cast<size_t>(row * n + col)] ==
               std::ldexp(4.0f, static_cast<int>(row / 32 + 2 + col / 8 * 3))
           ? dropped
           : kept)++;
  CHECK(dropped == 2);
  CHECK(kept == 22);
  return c;
}

/// One accumulator of 16 x 8 lies on its limit, 2^16, so that the product of the next step, -2^-20, is
/// dropped. All others are 0. The row and the column that it is of have the lowest bits, those beside them,
/// in other eights and in other groups do not: whoever asks one of these for the limit adds the product.
inline gemm_case<nvfp4, linear, nvfp4, linear, float> single_large_accumulators() {
  constexpr i64 m = 4 * 16, n = 6 * 8, k = 128;
  const auto fill = [](host_buffer<nvfp4>& q, i64 row, bool large, u8 least) {
    const size_t at = static_cast<size_t>(row);
    q.codes[at * (k / 2)] = large ? 0x06 : 0x00;  // 4 times 2^6
    q.scales[at * (k / 16)] = (7 + 6) << 3;
    q.codes[at * (k / 2) + 32] = large ? least : 0x02;  // 0.5 times 2^-9, or 1
    q.scales[at * (k / 16) + 4] = large ? 0x01 : 0x38;
  };
  const auto row_is_large = [](i64 row) { return row % 16 == (row / 16 % 2 == 0 ? 3 : 11); };
  const auto col_is_large = [](i64 col) { return col >= 16 && col % 8 == (col / 8 < 4 ? 2 : 5); };
  host_buffer<nvfp4> a(m, k, amax_value(2688.0f)), b(n, k, amax_value(2688.0f));
  for (i64 row = 0; row < m; ++row) fill(a, row, row_is_large(row), 0x01);
  for (i64 col = 0; col < n; ++col) fill(b, col, col_is_large(col), 0x09);
  auto c = nvfp4_case(a, b, {1.0f, 0.0f});
  const std::vector<float> sums = c.sums();
  for (i64 row = 0; row < m; ++row)
    for (i64 col = 0; col < n; ++col)
      if (row_is_large(row) && col_is_large(col))
        CHECK(sums[static_cast<size_t>(row * n + col)] == std::ldexp(1.0f, 16));
  return c;
}

/// Rows of very different sizes, and a first step that outweighs all later ones: norms do not prove that
/// these drop nothing, and of eight rows the smallest one's lowest bit is too low for the accumulators of the
/// largest. Those of each row's own size are below their limits, and all sums of 64 products are exact.
/// `drops`: but for a few rows of A, whose later steps are so small that about half of their accumulators are
/// not.
inline gemm_case<nvfp4, linear, nvfp4, linear, float> rows_of_many_sizes(bool drops) {
  constexpr i64 m = 150, n = 210, k = 1024;
  const auto fill = [](i64 rows, u64 seed, bool small) {
    host_buffer<nvfp4> q(rows, k, amax_value(2688.0f));
    for (i64 row = 0; row < rows; ++row) {
      for (i64 block = 0; block < k / 16; ++block) {
        const int later = small && row % 48 == 6 ? -9 : -3;
        const int exponent = (block < 4 ? 8 : later) - static_cast<int>(row % 6);
        q.scales[static_cast<size_t>(row * (k / 16) + block)] =
            static_cast<u8>(encode<e4m3>(std::ldexp(1.0f, exponent)).bits);
      }
      for (i64 i = 0; i < k / 2; ++i) {
        const size_t at = static_cast<size_t>(row * (k / 2) + i);
        q.codes[at] = static_cast<u8>(mix(at + seed));
      }
    }
    return q;
  };
  return nvfp4_case(fill(m, 1, drops), fill(n, 2'000'000, false), {1.0f, 0.0f});
}

/// Of each 16 rows of A, eight have scales so far apart that the least product is dropped, -2^-20 below an
/// empty block of 2^16, and the other eight have not: the upper ones, the lower ones and so on. No
/// accumulator is too large.
inline gemm_case<nvfp4, linear, nvfp4, linear, float> scales_of_some_eights() {
  constexpr i64 m = 4 * 16, n = 5 * 8, k = 64;
  constexpr u8 least = 0x01, one = 0x38, largest = 0x7e;  // 2^-9, 1, 448
  const auto fill = [](host_buffer<nvfp4>& q, i64 row, bool spread, u8 code) {
    const size_t at = static_cast<size_t>(row);
    q.scales[at * (k / 16)] = spread ? largest : one;
    q.scales[at * (k / 16) + 1] = spread ? least : one;
    q.codes[at * (k / 2) + 8] = code;  // 0.5 or -0.5
  };
  const auto row_is_spread = [](i64 row) { return row / 8 % 2 == row / 16 % 2; };
  host_buffer<nvfp4> a(m, k, amax_value(2688.0f)), b(n, k, amax_value(2688.0f));
  for (i64 row = 0; row < m; ++row) fill(a, row, row_is_spread(row), 0x01);
  for (i64 col = 0; col < n; ++col) fill(b, col, true, 0x09);
  auto c = nvfp4_case(a, b, {1.0f, 0.0f});
  const std::vector<float> sums = c.sums();
  for (i64 row = 0; row < m; ++row)
    for (i64 col = 0; col < n; ++col)
      CHECK(sums[static_cast<size_t>(row * n + col)] == (row_is_spread(row) ? 0.0f : -0x1p-11f));
  return c;
}

}  // namespace fourscale::test
