// SPDX-License-Identifier: Apache-2.0
// A linear layer in FP8 whose values are whole numbers up to 7, which E4M3 and E5M2 hold under any power of
// two: no operand is rounded, scales are powers of two, and all sums of products fit in 14 bits.
#pragma once

#include "recipe/linear_case.hpp"

namespace fourscale::test {

template <class T>
void fill_whole(std::vector<T>& v, u64 seed) {
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = from_float<T>(static_cast<float>(static_cast<int>(mix(i + (seed << 40)) >> 20 & 15) - 8));
  for (T& x : v)
    if (to_float(x) == -8.0f) x = from_float<T>(7.0f);
}

/// X, W and dY of a case. An amax of the past is such that tensor scales are 1.
template <linear_recipe R, class L>
void make_whole(linear_case<R, L>& c) {
  fill_whole(c.x, 1), fill_whole(c.w, 2), fill_whole(c.dy, 3);
}

/// Sums of whole products, exactly, then rounded to T: D[i, j] = sum of a(i, l) * b(j, l).
template <class T, class A, class B>
std::vector<float> whole_product(A const& a, B const& b) {
  std::vector<float> d;
  for (i64 i = 0; i < a.rows; ++i)
    for (i64 j = 0; j < b.rows; ++j) {
      float sum = 0;  // of whole numbers below 2^24
      for (i64 l = 0; l < a.cols; ++l) sum += to_float(a.at(i, l)) * to_float(b.at(j, l));
      d.push_back(to_float(from_float<T>(sum)));
    }
  return d;
}

}  // namespace fourscale::test
