// SPDX-License-Identifier: Apache-2.0
// One block of raw values by one thread: quantize_block() in fewer instructions, and where there is one, by
// the quick way.
#pragma once

#include "quick.cuh"

namespace fourscale::device::detail {

/// quantize_block() of raw values.
template <class F, class T, class Quantizer>
FOURSCALE_D packed_block<F> quantize_raw(cta::values<T, F::block_size> const& block, Quantizer const& recipe,
                                         tensor_scale<F> const& tensor, position where) {
  float values[F::block_size];
#if FOURSCALE_HAS_CVT_FP8
  if constexpr (has_quick_way<F, T, Quantizer>() && is_four_over_six<decltype(recipe.scale)>) {
    const auto& y = transformed<F>(block, recipe);
    const quick_scale<F> chosen = weigh_quickly<F, true>(recipe.scale, y, amax_or_nan(y), tensor);
    if (chosen.valid) {
      to_floats(y, values);
      packed_block<F> packed{chosen.code, {}};
      round_block<F>(values, chosen.multiplier, recipe.round, where, packed.codes);
      return packed;
    }
  }
#endif
  to_floats(block, values);
  if constexpr (__is_same(decltype(recipe.transform), identity) &&
                amax_scaling_policy<decltype(recipe.scale), F>) {
    const block_scale<F> scaled = scale_for<F>(recipe.scale, raw_amax(block), tensor, where);
    packed_block<F> packed{scaled.scale, {}};
    round_block<F>(values, scaled.multiplier, recipe.round, where, packed.codes);
    return packed;
  } else {
    return quantize_block<F>(values, recipe, tensor, where);
  }
}

/// How many CTAs of 256 threads leave a recipe the registers that it needs: weighing two scales takes more.
template <class F, class Quantizer>
inline constexpr int ctas_for = amax_scaling_policy<decltype(Quantizer::scale), F> ? 4 : 3;

/// A result that holds only if `valid`.
template <class F>
struct attempt {
  packed_block<F> block;
  bool valid;
};

/// quantize_raw() of values or of what else has get() and as_values(); where there is a quick way, with the
/// question whether it held.
template <class F, class T, class Block, class Quantizer>
FOURSCALE_D attempt<F> try_quantize_raw(Block const& block, Quantizer const& recipe,
                                        tensor_scale<F> const& tensor, position where) {
#if FOURSCALE_HAS_CVT_FP8
  if constexpr (has_quick_way<F, T, Quantizer>()) {
    constexpr float unit = transformed_unit<F, Quantizer>();
    const auto& y = transformed<F>(block, recipe);
    const float amax = unit == 1.0f ? amax_or_nan(y) : ptx::mul_rn_f32(amax_or_nan(y), unit);
    const quick_scale<F> chosen = scale_quickly<F>(recipe.scale, y, amax, tensor, where);
    attempt<F> result{{chosen.code, {}}, chosen.valid};
    round_block_quickly<F>(y, unit, chosen.multiplier, recipe.round, where, result.block.codes);
    return result;
  }
#endif
  return {quantize_raw<F>(as_values(block), recipe, tensor, where), true};
}

}  // namespace fourscale::device::detail
