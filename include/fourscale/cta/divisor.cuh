// SPDX-License-Identifier: Apache-2.0
// Division of indices by a number that stays the same throughout a kernel, without a division instruction.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::cta {

/// A divisor that all threads share; the host prepares it. For numerators below 2^31: n * ceil(2^p / d) >> p
/// is exact for p = 31 + ceil(log2 d) (Granlund and Montgomery, PLDI 1994).
struct divisor {
  u32 d = 1, multiplier = 0;
  int shift = 31;

  divisor() = default;
  FOURSCALE_H explicit divisor(u32 by) : d(by) {
    while ((u64{1} << (shift - 31)) < d) ++shift;
    multiplier = static_cast<u32>(((u64{1} << shift) + d - 1) / d);
  }
  FOURSCALE_D u32 quotient(u32 n) const { return static_cast<u32>((u64{n} * multiplier) >> shift); }
};

}  // namespace FOURSCALE_NAMESPACE::cta
