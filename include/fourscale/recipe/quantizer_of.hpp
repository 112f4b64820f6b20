// SPDX-License-Identifier: Apache-2.0
// Turns a recipe that is known at compile time into the library's policies. The types are those that visit()
// finds, but there is no switch, and the Hadamard transform is part of the quantizer.
#pragma once

#include "../transform/hadamard.hpp"
#include "visit.hpp"

namespace FOURSCALE_NAMESPACE {

namespace detail {

/// Whether the name f is that of format F.
template <class F>
FOURSCALE_H constexpr bool is_named(format_name f) {
  return visit_format(f, false, []<class G>(G) { return same_type<F, G>; });
}
/// The one of these formats that f names.
template <format_name f, class... Of>
struct format_among {};
template <format_name f, class F, class... Others>
struct format_among<f, F, Others...> : format_among<f, Others...> {};
template <format_name f, class F, class... Others>
requires(is_named<F>(f)) struct format_among<f, F, Others...> {
  using type = F;
};

template <operand_recipe O>
FOURSCALE_H constexpr auto rounding_of([[maybe_unused]] philox<> const& random) {
  if constexpr (O.rounding == rounding_rule::stochastic)
    return stochastic{random};
  else if constexpr (O.rounding == rounding_rule::te_software)
    return stochastic_te_software{random};
  else
    return nearest_even{};
}

template <operand_recipe O>
FOURSCALE_H constexpr auto scale_rule_of([[maybe_unused]] philox<> const& random) {
  using enum error_norm;
  constexpr scale_rule s = O.scale;
  if constexpr (s == scale_rule::two_level_division)
    return two_level_division{};
  else if constexpr (s == scale_rule::headroom)
    return two_level_headroom{};
  else if constexpr (s == scale_rule::stochastic_scale)
    return two_level_stochastic{random};
  else if constexpr (s == scale_rule::four_over_six_mae)
    return four_over_six<mean_absolute, 256>{};
  else if constexpr (s == scale_rule::four_over_six_mse)
    return four_over_six<mean_square, 256>{};
  else if constexpr (s == scale_rule::four_over_six_mae_448)
    return four_over_six<mean_absolute, 448>{};
  else if constexpr (s == scale_rule::four_over_six_mse_448)
    return four_over_six<mean_square, 448>{};
  else if constexpr (s == scale_rule::floor)
    return power_of_two_floor{};
  else if constexpr (s == scale_rule::fp32_scale)
    return fp8_block_scale{false};
  else
    return amax_scale{};
}

template <operand_recipe O>
FOURSCALE_H constexpr auto transform_of([[maybe_unused]] operand_place const& at) {
  if constexpr (O.hadamard != 0)
    return hadamard<O.hadamard>{signs_of(O, at)};
  else
    return identity{};
}

}  // namespace detail

/// The format of an operand of a linear layer: nvfp4, mxfp4, or one of MXFP8 or FP8.
template <operand_recipe O>
using format_of = typename detail::format_among<O.format, nvfp4, mxfp4, mxfp8_e4m3, mxfp8_e5m2, fp8_e4m3,
                                                fp8_e5m2, fp8_block_e4m3, fp8_block_e5m2>::type;

/// The block shape of an operand.
template <operand_recipe O>
FOURSCALE_H constexpr auto blocks_of() {
  constexpr int n = format_of<O>::block_size;
  if constexpr (O.blocks == block_kind::tiles)
    return blocks_2d<n, n>{};
  else
    return blocks_1d{};
}

/// The quantizer of an operand: rounding and scale rule as visit() makes them, and the Hadamard transform,
/// which must be no longer than a block. Not for ms_eden.
template <operand_recipe O>
FOURSCALE_H constexpr auto quantizer_of(operand_place const& at) {
  static_assert(O.scale != scale_rule::ms_eden,
                "ms_eden is no quantizer: it transforms 128 values by itself.");
  constexpr bool t = O.copy == copy_kind::columnwise;
  return quantizer{detail::rounding_of<O>(at.key.elements(at.role, t)),
                   detail::scale_rule_of<O>(at.key.scales(at.role, t)), detail::transform_of<O>(at)};
}

}  // namespace FOURSCALE_NAMESPACE
