// SPDX-License-Identifier: Apache-2.0
// What Python asks about the current GPU.
#include <fourscale/device/gemm.cuh>
#include <fourscale/device/gemm_fp8.cuh>

#include "calls.hpp"

/// Whether fourscale_gemm() multiplies FP8 by FP8 tensor cores on the current device. If not, Python leaves
/// the product of the dequantized values to XLA or PyTorch.
FOURSCALE_EXPORT bool fourscale_has_fp8_gemm() {
  namespace f4 = fourscale;
  return f4::device::has_fp8_tensor_cores<f4::fp8_e4m3, f4::fp8_e4m3, float>();
}

/// The bytes of workspace that fourscale_gemm() needs on a GPU for 4-bit formats: A is m x k, B is n x k.
FOURSCALE_EXPORT fourscale_jax::i64 fourscale_gemm_bytes(fourscale_jax::i64 m, fourscale_jax::i64 n,
                                                         fourscale_jax::i64 k) {
  return fourscale::device::gemm_workspace_bytes(m, n, k);
}
