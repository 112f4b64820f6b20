// SPDX-License-Identifier: Apache-2.0
// The kernel that certifies strips ahead. Two of its CTAs share a processor, and nothing is in local memory.
//
// sm_90a: mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32
// sm_90a registers: 128
// sm_90a spills: 0
// sm_90a smem: 35904
// sm_90a sass: IMMA.16832.U8.U8
#include <fourscale/device/gemm_certify.cuh>

using namespace fourscale;

errc certify(device::detail::certify_problem<false> const& p) {
  return device::detail::launch_certify(p, 132, nullptr);
}
