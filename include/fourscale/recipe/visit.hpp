// SPDX-License-Identifier: Apache-2.0
// visit(): turns a recipe that is chosen at run time into the library's policies, which are types.
// quantizer_of.hpp does so for a recipe that is known at compile time.
#pragma once

#include "../rounding/stochastic.hpp"
#include "../view/block_shape.hpp"
#include "draws.hpp"
#include "operand.hpp"

namespace FOURSCALE_NAMESPACE {

/// Which operand a recipe is for: random streams and signs depend on it.
struct operand_place {
  draw_key key;
  tensor_role role = tensor_role::activation;
  u32 gemm = 0;  ///< 0, 1, 2 for fprop, dgrad, wgrad
};

namespace detail {

/// The signs of an operand's transform.
FOURSCALE_H constexpr sign_vector signs_of(operand_recipe const& o, operand_place const& at) {
  switch (o.signs) {
    case sign_source::none:
      return no_signs;
    case sign_source::te_fixed: {  // the vector of 16, repeated
      constexpr u64 repeated = te_signs.words[0] * 0x0001'0001'0001'0001u;
      return {repeated, repeated};
    }
    case sign_source::drawn:
      return at.key.signs(at.gemm);
  }
  return no_signs;
}

/// Visits with 2-D blocks. Both copies share one set of scales, so they are only ever rounded to nearest.
template <class F, class Scale, class Visitor>
FOURSCALE_H constexpr bool visit_tiles(operand_recipe const& o, [[maybe_unused]] Scale const& scale,
                                       [[maybe_unused]] Visitor const& v) {
  if constexpr (block_scale_bytes<F> == 0) {
    return false;
  } else {
    if (o.rounding != rounding_rule::nearest_even) return false;
    v(F{}, quantizer{nearest_even{}, scale}, blocks_2d<F::block_size, F::block_size>{});
    return true;
  }
}

/// Visits with the rounding of the recipe. A rule that weighs candidates compares them by codes that are
/// rounded to nearest, so it goes with that rounding only.
template <class F, class Scale, class Visitor>
FOURSCALE_H constexpr bool visit_rounding(operand_recipe const& o, operand_place const& at,
                                          Scale const& scale, Visitor const& v) {
  if (o.blocks == block_kind::tiles) return visit_tiles<F>(o, scale, v);
  if (o.rounding == rounding_rule::nearest_even) {
    v(F{}, quantizer{nearest_even{}, scale}, blocks_1d{});
    return true;
  }
  if constexpr (amax_scaling_policy<Scale, F>) {
    const philox<> random = at.key.elements(at.role, o.copy == copy_kind::columnwise);
    if (o.rounding == rounding_rule::stochastic) {
      v(F{}, quantizer{stochastic{random}, scale}, blocks_1d{});
      return true;
    }
    if constexpr (same_type<F, nvfp4>) {
      if (o.rounding == rounding_rule::te_software) {
        v(F{}, quantizer{stochastic_te_software{random}, scale}, blocks_1d{});
        return true;
      }
    }
  }
  return false;
}

/// Visits with ms_eden, which is more than a scaling policy: it transforms 128 values and rounds them to
/// nearest by itself.
template <class F, class Bits, class Visitor>
FOURSCALE_H constexpr bool visit_rounding(operand_recipe const& o, operand_place const&,
                                          ms_eden<Bits> const& scale, Visitor const& v) {
  if (o.blocks == block_kind::tiles || o.rounding != rounding_rule::nearest_even || o.hadamard != 128)
    return false;
  v(F{}, scale, blocks_1d{});
  return true;
}

/// Rules that hold for every format. A switch that would change nothing is refused.
template <class F>
FOURSCALE_H constexpr bool is_consistent(operand_recipe const& o) {
  const bool size_is_known =
      o.hadamard == 0 || (o.hadamard >= 2 && o.hadamard <= 128 && (o.hadamard & (o.hadamard - 1)) == 0);
  if (!size_is_known || (o.hadamard == 0 && o.signs != sign_source::none)) return false;
  if (o.blocks == block_kind::tiles && (o.hadamard != 0 || o.amax == amax_source::per_row)) return false;
  return has_known_values(o) && (F::has_tensor_scale || o.amax == amax_source::current);
}

/// Visits with a known format, under the scale rule of the recipe.
template <class F, class Visitor>
FOURSCALE_H constexpr bool visit_as(operand_recipe const& o, operand_place const& at, Visitor const& v) {
  const scale_draws draws{at.key.scales(at.role, o.copy == copy_kind::columnwise), signs_of(o, at)};
  const auto visit_rule = [&]<class Formats, class Policy>(Formats, char const*,
                                                           [[maybe_unused]] Policy const& policy) {
    if constexpr (Formats::template has<F>)
      return visit_rounding<F>(o, at, policy, v);
    else
      return false;
  };
  return is_consistent<F>(o) && visit_scale_rule(o.scale, draws, false, visit_rule);
}

}  // namespace detail

/// Calls v(F{}, quantizer, blocks) with the types that `o` names; if `o` names ms_eden, that takes the
/// quantizer's place. The quantizer does not contain the Hadamard transform (only ms_eden does): transform
/// the matrix before. Returns false, without a call, if the parts of the recipe do not go together, if one of
/// them is a number that names nothing, or if the format is bf16.
template <class Visitor>
FOURSCALE_H constexpr bool visit(operand_recipe const& o, operand_place const& at, Visitor const& v) {
  return visit_format(o.format, false, [&]<class F>(F) { return detail::visit_as<F>(o, at, v); });
}

}  // namespace FOURSCALE_NAMESPACE
