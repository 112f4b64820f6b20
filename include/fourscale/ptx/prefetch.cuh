// SPDX-License-Identifier: Apache-2.0
// prefetch.tensormap (PTX ISA 9.7.9.15, PTX 8.0, sm_90 and later).
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

/// prefetch.tensormap [map];   Fetches a tensor map early, so that the first TMA copy does not wait
/// for it.
FOURSCALE_D inline void prefetch_tensormap([[maybe_unused]] void const* map) {
#if FOURSCALE_HAS_ELECT
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#endif
}

}  // namespace FOURSCALE_NAMESPACE::ptx
