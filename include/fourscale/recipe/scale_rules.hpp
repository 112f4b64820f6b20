// SPDX-License-Identifier: Apache-2.0
// The rules for block scales that a recipe may name (`scale_rule`). This file is their only list: their
// names, their policies and the formats that each goes with follow from it.
#pragma once

#include "../block/ms_eden.hpp"
#include "../rounding/philox.hpp"
#include "../scaling/amax_scale.hpp"
#include "../scaling/four_over_six.hpp"

namespace FOURSCALE_NAMESPACE {

/// How the scale of a block follows from its values. `standard` is amax_scale, NVIDIA's rule for the format.
enum class scale_rule : u8 {
  standard,
  two_level_division,
  headroom,
  stochastic_scale,
  four_over_six_mae,
  four_over_six_mse,
  four_over_six_mae_448,
  four_over_six_mse_448,
  ms_eden,
  floor,
  fp32_scale,
};

/// The formats that a rule goes with: has<F> is true for these.
struct any_format {
  template <block_format F>
  static constexpr bool has = true;
};
struct only_nvfp4 {
  template <block_format F>
  static constexpr bool has = same_type<F, nvfp4>;
};
struct mx_formats {
  template <block_format F>
  static constexpr bool has = same_type<typename F::scale, e8m0>;
};
struct fp8_blocks {
  template <block_format F>
  static constexpr bool has = same_type<typename F::scale, f32>;
};

/// The random numbers for the rules that need them.
struct scale_draws {
  philox<> bits{};
  sign_vector signs{};
};

/// Returns v(formats, name, policy) for rule s, or `otherwise` where the number s names no rule. ms_eden is a
/// whole quantizer, so its policy is ms_eden itself.
template <class Result, class Visitor>
FOURSCALE_H constexpr Result visit_scale_rule(scale_rule s, scale_draws const& draws, Result otherwise,
                                              Visitor const& v) {
  using enum error_norm;
  switch (s) {  // compilers warn of a name that is missing here
    case scale_rule::standard:
      return v(any_format{}, "standard", amax_scale{});
    case scale_rule::two_level_division:
      return v(only_nvfp4{}, "two_level_division", two_level_division{});
    case scale_rule::headroom:
      return v(only_nvfp4{}, "headroom", two_level_headroom{});
    case scale_rule::stochastic_scale:
      return v(only_nvfp4{}, "stochastic_scale", two_level_stochastic{draws.bits});
    case scale_rule::four_over_six_mae:
      return v(only_nvfp4{}, "four_over_six_mae", four_over_six<mean_absolute, 256>{});
    case scale_rule::four_over_six_mse:
      return v(only_nvfp4{}, "four_over_six_mse", four_over_six<mean_square, 256>{});
    case scale_rule::four_over_six_mae_448:
      return v(only_nvfp4{}, "four_over_six_mae_448", four_over_six<mean_absolute, 448>{});
    case scale_rule::four_over_six_mse_448:
      return v(only_nvfp4{}, "four_over_six_mse_448", four_over_six<mean_square, 448>{});
    case scale_rule::ms_eden:
      return v(only_nvfp4{}, "ms_eden", ms_eden{draws.bits, draws.signs});
    case scale_rule::floor:
      return v(mx_formats{}, "floor", power_of_two_floor{});
    case scale_rule::fp32_scale:
      return v(fp8_blocks{}, "fp32_scale", fp8_block_scale{false});
  }
  return otherwise;
}

/// The name, such as "standard"; "?" for a number that names no rule.
FOURSCALE_H constexpr char const* name(scale_rule s) {
  return visit_scale_rule(s, {}, "?", [](auto, char const* text, auto const&) { return text; });
}

}  // namespace FOURSCALE_NAMESPACE
