// SPDX-License-Identifier: Apache-2.0
// elect.sync: the hardware chooses one lane of a warp. ptxas knows that a single lane runs the code behind
// it, and so issues single-thread instructions (tcgen05, bulk copies) without a loop over lanes.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

FOURSCALE_D void elect_sync_needs_sm_90_or_later();

/// elect.sync _|p, members;   PTX ISA 9.7.13.14, PTX 8.0, sm_90 and later. True in exactly one of the
/// lanes in `members`. All of these lanes must execute it.
FOURSCALE_D inline bool elect_sync([[maybe_unused]] u32 members = 0xffff'ffffu) {
  u32 elected{};
#if FOURSCALE_HAS_ELECT
  asm volatile("{ .reg .pred p; elect.sync _|p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(elected) : "r"(members));
#else
  elect_sync_needs_sm_90_or_later();
#endif
  return elected != 0;
}

}  // namespace FOURSCALE_NAMESPACE::ptx
