// SPDX-License-Identifier: Apache-2.0
// The sign vector of a random Hadamard transform. It is a plain value, never a cached buffer.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE {

/// Up to 128 signs. If bit i is set, element i is negated before the transform.
struct sign_vector {
  u64 words[2] = {0, 0};

  FOURSCALE_HD constexpr sign_vector() {}
  FOURSCALE_HD constexpr sign_vector(u64 low, u64 high = 0) : words{low, high} {}

  /// The sign bit of a float for element i.
  FOURSCALE_HD constexpr u32 mask(int i) const { return static_cast<u32>(words[i / 64] >> (i % 64)) << 31; }
  FOURSCALE_HD constexpr bool negative(int i) const { return words[i / 64] >> (i % 64) & 1u; }
  friend FOURSCALE_H constexpr bool operator==(sign_vector const&, sign_vector const&) = default;
};

/// No signs: the plain Hadamard transform.
inline constexpr sign_vector no_signs{};

/// Transformer Engine's fixed vector for 16 elements, + + + - + - - - - - - + - + - -
/// (hadamard_transform_utils).
inline constexpr sign_vector te_signs{0xD7E8};

}  // namespace FOURSCALE_NAMESPACE
