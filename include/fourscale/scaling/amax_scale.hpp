// SPDX-License-Identifier: Apache-2.0
// amax_scale, the default scaling policy: for each format, the rule that NVIDIA's recipe uses, so that one
// default quantizer fits all formats.
#pragma once

#include "current.hpp"
#include "fp8_block.hpp"
#include "power_of_two.hpp"
#include "two_level.hpp"

namespace FOURSCALE_NAMESPACE {

/// two_level for NVFP4, power_of_two_up for the MX formats, fp8_block_scale for FP32 scales, current_scaling
/// for FP8 per tensor.
struct amax_scale {
  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> operator()(F, float amax, tensor_scale<F> const& tensor) const {
    if constexpr (block_scale_bytes<F> == 0)
      return current_scaling{}(F{}, amax, tensor);
    else if constexpr (F::has_tensor_scale)
      return two_level{}(F{}, amax, tensor);
    else if constexpr (same_type<typename F::scale, f32>)
      return fp8_block_scale{}(F{}, amax, tensor);
    else
      return power_of_two_up{}(F{}, amax, tensor);
  }
  template <block_format F>
  requires requires(two_level rule, float amax, tensor_scale<F> tensor) { rule.fast(F{}, amax, tensor); }
  FOURSCALE_D FOURSCALE_H fast_block_scale<F> fast(F, float amax, tensor_scale<F> const& tensor) const {
    return two_level{}.fast(F{}, amax, tensor);
  }

  template <block_format F>
  requires(F::has_tensor_scale&& block_scale_bytes<F> == 1) FOURSCALE_HD
      constexpr block_scale<F> scale_lane(F, float amax, tensor_scale<F> const& tensor) const {
    return two_level{}.scale_lane(F{}, amax, tensor);
  }
};

}  // namespace FOURSCALE_NAMESPACE
