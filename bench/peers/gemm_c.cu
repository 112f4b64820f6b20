// SPDX-License-Identifier: Apache-2.0
// What gemm.py calls of fourscale: device::gemm of NVFP4 behind a C interface.
#include <fourscale/device/gemm.cuh>

namespace f4 = fourscale;
using f4::i64;
using f4::u8;

extern "C" {

i64 f4_gemm_workspace_bytes(i64 m, i64 n, i64 k) { return f4::device::gemm_workspace_bytes(m, n, k); }

/// D (m x n, bf16) with Blackwell's bits; linear scales, amaxes in device memory. Returns an errc.
int f4_gemm(u8 const* codes_a, u8 const* scales_a, float const* amax_a, u8 const* codes_b, u8 const* scales_b,
            float const* amax_b, i64 m, i64 n, i64 k, void* d, void* workspace, i64 bytes,
            cudaStream_t stream) {
  using operand = f4::block_scaled_view<f4::nvfp4, f4::linear, u8 const>;
  const operand a{codes_a, scales_a, m, k, f4::amax_in(amax_a)};
  const operand b{codes_b, scales_b, n, k, f4::amax_in(amax_b)};
  const f4::matrix_view<f4::bf16> to{static_cast<f4::bf16*>(d), m, n};
  return static_cast<int>(
      f4::device::gemm(a, b, to, {}, f4::accumulate::blackwell{}, {workspace, bytes}, stream));
}
}
