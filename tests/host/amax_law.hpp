// SPDX-License-Identifier: Apache-2.0
// The functions of the host for support/amax_law.hpp, and its checks for what recipes can name.
#pragma once

#include <fourscale/recipe/describe.hpp>
#include <fourscale/recipe/presets.hpp>
#include <fourscale/recipe/visit.hpp>

#include "support/amax_law_groups.hpp"

namespace fourscale::test::law {

struct host_machine {
  template <class T>
  using memory = std::vector<T>;
  template <class T>
  static std::vector<T> const& fetch(memory<T> const& m) {
    return m;
  }

  template <class F>
  static constexpr bool has_gemm = true;
  /// Three roundings to float each for code * scale * tensor scale of both operands, one of D.
  static constexpr double gemm_tolerance = 8 * 0x1p-24;

  template <class M, class F, class Layout, class Recipe, class Blocks>
  static errc quantize(M const& x, block_scaled_view<F, Layout> const& q, Recipe const& recipe,
                       Blocks shape) {
    if constexpr (requires { recipe.scale; })
      return host::quantize(x, q, recipe, shape);
    else
      return host::quantize(x, q, recipe);
  }
  template <class... Arguments>
  static errc quantize_grouped(Arguments const&... arguments) {
    return host::quantize_grouped(arguments...);
  }
  template <class... Arguments>
  static errc quantize_both(Arguments const&... arguments) {
    return host::quantize_both(arguments...);
  }
  template <class... Arguments>
  static errc transpose(Arguments const&... arguments) {
    return host::transpose(arguments...);
  }
  template <class... Arguments>
  static errc dequantize(Arguments const&... arguments) {
    return host::dequantize(arguments...);
  }
  template <class A, class B>
  static errc gemm(A const& a, B const& b, matrix_view<float> const& d) {
    return host::gemm(a, b, d);
  }
  template <class F, class Layout>
  static errc statistics_of(matrix_view<float const> const& x, block_scaled_view<F, Layout> const& q,
                            statistics& s) {
    return host::statistics_of(x, q, &s);
  }
};

inline constexpr operand_place place{{7, 3, 1000, 2}, tensor_role::gradient, 2};

template <class Checks>
void check_operand(operand_recipe const& o, Checks const& checks) {
  INFO(describe(o).c_str());
  CHECK(visit(o, place, checks));
}

/// Each operand of each preset.
template <class Checks>
void check_presets(Checks const& checks) {
  for (precision_policy const& p :
       {presets::te_nvfp4(), presets::te_nvfp4_no_rht(), presets::paper(), presets::mlp_only(),
        presets::nemotron3(), presets::mxfp4(), presets::mxfp8(), presets::fp8_current(),
        presets::fp8_delayed(), presets::fp8_block(), presets::four_over_six(), presets::quartet2()})
    for (gemm_recipe const& g : {p.linear.fprop, p.linear.dgrad, p.linear.wgrad})
      for (operand_recipe const& o : {g.a, g.b}) check_operand(o, checks);
}

/// Each scaling rule and rounding that a format goes with, by rows and by tiles; returns how many.
template <class Checks>
int check_format(format_name format, Checks const& checks) {
  int checked = 0;
  for (int s = 0; s <= static_cast<int>(scale_rule::fp32_scale); ++s)
    for (int r = 0; r <= static_cast<int>(rounding_rule::te_software); ++r)
      for (const block_kind blocks : {block_kind::along_rows, block_kind::tiles}) {
        operand_recipe o{.format = format,
                         .blocks = blocks,
                         .rounding = static_cast<rounding_rule>(r),
                         .scale = static_cast<scale_rule>(s)};
        if (o.scale == scale_rule::ms_eden) o.hadamard = 128, o.signs = sign_source::drawn;
        if (!visit(o, place, [](auto, auto const&, auto) {})) continue;
        check_operand(o, checks);
        ++checked;
      }
  return checked;
}

}  // namespace fourscale::test::law
