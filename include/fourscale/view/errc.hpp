// SPDX-License-Identifier: Apache-2.0
// The errors of matrix functions, each with a sentence that names the broken rule.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE {

/// The result of host and device functions and of validate(). After anything but `ok` the output is
/// untouched.
enum class [[nodiscard]] errc{
    ok,
    null_pointer,
    empty_matrix,
    bad_leading_dimension,
    partial_block,
    wrong_block_shape,
    no_amax,
    other_range,
    other_amax,
    other_signs,
    no_copy,
    not_adjacent,
    row_amax_with_tiles,
    amax_of_groups,
    bad_offsets,
    shape_mismatch,
    misaligned,
    buffer_too_small,
    overlap,
    too_large,
    bad_recipe,
    no_workspace,
    other_plan,
    no_instruction,
    cuda_failed,
};

/// The rule that was broken, as a sentence.
FOURSCALE_H constexpr char const* message(errc e) {
  switch (e) {
    case errc::ok:
      return "ok";
    case errc::null_pointer:
      return "a pointer is null";
    case errc::empty_matrix:
      return "rows and columns must be at least 1";
    case errc::bad_leading_dimension:
      return "the leading dimension is smaller than the number of columns";
    case errc::partial_block:
      return "the dimension that blocks run along is not a multiple of the block size";
    case errc::wrong_block_shape:
      return "2-D blocks must be square, as wide as the block of the format";
    case errc::no_amax:
      return "the format has a tensor scale and the view has no amax: set q.amax to amax_in(pointer), "
             "amax_value(number), or unit_scale for tensor scale 1";
    case errc::other_range:
      return "the view's amax is brought to another range than this quantizer's: set q.amax = {amax, "
             "quantizer}";
    case errc::other_amax:
      return "two views that share their scales, or become one, must have the same amax";
    case errc::other_signs:
      return "both operands of a GEMM must be transformed by the same signs: quantize both under one "
             "draw_key";
    case errc::no_copy:
      return "a columnwise copy that this GEMM reads was not made from its tensor: quantize() makes both "
             "copies, quantize_rows() the rowwise one alone";
    case errc::not_adjacent:
      return "the rows of the second matrix do not follow those of the first in memory, with whole tiles of "
             "scales";
    case errc::amax_of_groups:
      return "the view has an amax for each group of rows, which only the functions for groups can read";
    case errc::bad_offsets:
      return "the offsets of groups must begin with 0, never fall and end at most with the number of rows";
    case errc::row_amax_with_tiles:
      return "rows of a 2-D block share one scale, so they cannot have amaxes of their own";
    case errc::shape_mismatch:
      return "the matrices do not have matching rows and columns";
    case errc::misaligned:
      return "a pointer is not aligned to its element type, or a layer's memory not to 16 bytes";
    case errc::buffer_too_small:
      return "a buffer is smaller than its matrix needs";
    case errc::overlap:
      return "an output overlaps an input, another output or a workspace";
    case errc::too_large:
      return "a dimension is 2^31 or more, the matrix has 2^44 elements or more, or the call has a lower "
             "limit, which its documentation names";
    case errc::bad_recipe:
      return "the format, blocks, rounding, scale rule and transform of this recipe do not go together";
    case errc::no_workspace:
      return "a workspace, or a layer's memory, is null or smaller than this call needs: see "
             "gemm_workspace_bytes() and bytes()";
    case errc::other_plan:
      return "the plan of this GEMM is for another shape, type, leading dimension or alignment of D";
    case errc::no_instruction:
      return "the device has no such instruction, or this code was not compiled for it";
    case errc::cuda_failed:
      return "CUDA itself failed: cudaGetLastError() says why";
  }
  return "not an errc";
}

}  // namespace FOURSCALE_NAMESPACE
