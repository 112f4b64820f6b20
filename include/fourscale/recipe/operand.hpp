// SPDX-License-Identifier: Apache-2.0
// What one operand of one GEMM is quantized to, as run-time values: comparable, printable (describe.hpp), and
// turned into the library's policies by visit.hpp.
#pragma once

#include "../bits.hpp"

namespace fourscale {

/// Formats that a recipe may name; bf16 means: left as it is.
enum class format_name : u8 {
  bf16,
  nvfp4,
  nvint4,
  mxfp4,
  mxfp8_e4m3,
  mxfp8_e5m2,
  fp8_e4m3,
  fp8_e5m2,
  fp8_block_e4m3,
  fp8_block_e5m2,
};

/// Which values share a scale: a run of a row, or a square tile.
enum class block_kind : u8 { along_rows, tiles };

/// Blocks along the rows of the matrix, or of its transpose.
enum class copy_kind : u8 { rowwise, columnwise };

enum class rounding_rule : u8 { nearest_even, stochastic, te_software };

/// How block scales follow from the block: `standard` is amax_scale, what NVIDIA does for the format.
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

/// Where the sign vector of the Hadamard transform comes from.
enum class sign_source : u8 { none, te_fixed, drawn };

/// Which amax the tensor scale is made of.
enum class amax_source : u8 { current, delayed, fixed, per_row, percentile };

/// What is quantized: the tensor, or what its stored rowwise copy dequantizes to.
enum class value_source : u8 { original, dequantized };

/// One operand. `hadamard` is the size of the transform, 0 for none.
struct operand_recipe {
  format_name format = format_name::bf16;
  block_kind blocks = block_kind::along_rows;
  copy_kind copy = copy_kind::rowwise;
  rounding_rule rounding = rounding_rule::nearest_even;
  scale_rule scale = scale_rule::standard;
  u8 hadamard = 0;
  sign_source signs = sign_source::none;
  amax_source amax = amax_source::current;
  value_source source = value_source::original;

  friend constexpr bool operator==(operand_recipe const&, operand_recipe const&) = default;
};

/// Both operands of D = A * B^T, each with its blocks along the dimension that is summed over.
struct gemm_recipe {
  operand_recipe a, b;
  friend constexpr bool operator==(gemm_recipe const&, gemm_recipe const&) = default;
};

/// The three GEMMs of a linear layer Y = X * W^T, X [tokens, in], W [out, in]:
/// fprop Y = X * W^T (a = X, b = W), dgrad dX = dY * W (a = dY, b = W columnwise), wgrad dW = dY^T * X (a =
/// dY columnwise, b = X columnwise). Products are accumulated in FP32 and stored in BF16.
struct linear_recipe {
  gemm_recipe fprop, dgrad, wgrad;
  friend constexpr bool operator==(linear_recipe const&, linear_recipe const&) = default;
};

}  // namespace fourscale
