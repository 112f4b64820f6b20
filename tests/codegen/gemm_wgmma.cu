// SPDX-License-Identifier: Apache-2.0
// The GEMM with Blackwell's bits on Hopper. Between the products of a step and those of the next one stand 96
// additions for each thread; each instruction more, and each move to a uniform register, slows the inner loop
// (docs/gemm_experiments.md). Of a run of four steps, for tiles of every width, nothing is in local memory.
//
// sm_90a: wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16
// sm_90a: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// sm_90a: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// sm_90a: add.rz.f32
// sm_90a: cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
// sm_90a: cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group
// sm_90a sass: HGMMA.64x192x16.F32.BF16
// sm_90a sass: UTMALDG.2D.MULTICAST
// sm_90a after_wgmma: 12
// sm_90a after_wgmma: !R2UR
// sm_90a after_wgmma: !LDL
// sm_90a after_wgmma: !STL
#include <fourscale/device/gemm_wgmma.cuh>

using namespace fourscale;

errc multiply(device::detail::wgmma_call<nvfp4, linear, nvfp4, linear, bf16> const& call) {
  return call.multiply(nullptr);
}
