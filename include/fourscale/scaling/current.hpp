// SPDX-License-Identifier: Apache-2.0
// FP8 under one scale for the whole tensor. "Current" scaling takes the amax of the tensor itself, "delayed"
// scaling that of past steps (delayed.hpp). The arithmetic is the same.
#pragma once

#include "block_scale.hpp"

namespace FOURSCALE_NAMESPACE {

/// The scale of fp8_e4m3 and fp8_e5m2: 448 / amax (57344 / amax for E5M2), divided by 2^margin. Transformer
/// Engine, Float8CurrentScaling (epsilon, power_of_two) and DelayedScaling (margin).
struct current_scaling {
  int margin = 0;             ///< binades kept free above amax
  float epsilon = 0.0f;       ///< an amax below this counts as this
  bool power_of_two = false;  ///< rounds the scale down to a power of two

  FOURSCALE_HD constexpr current_scaling(int m = 0, float least = 0.0f, bool pow2 = false)
      : margin(m), epsilon(least), power_of_two(pow2) {}

  template <block_format F>
  FOURSCALE_HD constexpr tensor_scale<F> tensor(F, float amax) const {
    float range = largest_block_value<F>;
    for (int i = 0; i < margin; ++i) range *= 0.5f;
    return tensor_scale<F>(amax, range, epsilon, power_of_two);
  }

  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> operator()(F, float, tensor_scale<F> const& tensor) const {
    static_assert(block_scale_bytes<F> == 0,
                  "current_scaling needs a format without block scales, such as fp8_e4m3.");
    return {{}, tensor.encode};
  }
};

}  // namespace FOURSCALE_NAMESPACE
