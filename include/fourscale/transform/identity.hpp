// SPDX-License-Identifier: Apache-2.0
// The concepts of transform policies, and the default, identity. A transform changes the values of a block
// before its amax is taken.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE {

/// A transform of N consecutive values: `transform(x)` changes them in place.
template <class T, int N>
concept transform_policy = requires(T const transform, float (&x)[N]) {
  transform(x);
};

/// A fast form that a transform may offer in addition to its definition, for whole matrices on a CPU.
/// `transform.template transform_lanes<N>(x, count)` transforms `count` groups of N values, which lie one
/// after the other, in loops that compilers vectorize.
template <class T, int N>
concept lane_transform_policy = transform_policy<T, N> && requires(T const transform, float* x) {
  transform.template transform_lanes<N>(x, 1);
};

/// Changes nothing; the default.
struct identity {
  template <int N>
  FOURSCALE_HD constexpr void operator()(float (&)[N]) const {}
};

}  // namespace FOURSCALE_NAMESPACE
