// SPDX-License-Identifier: Apache-2.0
// The recipe of one operand of one GEMM, as run-time values that can be compared and printed (describe.hpp).
// visit.hpp turns them into the library's policies, which are types.
#pragma once

#include "formats.hpp"
#include "scale_rules.hpp"

namespace FOURSCALE_NAMESPACE {

/// Which values share a scale: consecutive values of a row, or a square tile.
enum class block_kind : u8 { along_rows, tiles };

/// Whether blocks run along the rows of the tensor or of its transpose.
enum class copy_kind : u8 { rowwise, columnwise };

enum class rounding_rule : u8 { nearest_even, stochastic, te_software };

/// Where the sign vector of the Hadamard transform comes from.
enum class sign_source : u8 { none, te_fixed, drawn };

/// Which amax the tensor scale follows from.
enum class amax_source : u8 { current, delayed, fixed, per_row, percentile };

/// What is quantized: the tensor, or what its stored rowwise copy dequantizes to.
enum class value_source : u8 { original, dequantized };

/// The recipe of one operand. `hadamard` is the size of the transform, 0 for none.
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

  friend FOURSCALE_H constexpr bool operator==(operand_recipe const&, operand_recipe const&) = default;
};

namespace detail {

/// True if the enumerations that have no table of their own (format and scale have one) hold a named value:
/// an enumeration may hold any number.
FOURSCALE_H constexpr bool has_known_values(operand_recipe const& o) {
  return o.blocks <= block_kind::tiles && o.copy <= copy_kind::columnwise &&
         o.rounding <= rounding_rule::te_software && o.signs <= sign_source::drawn &&
         o.amax <= amax_source::percentile && o.source <= value_source::dequantized;
}

}  // namespace detail

/// The operands of D = A * B^T, each with its blocks along the dimension that is summed over.
struct gemm_recipe {
  operand_recipe a, b;
  friend FOURSCALE_H constexpr bool operator==(gemm_recipe const&, gemm_recipe const&) = default;
};

/// The three GEMMs of a linear layer Y = X * W^T, X [tokens, in], W [out, in]:
///   fprop  Y = X * W^T     a = X, b = W
///   dgrad  dX = dY * W     a = dY, b = W columnwise
///   wgrad  dW = dY^T * X   a = dY columnwise, b = X columnwise
/// Products are accumulated in FP32 and stored in BF16.
struct linear_recipe {
  gemm_recipe fprop, dgrad, wgrad;
  friend FOURSCALE_H constexpr bool operator==(linear_recipe const&, linear_recipe const&) = default;
};

}  // namespace FOURSCALE_NAMESPACE
