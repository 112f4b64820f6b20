// SPDX-License-Identifier: Apache-2.0
// E3M2, a 6-bit element of MXFP6. OCP MX v1.0 section 5.3.2; PTX ISA 9.7.9.21 for encoding.
#pragma once

#include "traits.hpp"

namespace FOURSCALE_NAMESPACE {

/// 6-bit float: largest 28, smallest normal 0.25, step 0.0625 below it. No NaN, no infinity: encoding
/// saturates, keeps -0, and maps every NaN to +28 as the hardware does.
struct e3m2 {
  u8 bits;  ///< S'EEE'MM in the low six bits; the high two must be zero

  static constexpr char const* name = "e3m2";
  static constexpr int width = 6, exponent_bits = 3, mantissa_bits = 2, bias = 3;
  static constexpr bool is_signed = true, has_nan = false, has_infinity = false;
  static constexpr u8 max_bits = 0b0'111'11;  ///< 1.75 * 2^4 = 28
  static constexpr u8 nan_bits = 0b0'111'11;  ///< NaN encodes to +28

  /// Equal codes. As bits, not as numbers: -0 differs from 0, and a NaN equals itself.
  friend FOURSCALE_H constexpr bool operator==(e3m2, e3m2) = default;
};
static_assert(format<e3m2>);

}  // namespace FOURSCALE_NAMESPACE
