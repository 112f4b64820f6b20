// SPDX-License-Identifier: Apache-2.0
// E4M3, "FP8": the element of MXFP8 and the block scale of NVFP4. OCP OFP8 v1.0; E4M3FN elsewhere.
#pragma once

#include "traits.hpp"

namespace FOURSCALE_NAMESPACE {

/// 8-bit float: largest 448, smallest normal 2^-6, step 2^-9 below it. NaN is S.1111.111, there is no
/// infinity. Encoding saturates to +-448 (infinities too), keeps -0, and maps every NaN to 0x7F.
struct e4m3 {
  u8 bits;  ///< S'EEEE'MMM

  static constexpr char const* name = "e4m3";
  static constexpr int width = 8, exponent_bits = 4, mantissa_bits = 3, bias = 7;
  static constexpr bool is_signed = true, has_nan = true, has_infinity = false;
  static constexpr u8 max_bits = 0b0'1111'110;  ///< 1.75 * 2^8 = 448
  static constexpr u8 nan_bits = 0b0'1111'111;  ///< NaN encodes to 0x7F; 0xFF is a NaN too

  /// Equal codes. As bits, not as numbers: -0 differs from 0, and a NaN equals itself.
  friend FOURSCALE_H constexpr bool operator==(e4m3, e4m3) = default;
};
static_assert(format<e4m3>);

}  // namespace FOURSCALE_NAMESPACE
