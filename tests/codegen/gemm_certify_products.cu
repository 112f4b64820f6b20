// SPDX-License-Identifier: Apache-2.0
// The kernel that certifies by products. Four of its CTAs share a processor, and nothing is in local memory.
//
// sm_90a: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// sm_90a registers: 64
// sm_90a spills: 0
// sm_90a smem: 16428
// sm_90a sass: HMMA.16816.F32.BF16
// sm_90a sass: VIADDMNMX.S16x2
#include <fourscale/device/gemm_certify_products.cuh>

using namespace fourscale;

errc certify(device::detail::certify_problem<false> const& p) {
  return device::detail::launch_certify_products(p, 132, nullptr);
}
