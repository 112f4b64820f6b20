// SPDX-License-Identifier: Apache-2.0
// E1M2, a uniform 4-bit grid: a sign and a magnitude 0..7, like INT4 without its -8. It is not an OCP format,
// and no instruction takes it. It is published as an alternative to E2M1 under NVFP4's two scales (NVINT4;
// arXiv 2603.28765, 2606.20381).
#pragma once

#include "traits.hpp"

namespace FOURSCALE_NAMESPACE {

/// 4-bit uniform grid: +-{0, 1, ..., 7}. As a float format it has one exponent bit, and the bias that makes
/// the step 1. Encoding saturates to +-7, keeps -0, and maps every NaN to +7, as E2M1 does.
struct e1m2 {
  u8 bits;  ///< S'E'MM in the low four bits; the high four must be zero

  static constexpr char const* name = "e1m2";
  static constexpr int width = 4, exponent_bits = 1, mantissa_bits = 2, bias = -1;
  static constexpr bool is_signed = true, has_nan = false, has_infinity = false;
  static constexpr u8 max_bits = 0b0'1'11;  ///< 1.75 * 2^2 = 7
  static constexpr u8 nan_bits = 0b0'1'11;  ///< NaN encodes to +7

  /// Equal codes. As bits, not as numbers: -0 differs from 0, and a NaN equals itself.
  friend FOURSCALE_H constexpr bool operator==(e1m2, e1m2) = default;
};
static_assert(format<e1m2>);

}  // namespace FOURSCALE_NAMESPACE
