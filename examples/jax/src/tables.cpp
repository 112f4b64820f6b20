// SPDX-License-Identifier: Apache-2.0
// What Python asks about recipes, at trace time.
#include "calls.hpp"
#include "copies.hpp"

using namespace fourscale_jax;

/// One copy of a tensor under a preset.
struct copy_description {
  i32 format, block, code_bits, scale_bytes, amax_count, amax_at;
  i32 multiple;  ///< what a row's length must be a multiple of
  i32 rows;      ///< how many rows share a scale
  i32 hadamard;  ///< the size of the transform
  i32 signs;     ///< its fixed signs, of 16 elements, again and again: bit i is 1 where element i is negated
  i32 draws;     ///< 1 if it needs a key
  i32 delayed;   ///< 1 if it is under an amax of the past
  i32 both;      ///< 1 if fourscale_quantize_both() makes it, with the other copy
  float range;   ///< what the amax is brought to
};

/// The name of a preset; null after the last.
FOURSCALE_EXPORT char const* fourscale_recipe(i32 which) {
  return is_preset(which) ? presets[which].name : nullptr;
}

/// The name of a format; null for bf16 and beyond the last.
FOURSCALE_EXPORT char const* fourscale_format(i32 format) {
  return visit_format(static_cast<f4::format_name>(format), static_cast<char const*>(nullptr),
                      []<class F>(F) { return F::name; });
}

/// The rule that a linear layer of this shape breaks where all its dimensions are multiples of `block`, or
/// null.
FOURSCALE_EXPORT char const* fourscale_refusal(i32 block, i64 tokens, i64 in, i64 out) {
  const errc e = validate(f4::linear_shape{tokens, in, out}, block);
  return e == errc::ok ? nullptr : message(e);
}

/// The rule that a call found broken, as a sentence.
FOURSCALE_EXPORT char const* fourscale_message(errc e) { return message(e); }

/// Describes a copy; false if there is none.
FOURSCALE_EXPORT bool fourscale_describe(i32 which, i32 role, i32 columnwise, copy_description* to) {
  return visit_copy(which, role, columnwise != 0, [&]<class Copy>(Copy const& copy) {
           using F = typename Copy::format;
           const f4::operand_recipe o =
               operand_of(presets[which].policy.linear, static_cast<f4::tensor_role>(role), columnwise != 0);
           const bool draws =
               o.rounding == f4::rounding_rule::stochastic || o.scale == f4::scale_rule::ms_eden;
           *to = {.format = static_cast<i32>(o.format),
                  .block = F::block_size,
                  .code_bits = F::element::width,
                  .scale_bytes = f4::block_scale_bytes<F>,
                  .amax_count = Copy::amax_count,
                  .amax_at = Copy::amax_at,
                  .multiple = o.hadamard > F::block_size ? o.hadamard : F::block_size,
                  .rows = o.blocks == f4::block_kind::tiles ? F::block_size : 1,
                  .hadamard = o.hadamard,
                  .signs = o.signs == f4::sign_source::te_fixed ? static_cast<i32>(f4::te_signs.words[0]) : 0,
                  .draws = draws,
                  .delayed = o.amax == f4::amax_source::delayed,
                  .both = is_linear(which),
                  .range = 0.0f};
           if constexpr (F::has_tensor_scale) to->range = range_of(copy).largest;
           return errc::ok;
         }) == errc::ok;
}

/// Whether a linear layer of a model is quantized under a preset: `kind` 0 for attention, 1 for the MLP.
FOURSCALE_EXPORT bool fourscale_quantizes(i32 which, i32 kind, i32 layer, i32 layers) {
  if (!is_preset(which)) return false;
  return presets[which].policy.at(static_cast<f4::layer_kind>(kind), layer, layers, 0) != f4::linear_recipe{};
}
