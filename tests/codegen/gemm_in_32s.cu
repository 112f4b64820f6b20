// SPDX-License-Identifier: Apache-2.0
// MXFP6 with Blackwell's bits on Hopper. While the products of some columns are added, the tensor core makes
// those of others: nothing is in local memory, and no wgmma waits for the one before.
//
// sm_90a: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// sm_90a: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// sm_90a: wgmma.wait_group.sync.aligned 1
// sm_90a: add.rz.f32
// sm_90a: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
// sm_90a sass: HGMMA.64x128x16.F32.BF16
// sm_90a sass: HGMMA.64x64x16.F32.BF16
// sm_90a sass: UBLKCP
// sm_90a sass: VIMNMX3.U32
// sm_90a spills: 0
#include <fourscale/device/gemm_wgmma_in_32s.cuh>

using namespace fourscale;
using call = device::detail::call_in_32s<mxfp6_e2m3, linear, mxfp6_e2m3, linear, bf16>;

errc multiply(call const& x) {
  // The kernel alone, without those for outputs that it leaves.
  const call::problem p{x.p, mma::run_limits::in(x.p.a), mma::run_limits::in(x.p.b), x.failed};
  device::detail::gemm_in_32s_kernel<192><<<132, 384>>>(p);
  return device::detail::launched();
}
