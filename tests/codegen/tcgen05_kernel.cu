// SPDX-License-Identifier: Apache-2.0
// A whole NVFP4 tile, 128 x 128 x 256 on one CTA, in the order of PTX ISA 9.7.16.6: what a kernel made of
// these wrappers becomes. Assembled, never run. Behind its guard, the other targets of a build stay whole.
// sm_90a: !tcgen05
// sm_90a spills: 0
// sm_100: !tcgen05
// sm_120a: !tcgen05
// sm_120a spills: 0
// sm_100a: tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16
// sm_100a: tcgen05.cp.cta_group::1.32x128b.warpx4
// sm_100a spills: 0
// sm_100a registers: 64
// sm_100a smem: 232448
// sm_100f spills: 0
// sm_103a spills: 0
// sm_110a spills: 0
// sm_90a -Dunguarded error: tcgen05_needs_sm_100f_103f_or_110f
// sm_100 -Dunguarded error: tcgen05_needs_sm_100f_103f_or_110f
// sm_120a -Dunguarded error: tcgen05_needs_sm_100f_103f_or_110f
// sm_100a sass: UTCOMMA.4X
// sm_100a sass: UTCCP.T.S.4x32dp128bit
// sm_100a sass: LDTM.x16
// sm_100a sass: UTCBAR
// sm_100a sass: UTCATOMSWS.FIND_AND_SET.ALIGN
// sm_100a sass: UTCATOMSWS.AND
// sm_100f sass: UTCOMMA.4X
// sm_103a sass: UTCOMMA.BLOCK16
// sm_103a sass: UTCCP.T.S.4x32dp128bit
// sm_110a sass: UTCOMMA.4X
#include <fourscale/ptx/descriptors.hpp>
#include <fourscale/ptx/elect.cuh>
#include <fourscale/ptx/ldmatrix.cuh>
#include <fourscale/ptx/tcgen05.cuh>
#include <fourscale/ptx/tcgen05_ld_st.cuh>

namespace f4 = fourscale;
namespace ptx = fourscale::ptx;

#if defined(unguarded)
#define guard true
#else
#define guard f4::arch::has_tcgen05
#endif

constexpr ptx::block_scaled_mma shape;
constexpr ptx::k_major_tile tile;
constexpr int sfa_at = ptx::accumulator_columns(shape);
constexpr int sfb_at = sfa_at + 4 * ptx::sfa_columns(shape);
constexpr f4::u32 columns = ptx::allocation_for<sfb_at + 4 * ptx::sfb_columns(shape)>();

struct alignas(1024) operands {
  unsigned char a[tile.size_bytes()], b[tile.size_bytes()];
  uint4 sfa[4][32], sfb[4][32];
};

__device__ void wait(f4::u32 barrier) {
  asm volatile(
      "{ .reg .pred p;\nW%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra W%=; }" ::"r"(
          barrier)
      : "memory");
}

__device__ void multiply(operands const& s, f4::u32 tmem, f4::u32 barrier) {
  constexpr f4::u32 word = ptx::instruction_descriptor<shape>();
  for (int k = 0; k < tile.k_steps(); ++k) {
    const f4::u32 sfa = ptx::tmem_offset(tmem, 0, sfa_at + 4 * k),
                  sfb = ptx::tmem_offset(tmem, 0, sfb_at + 4 * k);
    ptx::tcgen05_cp_32x128b_warpx4<1>(sfa, ptx::scale_tile_descriptor(ptx::shared_address(s.sfa[k])));
    ptx::tcgen05_cp_32x128b_warpx4<1>(sfb, ptx::scale_tile_descriptor(ptx::shared_address(s.sfb[k])));
    ptx::tcgen05_mma_mxf4nvf4_block16<1>(tmem, ptx::smem_descriptor<tile>(ptx::shared_address(s.a), k),
                                         ptx::smem_descriptor<tile>(ptx::shared_address(s.b), k), word, sfa,
                                         sfb, k != 0);
  }
  ptx::tcgen05_commit<1>(barrier);
}

__global__ void __launch_bounds__(128) nvfp4_tile(operands const* global, float* d) {
  if constexpr (guard) {
    __shared__ operands s;
    __shared__ f4::u64 barrier;
    __shared__ f4::u32 slot;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp == 0) {
      ptx::tcgen05_alloc<1>(ptx::shared_address(&slot), columns);
      ptx::tcgen05_relinquish_alloc_permit<1>();
    }
    if (threadIdx.x == 0)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(
                       ptx::shared_address(&barrier))
                   : "memory");
    for (unsigned i = threadIdx.x; i < sizeof s / 16; i += 128)
      reinterpret_cast<uint4*>(&s)[i] = reinterpret_cast<uint4 const*>(global)[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    const f4::u32 tmem = slot;
    if (warp == 0 && ptx::elect_sync()) multiply(s, tmem, ptx::shared_address(&barrier));
    wait(ptx::shared_address(&barrier));
    ptx::tcgen05_fence_after_thread_sync();
    for (int n = 0; n < shape.n; n += 16) {
      f4::u32 r[16];
      ptx::tcgen05_ld_32x32b(r, ptx::tmem_offset(tmem, 32 * warp, n));
      ptx::tcgen05_wait_ld(r);
      for (int i = 0; i < 16; ++i) d[static_cast<int>(threadIdx.x) * shape.n + n + i] = __uint_as_float(r[i]);
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    if (warp == 0) ptx::tcgen05_dealloc<1>(tmem, columns);
  }
}
