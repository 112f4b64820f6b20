// SPDX-License-Identifier: Apache-2.0
// How an operand is quantized, as a value: how to transform, scale and round.
#pragma once

#include "../formats/real.hpp"
#include "../rounding/nearest_even.hpp"
#include "../scaling/amax_scale.hpp"
#include "../transform/identity.hpp"

namespace FOURSCALE_NAMESPACE {

/// Joins three policies. The order is fixed: transform -> amax -> scale -> multiply -> round -> pack; a
/// policy takes one place and knows nothing about the others. Trivially copyable, so it is passed to kernels
/// by value.
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

/// The quantizer for a matrix of T. A scaling policy whose rule depends on the type of the values says so in
/// a member `for_input<T>()`.
template <real T, class Quantizer>
FOURSCALE_HD constexpr Quantizer for_input(Quantizer recipe) {
  if constexpr (requires { recipe.scale.template for_input<T>(); })
    recipe.scale = recipe.scale.template for_input<T>();
  return recipe;
}

}  // namespace FOURSCALE_NAMESPACE
