// SPDX-License-Identifier: Apache-2.0
// The published recipes by name. Sources: arXiv 2509.25149 (NVFP4), Transformer Engine and MaxText, Nemotron
// 3, arXiv 2512.02010 (four over six), arXiv 2601.22813 (Quartet II), DeepSeek-V3 (FP8 blocks).
#pragma once

#include "policy.hpp"

namespace FOURSCALE_NAMESPACE::presets {

namespace detail {

FOURSCALE_H constexpr operand_recipe columnwise(operand_recipe o) {
  o.copy = copy_kind::columnwise;
  return o;
}
FOURSCALE_H constexpr operand_recipe rounded(operand_recipe o, rounding_rule r) {
  o.rounding = r;
  return o;
}
FOURSCALE_H constexpr operand_recipe rotated(operand_recipe o, u8 size, sign_source signs) {
  o.hadamard = size;
  o.signs = signs;
  return o;
}
FOURSCALE_H constexpr operand_recipe scaled(operand_recipe o, scale_rule s) {
  o.scale = s;
  return o;
}
/// Activations x, weights w and gradients g: each tensor is quantized under one recipe for all its GEMMs.
FOURSCALE_H constexpr linear_recipe each(operand_recipe x, operand_recipe w, operand_recipe g) {
  return {{x, w}, {g, columnwise(w)}, {columnwise(g), columnwise(x)}};
}

/// NVIDIA's form of a 4-bit recipe: weights in tiles, gradients rounded stochastically, a Hadamard transform
/// on both operands of wgrad.
FOURSCALE_H constexpr linear_recipe four_bit(format_name format, u8 hadamard, sign_source signs) {
  const operand_recipe x{.format = format}, w{.format = format, .blocks = block_kind::tiles};
  linear_recipe r = each(x, w, rounded(x, rounding_rule::stochastic));
  if (hadamard != 0) r.wgrad = {rotated(r.wgrad.a, hadamard, signs), rotated(r.wgrad.b, hadamard, signs)};
  return r;
}

}  // namespace detail

/// Nothing is quantized.
FOURSCALE_H constexpr precision_policy bf16() { return {}; }

/// Transformer Engine's NVFP4BlockScaling(), MaxText's te_nvfp4: every linear layer but the logits.
FOURSCALE_H constexpr precision_policy te_nvfp4() {
  return {.linear = detail::four_bit(format_name::nvfp4, 16, sign_source::te_fixed)};
}

/// te_nvfp4 with disable_rht: what MaxText's example script runs.
FOURSCALE_H constexpr precision_policy te_nvfp4_no_rht() {
  return {.linear = detail::four_bit(format_name::nvfp4, 0, sign_source::none)};
}

/// te_nvfp4 with disable_stochastic_rounding: gradients are rounded to nearest, as all else.
FOURSCALE_H constexpr precision_policy te_nvfp4_no_sr() {
  precision_policy p = te_nvfp4();
  linear_recipe& r = p.linear;
  r.dgrad.a = detail::rounded(r.dgrad.a, rounding_rule::nearest_even);
  r.wgrad.a = detail::rounded(r.wgrad.a, rounding_rule::nearest_even);
  return p;
}

/// te_nvfp4 with disable_2d_quantization: weights in blocks of 1 x 16, so that forward and dgrad multiply
/// different values.
FOURSCALE_H constexpr precision_policy te_nvfp4_no_2d() {
  precision_policy p = te_nvfp4();
  p.linear.fprop.b.blocks = p.linear.dgrad.b.blocks = block_kind::along_rows;
  return p;
}

/// The recipe of the paper (arXiv 2509.25149): the first 2 and the last 8 of its 62 blocks stay in BF16.
FOURSCALE_H constexpr precision_policy paper() {
  precision_policy p = te_nvfp4();
  p.first_in_bf16 = 2;
  p.last_in_bf16 = 8;
  return p;
}

/// The scope of NVIDIA's JAX blog post: GEMMs of the MLP only, attention projections in BF16.
FOURSCALE_H constexpr precision_policy mlp_only() {
  precision_policy p = te_nvfp4();
  p.attention = false;
  return p;
}

/// Nemotron 3 Super and Ultra: the last 15 % of the layers and the attention projections in BF16.
FOURSCALE_H constexpr precision_policy nemotron3() {
  precision_policy p = te_nvfp4();
  p.attention = false;
  p.last_percent_in_bf16 = 15;
  return p;
}

/// The MXFP4 recipe that the paper compares with: weights in tiles of 32 x 32, scales rounded up, a Hadamard
/// transform of size 32, gradients rounded stochastically.
FOURSCALE_H constexpr precision_policy mxfp4() {
  return {.linear = detail::four_bit(format_name::mxfp4, 32, sign_source::te_fixed)};
}

/// Transformer Engine's MXFP8BlockScaling(): E4M3 everywhere, 1 x 32.
FOURSCALE_H constexpr precision_policy mxfp8() {
  constexpr operand_recipe x{.format = format_name::mxfp8_e4m3};
  return {.linear = detail::each(x, x, x)};
}

/// Transformer Engine's Float8CurrentScaling(): E4M3 forward, E5M2 gradients, under the amax of the tensor
/// itself.
FOURSCALE_H constexpr precision_policy fp8_current() {
  constexpr operand_recipe x{.format = format_name::fp8_e4m3}, g{.format = format_name::fp8_e5m2};
  return {.linear = detail::each(x, x, g)};
}

/// Transformer Engine's DelayedScaling(): as fp8_current, under an amax of past steps.
FOURSCALE_H constexpr precision_policy fp8_delayed() {
  constexpr operand_recipe x{.format = format_name::fp8_e4m3, .amax = amax_source::delayed};
  constexpr operand_recipe g{.format = format_name::fp8_e5m2, .amax = amax_source::delayed};
  return {.linear = detail::each(x, x, g)};
}

/// Transformer Engine's Float8BlockScaling(), DeepSeek-V3: E4M3, 1 x 128 for activations and gradients, 128 x
/// 128 for weights.
FOURSCALE_H constexpr precision_policy fp8_block() {
  constexpr operand_recipe x{.format = format_name::fp8_block_e4m3};
  constexpr operand_recipe w{.format = format_name::fp8_block_e4m3, .blocks = block_kind::tiles};
  return {.linear = detail::each(x, w, x)};
}

/// te_nvfp4 without a transform, with four over six on activations and weights (not on gradients).
FOURSCALE_H constexpr precision_policy four_over_six() {
  precision_policy p = te_nvfp4_no_rht();
  linear_recipe& r = p.linear;
  r.fprop = {detail::scaled(r.fprop.a, scale_rule::four_over_six_mae),
             detail::scaled(r.fprop.b, scale_rule::four_over_six_mae)};
  r.dgrad.b = detail::scaled(r.dgrad.b, scale_rule::four_over_six_mae);
  r.wgrad.b = detail::scaled(r.wgrad.b, scale_rule::four_over_six_mae);
  return p;
}

/// Quartet II: forward in 1 x 16 with four over six. Backward uses MS-EDEN on all four operands; activations
/// and weights are requantized from their stored 4-bit copies, and signs are drawn anew.
FOURSCALE_H constexpr precision_policy quartet2() {
  operand_recipe x{.format = format_name::nvfp4, .scale = scale_rule::four_over_six_mse};
  operand_recipe g{.format = format_name::nvfp4,
                   .scale = scale_rule::ms_eden,
                   .hadamard = 128,
                   .signs = sign_source::drawn};
  operand_recipe again = detail::columnwise(g);
  again.source = value_source::dequantized;
  return {.linear = {{x, x}, {g, again}, {detail::columnwise(g), again}}};
}

}  // namespace FOURSCALE_NAMESPACE::presets
