// SPDX-License-Identifier: Apache-2.0
// The concepts of scaling policies, and what every policy returns: the stored scale of a block, and the
// factor that its values are multiplied by.
#pragma once

#include "../position.hpp"
#include "tensor_scale.hpp"

namespace FOURSCALE_NAMESPACE {

/// The scale of one block as stored, and the factor that brings the values of the block onto the element
/// grid.
template <block_format F>
struct block_scale {
  typename F::scale scale;
  float multiplier;
};

/// A block scale from the fast form of a policy. It holds only if `valid`.
template <block_format F>
struct fast_block_scale {
  typename F::scale scale;
  float multiplier;
  bool valid;
};

/// The two candidates of a policy that weighs, from its fast form.
template <block_format F>
struct fast_candidates {
  fast_block_scale<F> c[2];

  FOURSCALE_HD constexpr float largest_multiplier() const {
    return c[0].multiplier > c[1].multiplier ? c[0].multiplier : c[1].multiplier;
  }
};

/// A scaling policy for F that needs only the amax: `scale(F{}, amax, tensor)`, with the amax of the block
/// (>= 0, never NaN) and the tensor scale. A policy that draws random bits also takes the position of the
/// block's first element.
template <class S, class F>
concept amax_scaling_policy = requires(S const scale, float amax, tensor_scale<F> tensor) {
  block_scale<F>{scale(F{}, amax, tensor)};
}
|| requires(S const scale, float amax, tensor_scale<F> tensor, position where) {
  block_scale<F>{scale(F{}, amax, tensor, where)};
};

/// A scaling policy that weighs two candidates by the values of the block. `candidates(F{}, amax, tensor, c)`
/// writes both, and `error(F{}, x, c[i], tensor)` says how badly c[i] fits one row of the block. The second
/// is chosen only if its error is smaller. In a 2-D block the errors of the rows are added in pairs at
/// distance 8, 4, 2, 1 (16, 8, ... for 32 rows).
template <class S, class F>
concept weighing_scaling_policy = requires(S const scale, float amax, tensor_scale<F> tensor,
                                           block_scale<F> (&c)[2], float const (&x)[F::block_size]) {
  scale.candidates(F{}, amax, tensor, c);
  float{scale.error(F{}, x, c[0], tensor)};
};

namespace detail {
/// The values of a block, as the concepts below see them.
struct any_block_values {
  FOURSCALE_H float value(int) const;
};
}  // namespace detail

/// A scaling policy may offer, in addition to its definition, a fast form that kernels call for amaxes other
/// than NaN: `scale.fast(F{}, amax, tensor)`. A policy that weighs offers two functions instead.
/// `scale.fast_candidates_of(F{}, amax, tensor)` gives both candidates. `scale.template fast<Clamped>(F{},
/// block, candidates, tensor)` chooses one; there, `block.value(i)` is a value of the block as a float, and
/// unless `Clamped` every value is below 7 in magnitude after scaling by either candidate. Blocks whose
/// result says that it is not valid are computed again by the definition.
template <class S, class F>
concept fast_amax_scaling_policy = amax_scaling_policy<S, F> &&
    requires(S const scale, float amax, tensor_scale<F> tensor) {
  fast_block_scale<F>{scale.fast(F{}, amax, tensor)};
};
template <class S, class F>
concept fast_weighing_scaling_policy = weighing_scaling_policy<S, F> &&
    requires(S const scale, detail::any_block_values block, float amax, tensor_scale<F> tensor) {
  fast_candidates<F>{scale.fast_candidates_of(F{}, amax, tensor)};
  fast_block_scale<F>{
      scale.template fast<true>(F{}, block, scale.fast_candidates_of(F{}, amax, tensor), tensor)};
};

/// A fast form that an amax_scaling_policy may offer in addition to its definition, for whole matrices on a
/// CPU. `scale.scale_lane(F{}, amax, tensor)` gives the same result by straight-line arithmetic (see lanes::
/// in formats/convert_lanes.hpp), so that compilers vectorize a loop over many blocks.
template <class S, class F>
concept lane_scaling_policy = amax_scaling_policy<S, F> &&
    requires(S const scale, float amax, tensor_scale<F> tensor) {
  block_scale<F>{scale.scale_lane(F{}, amax, tensor)};
};

/// The same for a weighing_scaling_policy: `candidates_lane` in place of `candidates`, and `error_lane(F{},
/// x, value, multiplier, tensor)`, the error of one element under a scale that decodes to `value`. error() is
/// the sum of these errors in the order of the elements.
template <class S, class F>
concept lane_weighing_policy = weighing_scaling_policy<S, F> &&
    requires(S const scale, float x, tensor_scale<F> tensor, block_scale<F> (&c)[2]) {
  scale.candidates_lane(F{}, x, tensor, c);
  float{scale.error_lane(F{}, x, x, x, tensor)};
};

/// A policy that a quantizer may hold to choose scales.
template <class S, class F>
concept scaling_policy = amax_scaling_policy<S, F> || weighing_scaling_policy<S, F>;

/// Calls an amax_scaling_policy, with the position if the policy takes it.
template <block_format F, amax_scaling_policy<F> Scale>
FOURSCALE_HD constexpr block_scale<F> scale_for(Scale const& scale, float amax, tensor_scale<F> const& tensor,
                                                [[maybe_unused]] position where) {
  if constexpr (requires { scale(F{}, amax, tensor, where); })
    return scale(F{}, amax, tensor, where);
  else
    return scale(F{}, amax, tensor);
}

/// The tensor scale for a tensor's amax under a scaling policy. A policy with a rule of its own has a member
/// `tensor(F{}, amax)`.
template <block_format F, class Scale>
FOURSCALE_HD constexpr tensor_scale<F> tensor_scale_for(Scale const& scale, float amax) {
  if constexpr (requires { scale.tensor(F{}, amax); })
    return scale.tensor(F{}, amax);
  else
    return tensor_scale<F>(amax);
}

/// The tensor_range of a scaling policy: the rule for its tensor scale. It holds for every amax, so what a
/// policy's member `tensor(F{}, amax)` brings an amax to must not depend on that amax.
template <block_format F, class Scale>
FOURSCALE_HD constexpr tensor_range<F> range_of(Scale const& scale) {
  return tensor_scale_for<F>(scale, 1.0f).range();
}

}  // namespace FOURSCALE_NAMESPACE
