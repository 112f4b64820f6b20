// SPDX-License-Identifier: Apache-2.0
// E2M3, a 6-bit element of MXFP6. OCP MX v1.0 section 5.3.2; PTX ISA 9.7.9.21 for encoding.
#pragma once

#include "traits.hpp"

namespace FOURSCALE_NAMESPACE {

/// 6-bit float: largest 7.5, smallest normal 1, step 0.125 below it. No NaN, no infinity: encoding saturates,
/// keeps -0, and maps every NaN to +7.5 as the hardware does.
struct e2m3 {
  u8 bits;  ///< S'EE'MMM in the low six bits; the high two must be zero

  static constexpr char const* name = "e2m3";
  static constexpr int width = 6, exponent_bits = 2, mantissa_bits = 3, bias = 1;
  static constexpr bool is_signed = true, has_nan = false, has_infinity = false;
  static constexpr u8 max_bits = 0b0'11'111;  ///< 1.875 * 2^2 = 7.5
  static constexpr u8 nan_bits = 0b0'11'111;  ///< NaN encodes to +7.5

  /// Equal codes. As bits, not as numbers: -0 differs from 0, and a NaN equals itself.
  friend FOURSCALE_H constexpr bool operator==(e2m3, e2m3) = default;
};
static_assert(format<e2m3>);

}  // namespace FOURSCALE_NAMESPACE
