// SPDX-License-Identifier: Apache-2.0
// What decodes MX formats to bf16: codes and values in words of 8 and 16 bytes, products of two values at a
// time, and nothing in local memory.
//
// sm_90a: fma.rn.bf16x2
// sm_90a spills: 0
// sm_90a sass: LDG.E.64
// sm_90a sass: STG.E.128
// sm_90a sass: HMUL2.BF16_V2
#include <fourscale/device/gemm_mx_native.cuh>

using namespace fourscale;

errc multiply(block_scaled_view<mxfp8_e4m3> const& a, block_scaled_view<mxfp6_e2m3> const& b,
              mma::decoded_operand const& to_a, mma::decoded_operand const& to_b,
              device::detail::decoded_besides const& besides) {
  const block_scaled_view<mxfp8_e4m3, linear, u8 const> from_a = a;
  const block_scaled_view<mxfp6_e2m3, linear, u8 const> from_b = b;
  device::detail::decode_mx_kernel<0><<<1, 256>>>(from_a, from_b, to_a, to_b, besides);
  return device::detail::launched();
}
