// SPDX-License-Identifier: Apache-2.0
// What the wrappers refuse at compile time, and what ptxas does.
// sm_100f -Dgroup_3 error: cta_group is 1 (one CTA) or 2 (a pair of CTAs).
// sm_100f -Dthree_registers error: of this shape has 1, 2, 4, ..., 64 or 128 registers.
// sm_100f -Dtwo_registers error: of this shape has 4, 8, 16, ..., 64 or 128 registers.
// sm_100f -Dboth_groups error: uses single CTA
// sm_80 -Delect error: elect_sync_needs_sm_90_or_later
// sm_90a -Dload error: tcgen05_ld_and_st_need_sm_100f_103f_or_110f
// sm_90a -Dldmatrix error: ldmatrix_b8x16_needs_sm_100f_103f_110f_120f_or_121f
// sm_90 -Dmulticast error: multicast_needs_sm_90a_100f_103f_or_110f
// sm_120a -Dmulticast error: multicast_needs_sm_90a_100f_103f_or_110f
#include <fourscale/ptx/elect.cuh>
#include <fourscale/ptx/ldmatrix.cuh>
#include <fourscale/ptx/multicast.cuh>
#include <fourscale/ptx/tcgen05.cuh>
#include <fourscale/ptx/tcgen05_ld_st.cuh>

namespace f4 = fourscale;
namespace ptx = fourscale::ptx;

__global__ void wrong(f4::u32 at, f4::u32* to) {
#if defined(group_3)
  ptx::tcgen05_commit<3>(at);
#elif defined(three_registers)
  f4::u32 r[3];
  ptx::tcgen05_ld_32x32b(r, at);
#elif defined(two_registers)
  f4::u32 r[2];
  ptx::tcgen05_ld_16x256b(r, at);
#elif defined(both_groups)
  ptx::tcgen05_commit<1>(at);
  ptx::tcgen05_commit<2>(at);
#elif defined(elect)
  *to = ptx::elect_sync();
#elif defined(load)
  f4::u32 r[1];
  ptx::tcgen05_ld_32x32b(r, at);
  *to = r[0];
#elif defined(ldmatrix)
  f4::u32 r[4];
  ptx::ldmatrix_m8n16_x4_b8x16_b4x16_p64(r, at);
  *to = r[0];
#elif defined(multicast)
  ptx::cp_async_bulk_multicast(at, to, 16, at, 3);
#endif
}
