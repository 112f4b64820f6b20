// SPDX-License-Identifier: Apache-2.0
// Every shape and count of tcgen05.ld and tcgen05.st assembles.
// sm_100f: tcgen05.ld.sync.aligned.32x32b.x128.b32
// sm_100f: tcgen05.ld.sync.aligned.16x64b.x128.pack::16b.b32
// sm_100f: tcgen05.ld.sync.aligned.16x128b.x64.b32
// sm_100f: tcgen05.ld.sync.aligned.16x256b.x32.b32
// sm_100f: tcgen05.ld.sync.aligned.16x32bx2.x128.b32
// sm_100f: tcgen05.st.sync.aligned.32x32b.x1.b32
// sm_100f: tcgen05.st.sync.aligned.16x64b.x2.unpack::16b.b32
// sm_100f: tcgen05.st.sync.aligned.16x128b.x4.b32
// sm_100f: tcgen05.st.sync.aligned.16x256b.x8.b32
// sm_100f: tcgen05.st.sync.aligned.16x32bx2.x16.unpack::16b.b32
// sm_100f spills: 0
// sm_100f sass: LDTM.x128
// sm_100f sass: STTM.x16
#include <fourscale/ptx/tcgen05.cuh>
#include <fourscale/ptx/tcgen05_ld_st.cuh>

namespace f4 = fourscale;
namespace ptx = fourscale::ptx;

template <int Count>
__device__ void move(f4::u32 at) {
  f4::u32 r[Count];
  ptx::tcgen05_ld_32x32b(r, at), ptx::tcgen05_wait_ld(r), ptx::tcgen05_st_32x32b(at, r);
  ptx::tcgen05_ld_16x64b_pack_16b(r, at), ptx::tcgen05_wait_ld(r), ptx::tcgen05_st_16x64b(at, r);
  ptx::tcgen05_ld_16x64b(r, at), ptx::tcgen05_wait_ld(r), ptx::tcgen05_st_16x64b_unpack_16b(at, r);
  ptx::tcgen05_ld_32x32b_pack_16b(r, at), ptx::tcgen05_wait_ld(r), ptx::tcgen05_st_32x32b_unpack_16b(at, r);
  ptx::tcgen05_ld_16x32bx2<16>(r, at), ptx::tcgen05_wait_ld(r), ptx::tcgen05_st_16x32bx2<16>(at, r);
  ptx::tcgen05_ld_16x32bx2_pack_16b<8>(r, at), ptx::tcgen05_wait_ld(r);
  ptx::tcgen05_st_16x32bx2_unpack_16b<8>(at, r);
  if constexpr (Count >= 2) {
    ptx::tcgen05_ld_16x128b(r, at), ptx::tcgen05_wait_ld(r), ptx::tcgen05_st_16x128b(at, r);
    ptx::tcgen05_ld_16x128b_pack_16b(r, at), ptx::tcgen05_wait_ld(r);
    ptx::tcgen05_st_16x128b_unpack_16b(at, r);
  }
  if constexpr (Count >= 4) {
    ptx::tcgen05_ld_16x256b(r, at), ptx::tcgen05_wait_ld(r), ptx::tcgen05_st_16x256b(at, r);
    ptx::tcgen05_ld_16x256b_pack_16b(r, at), ptx::tcgen05_wait_ld(r);
    ptx::tcgen05_st_16x256b_unpack_16b(at, r);
  }
  ptx::tcgen05_wait_st();
}

__global__ void all_counts(f4::u32 at) {
  move<1>(at), move<2>(at), move<4>(at), move<8>(at), move<16>(at), move<32>(at), move<64>(at), move<128>(at);
}
