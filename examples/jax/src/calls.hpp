// SPDX-License-Identifier: Apache-2.0
// The calls of a training step as C functions on plain memory, in one library for each machine (CPU, GPU).
// fourscale_torch calls them by ctypes; handlers.cpp makes XLA FFI handlers of them. Each call validates its
// arguments before it writes. On a GPU, a call is work on `stream`: it never synchronizes, and the host reads
// no device memory. A CPU has no stream.
#pragma once

#include "recipes.hpp"

namespace fourscale_jax {

/// The type of an element. Python refers to these by number.
enum class element : i32 { other, u8, u32, f32, bf16 };

/// A row-major matrix in memory of the machine. An array with one dimension is one row.
struct tensor {
  void* data;
  i64 rows, cols;
  element type;

  i64 count() const { return rows * cols; }
};

// Arguments of the calls:
//   recipe   index in `presets`
//   role     a tensor_role, by number
//   format   a format_name, by number
//   range    what an amax is brought to; 0: the range of the format
//   at       index of the amax that counts among several; -1: tensor scale 1
//   key      keyed_bits::length words
#define FOURSCALE_EXPORT extern "C" __attribute__((visibility("default")))

/// The amaxes of a tensor. For presets of linear layers: that of the rowwise copy and, if the columnwise copy
/// is transformed, that of this copy. For other presets: that of the copy which `columnwise` names, after the
/// transform of MS-EDEN if it has one.
FOURSCALE_EXPORT errc fourscale_amax(void* stream, tensor x, tensor to, i32 recipe, i32 role, i32 columnwise);

/// Both copies of a matrix for a linear layer: blocks along its rows, and along its columns.
FOURSCALE_EXPORT errc fourscale_quantize_both(void* stream, tensor x, tensor amaxes, tensor key, tensor codes,
                                              tensor scales, tensor codes_t, tensor scales_t, i32 recipe,
                                              i32 role);

/// One copy of a matrix, or of its transpose.
FOURSCALE_EXPORT errc fourscale_quantize(void* stream, tensor x, tensor amaxes, tensor key, tensor codes,
                                         tensor scales, i32 recipe, i32 role, i32 columnwise, i32 transposed);

/// The 128 signs of the Hadamard transform of a GEMM (1 for dgrad, 2 for wgrad): 1 or -1.
FOURSCALE_EXPORT errc fourscale_signs(void* stream, tensor key, tensor to, i32 gemm);

/// The values of a quantized matrix.
FOURSCALE_EXPORT errc fourscale_dequantize(void* stream, tensor codes, tensor scales, tensor amaxes, tensor y,
                                           i32 format, float range, i32 at);

/// D = A * B^T. NVFP4 and MXFP4: with Blackwell's bits; a GPU needs a workspace of fourscale_gemm_bytes().
/// FP8, both operands per tensor or both under scales of 128 values: within the bound of docs/native_gemm.md.
FOURSCALE_EXPORT errc fourscale_gemm(void* stream, tensor codes_a, tensor scales_a, tensor amaxes_a,
                                     tensor codes_b, tensor scales_b, tensor amaxes_b, tensor d,
                                     tensor workspace, i32 format, float range, i32 at, i32 format_b,
                                     float range_b, i32 at_b);

}  // namespace fourscale_jax
