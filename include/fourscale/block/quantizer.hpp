// SPDX-License-Identifier: Apache-2.0
// A quantizer is a value that says how an operand is quantized. It joins three policies: how to transform,
// how to scale and how to round.
#pragma once

#include "../formats/real.hpp"
#include "../rounding/nearest_even.hpp"
#include "../scaling/amax_scale.hpp"
#include "../transform/identity.hpp"

namespace FOURSCALE_NAMESPACE {

/// Joins three policies. The order is fixed: transform, amax, scale, multiply, round, pack. A policy is
/// responsible for one of these steps and knows nothing about the others. A quantizer is trivially copyable,
/// so it is passed to kernels by value.
template <class Round = nearest_even, class Scale = amax_scale, class Transform = identity>
struct quantizer {
  Round round;
  Scale scale;
  Transform transform;

  FOURSCALE_HD constexpr quantizer(Round r = {}, Scale s = {}, Transform t = {})
      : round(r), scale(s), transform(t) {}
};

/// What block, host and device functions require of a quantizer for format F.
template <class Q, class F>
concept quantizer_for = block_format<F> && requires(Q q, float (&x)[F::block_size]) {
  requires rounding_policy<decltype(q.round), typename F::element>;
  requires scaling_policy<decltype(q.scale), F>;
  requires transform_policy<decltype(q.transform), F::block_size>;
};

/// The quantizer to use for a matrix of T. A scaling policy whose rule depends on the type of the values has
/// a member `for_input<T>()`, which gives the policy for that type.
template <real T, class Quantizer>
FOURSCALE_HD constexpr Quantizer for_input(Quantizer recipe) {
  if constexpr (requires { recipe.scale.template for_input<T>(); })
    recipe.scale = recipe.scale.template for_input<T>();
  return recipe;
}

}  // namespace FOURSCALE_NAMESPACE
