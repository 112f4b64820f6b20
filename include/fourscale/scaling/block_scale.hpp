// SPDX-License-Identifier: Apache-2.0
// What every scaling policy answers: the stored scale of a block, and what to multiply its values by.
#pragma once

#include "tensor_scale.hpp"

namespace fourscale {

/// The scale of one block as stored, and the factor that brings its values onto the element grid.
template <block_format F>
struct block_scale {
  typename F::scale scale;
  float multiplier;
};

/// A scaling policy for F: `scale(F{}, amax, tensor)` from the amax of a block (>= 0, never NaN) and the
/// tensor scale.
template <class S, class F>
concept scaling_policy = requires(S const scale, float amax, tensor_scale<F> tensor) {
  block_scale<F>{scale(F{}, amax, tensor)};
};

}  // namespace fourscale
