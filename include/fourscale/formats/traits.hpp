// SPDX-License-Identifier: Apache-2.0
// The concepts of number formats, and the facts that follow from a format's fields. A format is a struct that
// holds one code in `bits` and states its layout: sign, exponent and mantissa fields, bias, largest finite
// code, and the code that NaN is encoded to. The fields follow OCP MX v1.0 section 5.3 and OCP OFP8 v1.0.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE {

/// A floating-point format of at most 8 bits, signed or (E8M0) a bare exponent.
template <class F>
concept format = sizeof(F) == 1 && requires(F f) {
  F::name, F::width, F::exponent_bits, F::mantissa_bits, F::bias;
  F::is_signed, F::has_nan, F::has_infinity, F::max_bits, F::nan_bits;
  f.bits;
};

/// A format with a sign and a zero: what the elements of a tensor are stored in.
template <class F>
concept element_format = format<F> && F::is_signed;

/// A type that can hold the scale of a block: E8M0, E4M3 with its sign clear, f32, or no_scale.
template <class F>
concept scale_format = requires(F f) {
  F::name;
  f.bits;
};

/// Bits of a code without its sign.
template <format F>
inline constexpr u32 magnitude_mask = F::is_signed ? (1u << (F::width - 1)) - 1 : (1u << F::width) - 1;

/// The exponent of the largest binade: 2 for E2M1, 8 for E4M3 (OCP MX v1.0, emax_elem).
template <element_format F>
inline constexpr int max_exponent = (F::max_bits >> F::mantissa_bits) - F::bias;

/// The exponent of the step of subnormals, the lowest bit that a value may have: -1 for E2M1, -9 for E4M3.
template <format F>
inline constexpr int subnormal_exponent = 1 - F::bias - F::mantissa_bits;

}  // namespace FOURSCALE_NAMESPACE
