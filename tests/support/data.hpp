// SPDX-License-Identifier: Apache-2.0
// Test data as a function of the element index, the same on every machine: no generator state, no <random>.
#pragma once

#include <fourscale/formats/real.hpp>

namespace fourscale::test {

/// 64 well-mixed bits for an index (the finalizer of SplitMix64).
FOURSCALE_HD constexpr u64 mix(u64 i) {
  u64 z = i + 0x9e37'79b9'7f4a'7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebull;
  return z ^ (z >> 31);
}

/// About N(0, 1): the sum of four uniform 16-bit numbers, exact in float.
FOURSCALE_HD constexpr float gaussian(u64 i) {
  const u64 r = mix(i);
  const int sum =
      static_cast<int>((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48)) - 2 * 65535;
  return static_cast<float>(sum) *
         0x1.bb67aep-16f;  // sqrt(3) / 65536: the variance of the sum is 4 / 12 * 65536^2
}

/// What real tensors look like: Gaussian, with one value in 500 a hundred times larger and rows of different
/// size.
FOURSCALE_HD constexpr float activation(u64 row, u64 i) {
  const u64 r = mix(i ^ 0x5bd1'e995);
  const float size = bit_cast<float>(static_cast<u32>(120 + mix(row) % 8) << 23);
  return gaussian(i) * size * (r % 500 == 0 ? 100.0f : 1.0f);
}

/// Any bit pattern, with NaNs, infinities, zeros and subnormals far more often than chance would have them.
FOURSCALE_HD constexpr float ugly(u64 i) {
  const u64 r = mix(i);
  constexpr u32 special[] = {0x0000'0000, 0x8000'0000, 0x7fc0'0000, 0xffc0'0001, 0x0000'0001, 0x8040'0000,
                             0x7f80'0000, 0xff80'0000, 0x0080'0000, 0x7f7f'ffff, 0xff7f'ffff, 0x3f80'0000};
  if (r % 4 == 0) return bit_cast<float>(special[(r >> 8) % 12]);
  return r % 4 == 1 ? gaussian(i) : bit_cast<float>(static_cast<u32>(r >> 32));
}

}  // namespace fourscale::test
