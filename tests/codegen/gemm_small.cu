// SPDX-License-Identifier: Apache-2.0
// device::gemm_weight_only: weights by TMA from sm_90 on, or by cp.async, decoded between and multiplied on
// the tensor cores; CTAs of a cluster share sums from sm_90 on. 16 warps leave 128 registers for a thread, 12
// 168, eight 255; nothing is spilled. On Hopper wgmma reads them while the next are made: `gsb0, 0x1` waits
// for all but the latest.
//
// sm_80: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// sm_80: cp.async.cg.shared.global.L2::128B
// sm_80: !cp.async.ca.shared.global
// sm_80: cp.async.wait_group 3
// sm_80: cp.async.wait_group 2
// sm_80: cp.async.wait_group 1
// sm_80: !mapa
// sm_80: !cp.async.bulk
// sm_80 spills: 0
// sm_80 registers: 255
// sm_90a: mapa.shared::cluster.u32
// sm_90a: ld.shared::cluster.v4.f32
// sm_90a: cp.async.bulk.tensor.3d.shared::cluster.global
// sm_90a: mbarrier.try_wait.parity.shared::cta.b64
// sm_90a: barrier.cluster.arrive.release
// sm_90a: barrier.cluster.wait.acquire
// sm_90a: cvt.rn.f16x2.e4m3x2
// sm_90a spills: 0
// sm_90a registers: 255
// sm_100a spills: 0
// sm_100a registers: 255
// sm_120a spills: 0
// sm_120a registers: 255
// sm_90a sass: HMMA.16816.F32.BF16
// sm_90a: st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32
// sm_90a: stmatrix.sync.aligned.m8n8.x4.shared.b16
// sm_90a sass: HGMMA.64x16x16.F32.BF16
// sm_90a sass: WARPGROUP.DEPBAR.LE gsb0, 0x1
// sm_90a sass: HMUL2.BF16_V2
// sm_90a sass: LDGSTS.E.BYPASS.LTC128B.128
// sm_90a sass: UTMALDG.3D
// sm_90a sass: !LDL
// sm_90a sass: !STL
#include <fourscale/device/gemm_small.cuh>

using namespace fourscale;

errc of_few_rows(matrix_view<bf16 const> x, block_scaled_view<nvfp4, linear> w, matrix_view<bf16> d) {
  return device::gemm_weight_only(x, w, d);
}
