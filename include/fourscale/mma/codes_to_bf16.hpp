// SPDX-License-Identifier: Apache-2.0
// Converts codes of E2M1 to bf16 by masks and shifts (a multiplication is two shifts at once), in an order
// that suits the bits: for kernels that choose their own order along K.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::mma {

/// Converts eight codes to four registers of two bf16: register i has codes i and i + 4, each 2^126 times too
/// small. A code's sign goes to the sign, its two exponent bits to the lowest ones of bf16's exponent, and
/// its mantissa bit to the highest of bf16's. The caller corrects that by a product with two powers of two.
FOURSCALE_HD constexpr void codes_to_bf16(u32 codes, u32 (&r)[4]) {
  constexpr u32 low = 0x000f'000fu, high = 0x00f0'00f0u, places = 0x81c0'81c0u;
  const u32 upper = codes >> 8;
  r[0] = ((codes & low) * 0x1040u) & places;
  r[1] = ((codes & high) * 0x104u) & places;
  r[2] = ((upper & low) * 0x1040u) & places;
  r[3] = ((upper & high) * 0x104u) & places;
}

}  // namespace FOURSCALE_NAMESPACE::mma
