// SPDX-License-Identifier: Apache-2.0
// The place of a role in a ring of pipeline stages, which a producer fills and a consumer empties.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::mma {

/// Goes through the stages in shared memory, and again from the first. `parity` is the phase parity of `full`
/// that a consumer waits for. A producer waits for `empty` with parity ^ 1, which passes at once the first
/// time around.
template <int Stages>
struct ring {
  u32 stage = 0, parity = 0;
  FOURSCALE_D void next() {
    if (++stage == Stages) stage = 0, parity ^= 1;
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma
