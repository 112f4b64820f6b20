// SPDX-License-Identifier: Apache-2.0
// Values of a matrix under a pattern that is drawn.
#pragma once

#include <cmath>
#include <vector>

#include "dice.hpp"

namespace fourscale::test {

/// How the values of a matrix are drawn.
struct value_pattern {
  u64 seed;
  i64 middle, spread;             ///< of exponents
  i64 zeros, specials, outliers;  ///< one in so many, or none if 0
  bool by_rows;                   ///< whether a row shares an exponent

  explicit value_pattern(dice& d)
      : seed(d.bits()),
        middle(d.one_of({0, 0, -20, -120, 100})),
        spread(d.one_of({1, 1, 4, 30})),
        zeros(d.one_of({0, 0, 2, 20})),
        specials(d.one_of({0, 0, 0, 3000, 10})),
        outliers(d.one_of({0, 0, 100, 10000})),
        by_rows(d.one_in(2)) {}

  float operator()(i64 row, i64 i) const {
    const u64 r = mix(seed + static_cast<u64>(i));
    const auto chance = [&](i64 one_in, int shift) {
      return one_in != 0 && static_cast<i64>(r >> shift & 0xffff) % one_in == 0;
    };
    if (chance(zeros, 0)) return r >> 63 != 0 ? -0.0f : 0.0f;
    if (chance(specials, 8)) return ugly(r);
    const i64 noise = static_cast<i64>(mix(by_rows ? seed ^ static_cast<u64>(row) : r) >> 8) % spread;
    return std::ldexp(gaussian(r), static_cast<int>(middle + noise + (chance(outliers, 16) ? 12 : 0)));
  }
};

/// rows x cols of them.
template <class T>
std::vector<T> drawn_values(dice& d, i64 rows, i64 cols) {
  const value_pattern value(d);
  std::vector<T> x(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = from_float<T>(value(static_cast<i64>(i) / cols, static_cast<i64>(i)));
  return x;
}

}  // namespace fourscale::test
