// SPDX-License-Identifier: Apache-2.0
// Delayed scaling (scaling/delayed.hpp) on the CPU: the update at the end of a step.
#pragma once

#include "../view/validate.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

/// Takes the next amax from the history, then rolls the history. If the step recorded no amax (history[0] =
/// 0), nothing changes. NaN in the history is ignored. Errors: see validate(); history and amax are then
/// untouched.
inline errc update(delayed_amax const& d) {
  if (const errc e = validate(d); e != errc::ok) return e;
  const float newest = d.history[0];
  if (newest == 0.0f) return errc::ok;
  i32 largest = 0;
  for (i64 i = 0; i < d.length; ++i) {
    const i32 magnitude = amax_bits(d.history[i]);
    largest = magnitude > largest ? magnitude : largest;
  }
  const bool all = d.rule == amax_of_history::largest;
  *d.amax = next_amax(all ? bit_cast<float>(largest) : newest, *d.amax);
  for (i64 i = 1; i < d.length; ++i) d.history[i] = d.history[rolled_from(i, d.length)];
  d.history[0] = 0.0f;
  return errc::ok;
}

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
