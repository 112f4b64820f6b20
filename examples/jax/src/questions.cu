// SPDX-License-Identifier: Apache-2.0
// What Python asks about a GPU.
#include <fourscale/device/gemm.cuh>
#include <fourscale/device/gemm_fp8.cuh>

#include "calls.hpp"

/// Whether fourscale_gemm() multiplies FP8 by FP8 tensor cores on the current device. Elsewhere it is for
/// what others multiply its values by.
FOURSCALE_EXPORT bool fourscale_has_fp8_gemm() {
  namespace f4 = fourscale;
  return f4::device::has_fp8_tensor_cores<f4::fp8_e4m3, f4::fp8_e4m3, float>();
}

/// The workspace that fourscale_gemm() asks for, in 4 bits.
FOURSCALE_EXPORT fourscale_jax::i64 fourscale_gemm_bytes(fourscale_jax::i64 m, fourscale_jax::i64 n,
                                                         fourscale_jax::i64 k) {
  return fourscale::device::gemm_workspace_bytes(m, n, k);
}
