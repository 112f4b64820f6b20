// SPDX-License-Identifier: Apache-2.0
// MXFP8 with Blackwell's bits by mma.sync of fp16. Under --use_fast_math, too, the sum of a step is added to
// an accumulator that may be subnormal, and must not be flushed.
//
// sm_80: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// sm_80: mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32
// sm_80 --use_fast_math: add.rz.f32
// sm_90a --use_fast_math: add.rz.f32
#include <fourscale/device/gemm_f16.cuh>

using namespace fourscale;
using call = device::detail::f16_call<mxfp8_e4m3, linear, mxfp8_e5m2, linear, float>;

errc multiply(call const& x) {
  device::detail::gemm_f16_kernel<call::parts><<<132, mma::f16_tile::threads>>>(x.p);
  return device::detail::launched();
}
