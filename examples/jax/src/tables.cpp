// SPDX-License-Identifier: Apache-2.0
// What Python asks about recipes, at trace time.
#include "recipes.hpp"

using namespace fourscale_jax;

/// One copy of a tensor under a preset.
struct copy_description {
  i32 format, block, code_bits, scale_bytes, amax_count, amax_at, stochastic, hadamard;
  float range;
};

namespace {

template <class Operand>
errc describe(bool columnwise, copy_description* to) {
  using F = typename Operand::format;
  constexpr f4::operand_recipe rows = Operand::of_rowwise, columns = Operand::of_columnwise;
  const f4::operand_recipe o = columnwise ? columns : rows;
  const f4::tensor_amax<F> amax = columnwise ? f4::tensor_amax<F>({}, f4::quantizer_of<columns>({}))
                                             : f4::tensor_amax<F>({}, f4::quantizer_of<rows>({}));
  *to = {static_cast<i32>(o.format),
         F::block_size,
         F::element::width,
         f4::block_scale_bytes<F>,
         Operand::amax_count,
         columnwise && Operand::amax_count == 2,
         o.rounding == f4::rounding_rule::stochastic,
         o.hadamard,
         0.0f};
  if constexpr (F::has_tensor_scale) to->range = amax.range.largest;
  return errc::ok;
}

}  // namespace

#define FOURSCALE_JAX_EXPORT extern "C" __attribute__((visibility("default")))

/// The name of a preset; null after the last.
FOURSCALE_JAX_EXPORT char const* fourscale_jax_recipe(i32 which) {
  return is_preset(which) ? presets[which].name : nullptr;
}

/// The rule that a linear layer of this shape breaks under a preset, or null.
FOURSCALE_JAX_EXPORT char const* fourscale_jax_refusal(i32 which, i64 tokens, i64 in, i64 out) {
  const errc e = visit_operand(which, 0, [&]<class Operand>(Operand) {
    return validate(f4::linear_shape{tokens, in, out}, Operand::format::block_size);
  });
  return e == errc::ok ? nullptr : message(e);
}

/// Describes a copy; false if linear layers do not take the preset.
FOURSCALE_JAX_EXPORT bool fourscale_jax_describe(i32 which, i32 role, i32 columnwise, copy_description* to) {
  return visit_operand(which, role, [&]<class Operand>(Operand) {
           return describe<Operand>(columnwise != 0, to);
         }) == errc::ok;
}

/// Whether a linear layer of a model is quantized under a preset: `kind` 0 for attention, 1 for the MLP.
FOURSCALE_JAX_EXPORT bool fourscale_jax_quantizes(i32 which, i32 kind, i32 layer, i32 layers) {
  if (!is_preset(which)) return false;
  return presets[which].policy.at(static_cast<f4::layer_kind>(kind), layer, layers, 0) != f4::linear_recipe{};
}
