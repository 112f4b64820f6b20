// SPDX-License-Identifier: Apache-2.0
// The calls of a training step as C functions on plain memory, in one library for each machine:
// fourscale_torch calls them by ctypes, and handlers.cpp makes XLA's FFI handlers of them. Each validates
// before it writes. On a GPU it is work on `stream`, which never synchronizes, nor reads device memory here;
// a CPU has no stream.
#pragma once

#include "recipes.hpp"

namespace fourscale_jax {

/// Python has these by number.
enum class element : i32 { other, u8, u32, f32, bf16 };

/// A matrix in memory of the machine, row after row. What has one dimension is one row.
struct tensor {
  void* data;
  i64 rows, cols;
  element type;

  i64 count() const { return rows * cols; }
};

// `recipe` is the place in `presets`, `role` a tensor_role, `format` a format_name, `range` what an amax is
// brought to (0: that of the format), `at` which of several amaxes counts (-1: tensor scale 1). A key is
// keyed_bits::length words.
#define FOURSCALE_EXPORT extern "C" __attribute__((visibility("default")))

/// The amaxes of a tensor of a linear layer: of its rowwise copy, and of its columnwise copy if
/// that is transformed. Under other presets, that of a copy, after MS-EDEN's transform.
FOURSCALE_EXPORT errc fourscale_amax(void* stream, tensor x, tensor to, i32 recipe, i32 role, i32 columnwise);

/// Both copies of a matrix for a linear layer: blocks along its rows, and along its columns.
FOURSCALE_EXPORT errc fourscale_quantize_both(void* stream, tensor x, tensor amaxes, tensor key, tensor codes,
                                              tensor scales, tensor codes_t, tensor scales_t, i32 recipe,
                                              i32 role);

/// One copy of a matrix, or of its transpose.
FOURSCALE_EXPORT errc fourscale_quantize(void* stream, tensor x, tensor amaxes, tensor key, tensor codes,
                                         tensor scales, i32 recipe, i32 role, i32 columnwise, i32 transposed);

/// The 128 signs of a GEMM, 1 or -1.
FOURSCALE_EXPORT errc fourscale_signs(void* stream, tensor key, tensor to, i32 gemm);

/// The values of a quantized matrix.
FOURSCALE_EXPORT errc fourscale_dequantize(void* stream, tensor codes, tensor scales, tensor amaxes, tensor y,
                                           i32 format, float range, i32 at);

/// D = A * B^T: of NVFP4 and MXFP4 with Blackwell's bits, on a GPU in a workspace of fourscale_gemm_bytes();
/// of FP8, both per tensor or both under scales of 128 values, within the bound of docs/native_gemm.md.
FOURSCALE_EXPORT errc fourscale_gemm(void* stream, tensor codes_a, tensor scales_a, tensor amaxes_a,
                                     tensor codes_b, tensor scales_b, tensor amaxes_b, tensor d,
                                     tensor workspace, i32 format, float range, i32 at, i32 format_b,
                                     float range_b, i32 at_b);

}  // namespace fourscale_jax
