// SPDX-License-Identifier: Apache-2.0
// Delayed amax: a tensor is quantized under the amax of steps before, so that no pass over it comes first.
// Transformer Engine, DelayedScaling and delayed_scaling.cu. Works for every format with a tensor scale.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE {

/// Which amax of the history counts.
enum class amax_of_history { largest, most_recent };

/// The amaxes of past steps, in memory that the caller owns: on the device for device::update.
struct delayed_amax {
  float* history = nullptr;  ///< `length` values; amax() of the current step writes history[0]
  i64 length = 0;            ///< 1024 in Transformer Engine
  float* amax = nullptr;     ///< what quantize() works under; start it at largest_block_value, for scale 1
  amax_of_history rule = amax_of_history::largest;
};

/// The amax for the next step, from that of the history and the one in use: zero, infinity and NaN keep the
/// one in use, as TE keeps the previous scale.
FOURSCALE_HD constexpr float next_amax(float of_history, float in_use) {
  return less_magnitude(0.0f, of_history) && of_history <= float_max ? of_history : in_use;
}

/// Where place i > 0 of the history takes its value from at the end of a step: all move one place forward,
/// the oldest out, the newest to the far end. Place 0 becomes 0, for the next step.
FOURSCALE_HD constexpr i64 rolled_from(i64 i, i64 length) { return i + 1 < length ? i + 1 : 0; }

}  // namespace FOURSCALE_NAMESPACE
