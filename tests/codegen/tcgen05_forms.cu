// SPDX-License-Identifier: Apache-2.0
// Every form of the copies, the MMAs and what orders them, for one CTA and for a pair.
// sm_100f: tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16
// sm_100f: tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.block16
// sm_100f: tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.block32
// sm_100f: tcgen05.mma.cta_group::2.kind::mxf4.block_scale.block32
// sm_100f: tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.block32
// sm_100f: tcgen05.cp.cta_group::2.32x128b.warpx4
// sm_100f: tcgen05.cp.cta_group::2.64x128b.warpx2::02_13
// sm_100f: tcgen05.cp.cta_group::2.64x128b.warpx2::01_23
// sm_100f: tcgen05.cp.cta_group::2.128x256b
// sm_100f: tcgen05.cp.cta_group::2.128x128b
// sm_100f: tcgen05.cp.cta_group::2.4x256b
// sm_100f: tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64
// sm_100f: tcgen05.wait::st.sync.aligned
// sm_100f spills: 0
// sm_100f registers: 48
// sm_100a spills: 0
// sm_103a spills: 0
// sm_103f spills: 0
// sm_110a spills: 0
// sm_100f sass: UTCOMMA.2CTA.4X
// sm_100f sass: UTCQMMA.2CTA
// sm_100f sass: UTCBAR.2CTA.MULTICAST
// sm_103a sass: UTCOMMA.2CTA.BLOCK16
#include <fourscale/ptx/tcgen05.cuh>

namespace f4 = fourscale;
namespace ptx = fourscale::ptx;
using f4::u32;
using f4::u64;

template <int CtaGroup>
__global__ void all_forms(u32 d, u32 a_in_tmem, u64 a, u64 b, u32 i, u32 sfa, u32 sfb, u32 shared) {
  if (threadIdx.x < 32)
    ptx::tcgen05_alloc<CtaGroup>(shared, 512), ptx::tcgen05_relinquish_alloc_permit<CtaGroup>();
  if (threadIdx.x == 0) {
    ptx::tcgen05_cp_32x128b_warpx4<CtaGroup>(sfa, a);
    ptx::tcgen05_cp_64x128b_warpx2_02_13<CtaGroup>(sfa, a);
    ptx::tcgen05_cp_64x128b_warpx2_01_23<CtaGroup>(sfa, a);
    ptx::tcgen05_cp_128x256b<CtaGroup>(a_in_tmem, a);
    ptx::tcgen05_cp_128x128b<CtaGroup>(a_in_tmem, a);
    ptx::tcgen05_cp_4x256b<CtaGroup>(a_in_tmem, a);
    ptx::tcgen05_mma_mxf4nvf4_block16<CtaGroup>(d, a, b, i, sfa, sfb, false);
    ptx::tcgen05_mma_mxf4nvf4_block32<CtaGroup>(d, a, b, i, sfa, sfb, true);
    ptx::tcgen05_mma_mxf4_block32<CtaGroup>(d, a, b, i, sfa, sfb, true);
    ptx::tcgen05_mma_mxf8f6f4_block32<CtaGroup>(d, a, b, i, sfa, sfb, true);
    ptx::tcgen05_mma_mxf4nvf4_block16_tmem_a<CtaGroup>(d, a_in_tmem, b, i, sfa, sfb, shared != 0);
    ptx::tcgen05_mma_mxf4nvf4_block32_tmem_a<CtaGroup>(d, a_in_tmem, b, i, sfa, sfb, true);
    ptx::tcgen05_mma_mxf4_block32_tmem_a<CtaGroup>(d, a_in_tmem, b, i, sfa, sfb, true);
    ptx::tcgen05_mma_mxf8f6f4_block32_tmem_a<CtaGroup>(d, a_in_tmem, b, i, sfa, sfb, true);
    ptx::tcgen05_commit<CtaGroup>(shared);
    ptx::tcgen05_commit_multicast<CtaGroup>(shared, 3);
  }
  ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  ptx::tcgen05_fence_after_thread_sync();
  ptx::tcgen05_wait_ld(), ptx::tcgen05_wait_st();
  if (threadIdx.x < 32) ptx::tcgen05_dealloc<CtaGroup>(d, 512);
}

template __global__ void all_forms<1>(u32, u32, u64, u64, u32, u32, u32, u32);
template __global__ void all_forms<2>(u32, u32, u64, u64, u32, u32, u32, u32);
