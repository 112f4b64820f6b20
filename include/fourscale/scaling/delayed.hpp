// SPDX-License-Identifier: Apache-2.0
// Delayed amax: a tensor is quantized under the amax of past steps, so that no pass over the tensor has to
// come first. Transformer Engine, DelayedScaling and delayed_scaling.cu. Works for every format with a tensor
// scale.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE {

/// Which amax of the history the next step takes.
enum class amax_of_history { largest, most_recent };

/// The amaxes of past steps, in memory that the caller owns: device memory for device::update.
struct delayed_amax {
  float* history = nullptr;  ///< `length` values; amax() of the current step writes history[0]
  i64 length = 0;            ///< 1024 in Transformer Engine
  float* amax = nullptr;     ///< what quantize() uses; start with largest_block_value, for scale 1
  amax_of_history rule = amax_of_history::largest;
};

/// The amax for the next step, from the one that the history gives and the one in use. If the history gives
/// zero, infinity or NaN, the one in use is kept, as TE keeps the previous scale.
FOURSCALE_HD constexpr float next_amax(float of_history, float in_use) {
  return less_magnitude(0.0f, of_history) && of_history <= float_max ? of_history : in_use;
}

/// The place that place i > 0 of the history takes its value from at the end of a step. All values move one
/// place toward 0: the oldest (place 1) is dropped, and the newest (place 0) goes to the last place. Place 0
/// becomes 0, for the next step.
FOURSCALE_HD constexpr i64 rolled_from(i64 i, i64 length) { return i + 1 < length ? i + 1 : 0; }

}  // namespace FOURSCALE_NAMESPACE
