// SPDX-License-Identifier: Apache-2.0
// Types that describe one copy of a tensor under a preset: its format, its quantizer, its amaxes.
// visit_copy() finds the type from numbers.
#pragma once

#include <fourscale/block/ms_eden.hpp>

#include "buffers.hpp"
#include "key.hpp"

namespace fourscale_jax {

/// A copy of a tensor of a linear layer.
template <class Operand, bool Columnwise>
struct linear_copy {
  static constexpr f4::operand_recipe recipe = Columnwise ? Operand::of_columnwise : Operand::of_rowwise;
  using format = typename Operand::format;
  using blocks = decltype(f4::blocks_of<recipe>());
  static constexpr int amax_count = Operand::amax_count, amax_at = Columnwise && amax_count == 2 ? 1 : 0;

  /// The transform of the columnwise copy.
  static auto transform() { return f4::quantizer_of<Operand::of_columnwise>({}).transform; }
  auto quantizer([[maybe_unused]] keyed_bits bits) const {
    static_assert(recipe.scale != f4::scale_rule::stochastic_scale &&
                      recipe.signs != f4::sign_source::drawn &&
                      recipe.rounding != f4::rounding_rule::te_software,
                  "Only stochastic rounding draws from the key.");
    const auto q = f4::quantizer_of<recipe>({});
    if constexpr (recipe.rounding == f4::rounding_rule::stochastic)
      return f4::quantizer{f4::stochastic{bits.for_use(use_of(Operand::role, Columnwise))}, q.scale,
                           q.transform};
    else
      return q;
  }
};

/// A copy rounded to nearest, without a transform: the forward of Quartet II.
template <class F, class Quantizer, class Blocks>
struct nearest_copy {
  using format = F;
  using blocks = Blocks;
  static constexpr int amax_count = F::has_tensor_scale, amax_at = 0;

  Quantizer quantizer(keyed_bits) const { return {}; }
};

/// A copy by MS-EDEN. Its values have been multiplied by the random signs already.
struct ms_eden_copy {
  using format = f4::nvfp4;
  using blocks = f4::blocks_1d;
  static constexpr int amax_count = 1, amax_at = 0;
  f4::tensor_role role;
  bool columnwise;

  f4::ms_eden<keyed_bits> quantizer(keyed_bits bits) const {
    return {bits.for_use(use_of_scales(role, columnwise)), f4::no_signs};
  }
};

/// The tensor range of a copy: what its amax is brought to.
template <class Copy>
auto range_of(Copy const& copy) {
  return f4::quantizer_range<typename Copy::format>(copy.quantizer({}));
}

/// The view that a copy is quantized into.
template <class Copy>
auto view_for(Copy const& copy, tensor const& codes, tensor const& scales, i64 rows, i64 cols,
              tensor const& amaxes) {
  return view_of(codes, scales, rows, cols, amax_at(amaxes, Copy::amax_at, range_of(copy)));
}

/// True for the quantizers, besides MS-EDEN, of presets that linear layers do not take. visit() knows more.
template <class F, class Quantizer>
inline constexpr bool is_offered = false;
template <class Scale>
inline constexpr bool is_offered<f4::nvfp4, f4::quantizer<f4::nearest_even, Scale>> =
    f4::same_type<Scale, f4::four_over_six<f4::error_norm::mean_square, 256>>;

/// Calls v(copy) for one copy of a tensor.
template <class Visitor>
errc visit_copy(i32 which, i32 role, bool columnwise, Visitor const& v) {
  if (is_linear(which))
    return visit_operand(which, role, [&]<class Operand>(Operand) {
      return columnwise ? v(linear_copy<Operand, true>{}) : v(linear_copy<Operand, false>{});
    });
  if (!is_preset(which) || role < 0 || role > 2) return errc::bad_recipe;
  const auto r = static_cast<f4::tensor_role>(role);
  const f4::operand_recipe o = operand_of(presets[which].policy.linear, r, columnwise);
  errc result = errc::bad_recipe;
  visit(o, {}, [&]<class F, class Quantizer, class Blocks>(F, Quantizer const&, Blocks) {
    if constexpr (requires(Quantizer q) { q.group_size; })
      result = v(ms_eden_copy{r, columnwise});
    else if constexpr (is_offered<F, Quantizer>)
      result = v(nearest_copy<F, Quantizer, Blocks>{});
  });
  return result;
}

}  // namespace fourscale_jax
