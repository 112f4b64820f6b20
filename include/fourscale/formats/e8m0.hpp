// SPDX-License-Identifier: Apache-2.0
// E8M0: the power-of-two block scale of the MX formats. OCP MX v1.0 section 5.4.1; UE8M0 in PTX.
#pragma once

#include "traits.hpp"

namespace FOURSCALE_NAMESPACE {

/// 8-bit exponent: 2^(bits - 127), from 2^-127 to 2^127; 0xFF is NaN. No sign, no zero, no infinity: encoding
/// ignores the sign, maps 0 to 2^-127 and infinity to 2^127.
struct e8m0 {
  u8 bits;  ///< the exponent, biased by 127

  static constexpr char const* name = "e8m0";
  static constexpr int width = 8, exponent_bits = 8, mantissa_bits = 0, bias = 127;
  static constexpr bool is_signed = false, has_nan = true, has_infinity = false;
  static constexpr u8 max_bits = 0xFE;  ///< 2^127
  static constexpr u8 nan_bits = 0xFF;  ///< the only NaN

  /// Equal codes. As bits, not as numbers: -0 differs from 0, and a NaN equals itself.
  friend FOURSCALE_H constexpr bool operator==(e8m0, e8m0) = default;
};
static_assert(format<e8m0>);

}  // namespace FOURSCALE_NAMESPACE
