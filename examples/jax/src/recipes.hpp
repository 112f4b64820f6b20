// SPDX-License-Identifier: Apache-2.0
// The presets by number, as calls get them from Python, and the linear layer that each one is.
#pragma once

#include <fourscale/recipe/linear.hpp>
#include <fourscale/recipe/presets.hpp>

namespace fourscale_jax {

namespace f4 = fourscale;
using f4::errc, f4::i32, f4::i64, f4::u32, f4::u64, f4::u8;

struct preset {
  char const* name;
  f4::precision_policy policy;
};

/// Python knows presets by their place in this table.
inline constexpr preset presets[] = {
    {"bf16", f4::presets::bf16()},
    {"te_nvfp4", f4::presets::te_nvfp4()},
    {"te_nvfp4_no_rht", f4::presets::te_nvfp4_no_rht()},
    {"te_nvfp4_no_sr", f4::presets::te_nvfp4_no_sr()},
    {"te_nvfp4_no_2d", f4::presets::te_nvfp4_no_2d()},
    {"paper", f4::presets::paper()},
    {"mlp_only", f4::presets::mlp_only()},
    {"nemotron3", f4::presets::nemotron3()},
    {"mxfp4", f4::presets::mxfp4()},
    {"four_over_six", f4::presets::four_over_six()},
    {"quartet2", f4::presets::quartet2()},
    {"mxfp8", f4::presets::mxfp8()},
    {"fp8_current", f4::presets::fp8_current()},
    {"fp8_delayed", f4::presets::fp8_delayed()},
    {"fp8_block", f4::presets::fp8_block()},
};
inline constexpr i32 preset_count = sizeof presets / sizeof presets[0];

constexpr bool is_preset(i32 which) { return which >= 0 && which < preset_count; }

/// The recipe of one copy of a tensor.
constexpr f4::operand_recipe operand_of(f4::linear_recipe const& r, f4::tensor_role role, bool columnwise) {
  switch (role) {
    case f4::tensor_role::activation:
      return columnwise ? r.wgrad.b : r.fprop.a;
    case f4::tensor_role::weight:
      return columnwise ? r.dgrad.b : r.fprop.b;
    default:
      return columnwise ? r.wgrad.a : r.dgrad.a;
  }
}

/// A recipe as a type.
template <f4::linear_recipe R>
struct recipe_tag {
  static constexpr f4::linear_recipe value = R;
};

/// Calls v(recipe_tag<R>{}) for the recipe of a preset, if linear layers take it; bad_recipe otherwise.
template <class Visitor>
errc visit_linear(i32 which, Visitor const& v) {
  if (!is_preset(which)) return errc::bad_recipe;
  const f4::linear_recipe wanted = presets[which].policy.linear;
  errc result = errc::bad_recipe;
  const auto offer = [&]<f4::linear_recipe R>(recipe_tag<R> tag) {
    if (wanted == R) result = v(tag);
  };
  offer(recipe_tag<f4::presets::te_nvfp4().linear>{});
  offer(recipe_tag<f4::presets::te_nvfp4_no_rht().linear>{});
  offer(recipe_tag<f4::presets::te_nvfp4_no_sr().linear>{});
  offer(recipe_tag<f4::presets::te_nvfp4_no_2d().linear>{});
  offer(recipe_tag<f4::presets::mxfp4().linear>{});
  offer(recipe_tag<f4::presets::four_over_six().linear>{});
  offer(recipe_tag<f4::presets::mxfp8().linear>{});
  offer(recipe_tag<f4::presets::fp8_current().linear>{});
  offer(recipe_tag<f4::presets::fp8_delayed().linear>{});
  offer(recipe_tag<f4::presets::fp8_block().linear>{});
  return result;
}

/// True for the presets that linear layers take: all but bf16 and those by MS-EDEN.
constexpr bool is_linear(i32 which) {
  return is_preset(which) && validate(presets[which].policy.linear) == errc::ok;
}

/// Calls v(linear_operand<R, Role>{}) for a tensor of a linear layer.
template <class Visitor>
errc visit_operand(i32 which, i32 role, Visitor const& v) {
  using enum f4::tensor_role;
  return visit_linear(which, [&]<f4::linear_recipe R>(recipe_tag<R>) {
    switch (static_cast<f4::tensor_role>(role)) {
      case activation:
        return v(f4::linear_operand<R, activation>{});
      case weight:
        return v(f4::linear_operand<R, weight>{});
      case gradient:
        return v(f4::linear_operand<R, gradient>{});
    }
    return errc::bad_recipe;
  });
}

}  // namespace fourscale_jax
