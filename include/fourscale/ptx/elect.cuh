// SPDX-License-Identifier: Apache-2.0
// One lane of a warp, chosen by hardware. ptxas knows that one lane runs behind it, and then issues
// single-thread instructions (tcgen05, bulk copies) without a loop over lanes.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

FOURSCALE_D void elect_sync_needs_sm_90_or_later();

/// elect.sync _|p, members;   PTX ISA 9.7.13.14, PTX 8.0, sm_90 and later. True in one of the lanes in
/// `members`, all of which must arrive here.
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
