// SPDX-License-Identifier: Apache-2.0
// E2M1, "FP4": the element of NVFP4 and MXFP4. OCP MX v1.0 section 5.3.3; PTX ISA 9.7.9.21 for encoding.
#pragma once

#include "traits.hpp"

namespace FOURSCALE_NAMESPACE {

/// 4-bit float: +-{0, 0.5, 1, 1.5, 2, 3, 4, 6}. No NaN, no infinity: encoding saturates to +-6, keeps -0, and
/// maps every NaN, of either sign, to +6 as the hardware does.
struct e2m1 {
  u8 bits;  ///< S'EE'M in the low four bits; the high four must be zero

  static constexpr char const* name = "e2m1";
  static constexpr int width = 4, exponent_bits = 2, mantissa_bits = 1, bias = 1;
  static constexpr bool is_signed = true, has_nan = false, has_infinity = false;
  static constexpr u8 max_bits = 0b0'11'1;  ///< 1.5 * 2^2 = 6
  static constexpr u8 nan_bits = 0b0'11'1;  ///< NaN encodes to +6

  /// Equal codes. As bits, not as numbers: -0 differs from 0, and a NaN equals itself.
  friend FOURSCALE_H constexpr bool operator==(e2m1, e2m1) = default;
};
static_assert(format<e2m1>);

}  // namespace FOURSCALE_NAMESPACE
