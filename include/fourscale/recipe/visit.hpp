// SPDX-License-Identifier: Apache-2.0
// From a recipe that is chosen at run time to the library's policies, which are types.
#pragma once

#include "../block/ms_eden.hpp"
#include "../rounding/stochastic.hpp"
#include "../scaling/four_over_six.hpp"
#include "../view/block_shape.hpp"
#include "draws.hpp"
#include "operand.hpp"

namespace fourscale {

/// What a visit needs to know besides the recipe: whose operand it is.
struct operand_place {
  draw_key key;
  tensor_role role = tensor_role::activation;
  u32 gemm = 0;  ///< 0, 1, 2 for fprop, dgrad, wgrad
};

namespace detail {

/// The signs of an operand's transform.
constexpr sign_vector signs_of(operand_recipe const& o, operand_place const& at) {
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

/// Tiles share one set of scales between both copies, so they are only ever rounded to nearest.
template <class F, class Scale, class Visitor>
bool visit_rounding(operand_recipe const& o, operand_place const& at, Scale scale, Visitor const& v) {
  if (o.blocks == block_kind::tiles) {
    if (o.rounding != rounding_rule::nearest_even) return false;
    if constexpr (block_scale_bytes < F >> 0) {
      v(F{}, quantizer{nearest_even{}, scale}, blocks_2d<F::block_size, F::block_size>{});
      return true;
    }
    return false;
  }
  const philox<> random = at.key.elements(at.role, o.copy == copy_kind::columnwise);
  if (o.rounding == rounding_rule::nearest_even) v(F{}, quantizer{nearest_even{}, scale}, blocks_1d{});
  if (o.rounding == rounding_rule::stochastic) v(F{}, quantizer{stochastic{random}, scale}, blocks_1d{});
  if (o.rounding == rounding_rule::te_software) {
    if constexpr (!__is_same(F, nvfp4)) return false;
    if constexpr (__is_same(F, nvfp4)) v(F{}, quantizer{stochastic_te_software{random}, scale}, blocks_1d{});
  }
  return true;
}

/// Four over six weighs the codes of rounding to nearest, so it goes with that only.
template <class Scale, class Visitor>
bool visit_weighing(operand_recipe const& o, Scale scale, Visitor const& v) {
  if (o.rounding != rounding_rule::nearest_even) return false;
  if (o.blocks == block_kind::tiles)
    v(nvfp4{}, quantizer{nearest_even{}, scale}, blocks_2d<16, 16>{});
  else
    v(nvfp4{}, quantizer{nearest_even{}, scale}, blocks_1d{});
  return true;
}

template <class Visitor>
bool visit_nvfp4(operand_recipe const& o, operand_place const& at, Visitor const& v) {
  const philox<> for_scales = at.key.scales(at.role, o.copy == copy_kind::columnwise);
  const bool plain = o.blocks == block_kind::along_rows && o.rounding == rounding_rule::nearest_even;
  using enum error_norm;
  switch (o.scale) {
    case scale_rule::standard:
      return visit_rounding<nvfp4>(o, at, two_level{}, v);
    case scale_rule::two_level_division:
      return visit_rounding<nvfp4>(o, at, two_level_division{}, v);
    case scale_rule::headroom:
      return visit_rounding<nvfp4>(o, at, two_level_headroom{}, v);
    case scale_rule::stochastic_scale:
      return visit_rounding<nvfp4>(o, at, two_level_stochastic{for_scales}, v);
    case scale_rule::four_over_six_mae:
      return visit_weighing(o, fourscale::four_over_six<mean_absolute, 256>{}, v);
    case scale_rule::four_over_six_mse:
      return visit_weighing(o, fourscale::four_over_six<mean_square, 256>{}, v);
    case scale_rule::four_over_six_mae_448:
      return visit_weighing(o, fourscale::four_over_six<mean_absolute, 448>{}, v);
    case scale_rule::four_over_six_mse_448:
      return visit_weighing(o, fourscale::four_over_six<mean_square, 448>{}, v);
    case scale_rule::ms_eden:
      if (!plain || o.hadamard != 128) return false;
      v(nvfp4{}, ms_eden{for_scales, signs_of(o, at)}, blocks_1d{});
      return true;
    default:
      return false;
  }
}

template <class F, class Visitor>
bool visit_mx(operand_recipe const& o, operand_place const& at, Visitor const& v) {
  if (o.scale == scale_rule::standard) return visit_rounding<F>(o, at, power_of_two_up{}, v);
  if (o.scale == scale_rule::floor) return visit_rounding<F>(o, at, power_of_two_floor{}, v);
  return false;
}

template <class F, class Visitor>
bool visit_fp8_block(operand_recipe const& o, operand_place const& at, Visitor const& v) {
  if (o.scale != scale_rule::standard && o.scale != scale_rule::fp32_scale) return false;
  return visit_rounding<F>(o, at, fp8_block_scale{o.scale == scale_rule::standard}, v);
}

template <class F, class Visitor>
bool visit_standard(operand_recipe const& o, operand_place const& at, Visitor const& v) {
  return o.scale == scale_rule::standard && visit_rounding<F>(o, at, amax_scale{}, v);
}

/// Rules that hold for every format: a switch that would change nothing is refused.
constexpr bool is_consistent(operand_recipe const& o) {
  using enum format_name;
  const bool size_is_known =
      o.hadamard == 0 || (o.hadamard >= 2 && o.hadamard <= 128 && (o.hadamard & (o.hadamard - 1)) == 0);
  const bool has_tensor_scale =
      o.format == nvfp4 || o.format == nvint4 || o.format == fp8_e4m3 || o.format == fp8_e5m2;
  if (!size_is_known || (o.hadamard == 0 && o.signs != sign_source::none)) return false;
  if (o.blocks == block_kind::tiles && (o.hadamard != 0 || o.amax == amax_source::per_row)) return false;
  return has_tensor_scale || o.amax == amax_source::current;
}

}  // namespace detail

/// Calls v(F{}, quantizer, blocks) with the types that `o` names; ms_eden in place of a quantizer where it
/// says so. The Hadamard transform is not part of the quantizer (only of ms_eden): the matrix is transformed
/// before. False, without a call, if the parts of the recipe do not go together, or if it says bf16.
template <class Visitor>
bool visit(operand_recipe const& o, operand_place const& at, Visitor const& v) {
  if (!detail::is_consistent(o)) return false;
  switch (o.format) {
    case format_name::bf16:
      return false;
    case format_name::nvfp4:
      return detail::visit_nvfp4(o, at, v);
    case format_name::nvint4:
      return detail::visit_standard<nvint4>(o, at, v);
    case format_name::mxfp4:
      return detail::visit_mx<mxfp4>(o, at, v);
    case format_name::mxfp8_e4m3:
      return detail::visit_mx<mxfp8_e4m3>(o, at, v);
    case format_name::mxfp8_e5m2:
      return detail::visit_mx<mxfp8_e5m2>(o, at, v);
    case format_name::fp8_e4m3:
      return detail::visit_standard<fp8_e4m3>(o, at, v);
    case format_name::fp8_e5m2:
      return detail::visit_standard<fp8_e5m2>(o, at, v);
    case format_name::fp8_block_e4m3:
      return detail::visit_fp8_block<fp8_block_e4m3>(o, at, v);
    case format_name::fp8_block_e5m2:
      return detail::visit_fp8_block<fp8_block_e5m2>(o, at, v);
  }
  return false;
}

}  // namespace fourscale
