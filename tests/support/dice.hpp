// SPDX-License-Identifier: Apache-2.0
// Draws numbers, for tests that draw their cases.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

#include "data.hpp"

namespace fourscale::test {

/// The same numbers for a seed on every machine.
class dice {
  u64 state;

 public:
  explicit dice(u64 seed) : state(mix(seed)) {}

  u64 bits() { return mix(++state); }
  i64 below(i64 n) { return static_cast<i64>(bits() >> 16) % n; }
  bool one_in(i64 n) { return below(n) == 0; }
  /// 1 to `most`, small numbers as often as large ones.
  i64 size(i64 most) {
    const auto widths = static_cast<i64>(std::bit_width(static_cast<u64>(most)));
    const i64 at_most = std::min(most, i64{1} << (1 + below(widths)));
    return 1 + below(at_most);
  }
  template <std::size_t N, class T>
  T one_of(T const (&list)[N]) {
    return list[below(N)];
  }
};

}  // namespace fourscale::test
