// SPDX-License-Identifier: Apache-2.0
// Codes of E2M1 to bf16 by shifts alone, for kernels in which the order along K is their own choice.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::mma {

/// Eight codes to four registers of two, register r from codes r and r + 4, as numbers of bf16 that are 2^126
/// times too small: sign to sign, two bits of exponent and one of significand to the lowest of an exponent
/// and the highest of a significand. A product with two powers of two brings both to their places.
FOURSCALE_HD constexpr void codes_to_bf16(u32 codes, u32 (&r)[4]) {
  constexpr u32 low = 0x000f'000fu, high = 0x00f0'00f0u, places = 0x81c0'81c0u;
  const u32 upper = codes >> 8;
  r[0] = ((codes & low) * 0x1040u) & places;
  r[1] = ((codes & high) * 0x104u) & places;
  r[2] = ((upper & low) * 0x1040u) & places;
  r[3] = ((upper & high) * 0x104u) & places;
}

}  // namespace FOURSCALE_NAMESPACE::mma
