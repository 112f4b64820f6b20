// SPDX-License-Identifier: Apache-2.0
// Transforms change the values of a block before its amax is taken.
#pragma once

#include "../bits.hpp"

namespace fourscale {

/// A transform of N consecutive values: `transform(x)` changes them in place.
template <class T, int N>
concept transform_policy = requires(T const transform, float (&x)[N]) {
  transform(x);
};

/// Changes nothing; the default.
struct identity {
  template <int N>
  FOURSCALE_HD constexpr void operator()(float (&)[N]) const {}
};

}  // namespace fourscale
