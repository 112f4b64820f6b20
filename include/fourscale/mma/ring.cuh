// SPDX-License-Identifier: Apache-2.0
// The place in a ring of stages that one role fills and another one empties.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::mma {

/// The stages of shared memory, one after the other and again from the first. The parity is that of the
/// `full` phase to wait for; the `empty` phase before it has the other.
template <int Stages>
struct ring {
  u32 stage = 0, parity = 0;
  FOURSCALE_D void next() {
    if (++stage == Stages) stage = 0, parity ^= 1;
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma
