// SPDX-License-Identifier: Apache-2.0
// E5M2, "FP8" for gradients: IEEE-like, with infinities. OCP OFP8 v1.0.
#pragma once

#include "traits.hpp"

namespace FOURSCALE_NAMESPACE {

/// 8-bit float: largest finite 57344, smallest normal 2^-14, step 2^-16 below it; infinities and NaNs as in
/// IEEE 754. Encoding saturates to +-57344 (infinities too, as cvt.satfinite does), keeps -0, and maps every
/// NaN to 0x7F.
struct e5m2 {
  u8 bits;  ///< S'EEEEE'MM

  static constexpr char const* name = "e5m2";
  static constexpr int width = 8, exponent_bits = 5, mantissa_bits = 2, bias = 15;
  static constexpr bool is_signed = true, has_nan = true, has_infinity = true;
  static constexpr u8 max_bits = 0b0'11110'11;  ///< 1.75 * 2^15 = 57344
  static constexpr u8 nan_bits = 0b0'11111'11;  ///< NaN encodes to 0x7F

  /// Equal codes. As bits, not as numbers: -0 differs from 0, and a NaN equals itself.
  friend FOURSCALE_H constexpr bool operator==(e5m2, e5m2) = default;
};
static_assert(format<e5m2>);

}  // namespace FOURSCALE_NAMESPACE
