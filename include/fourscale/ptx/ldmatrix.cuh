// SPDX-License-Identifier: Apache-2.0
// ldmatrix and stmatrix (PTX ISA 9.7.14.5.15 and 16): a whole warp moves matrices of 8 rows of 16 bytes
// between shared memory and the fragments of mma.sync. Lane l gives the address of row l % 8 of matrix l / 8.
// An x4 load of packed 4-bit codes gives the fragment of A of m16n8k64 if its matrices are rows 0 to 7 and
// rows 8 to 15 at byte 0, then the same rows at byte 16. Shared addresses are the 32-bit ones of
// shared_address().
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

FOURSCALE_D void ldmatrix_b8x16_needs_sm_100f_103f_110f_120f_or_121f();
FOURSCALE_D void stmatrix_needs_sm_90();

/// cvta.to.shared.u64, narrowed to 32 bits: the form in which instructions take a shared address.
FOURSCALE_D inline u32 shared_address(void const* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

/// ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r0}, [row];   PTX 6.5, sm_75 and later. Lanes 0 to 7 give the
/// rows.
FOURSCALE_D inline void ldmatrix_m8n8_x1_b16(u32 (&r)[1], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(row) : "memory");
}

/// ldmatrix.sync.aligned.m8n8.x2.shared.b16 {r0, r1}, [row];   PTX 6.5, sm_75 and later. Lanes 0 to 15 give
/// them.
FOURSCALE_D inline void ldmatrix_m8n8_x2_b16(u32 (&r)[2], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(row)
               : "memory");
}

/// ldmatrix.sync.aligned.m8n8.x4.shared.b16 {r0, r1, r2, r3}, [row];   PTX 6.5, sm_75 and later.
FOURSCALE_D inline void ldmatrix_m8n8_x4_b16(u32 (&r)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

/// ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16: transposes each 8 x 8 matrix of 16-bit elements. PTX 6.5,
/// sm_75 and later. It cannot transpose 4-bit codes, because the codes in one 16-bit element stay together.
FOURSCALE_D inline void ldmatrix_m8n8_x4_trans_b16(u32 (&r)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

/// stmatrix.sync.aligned.m8n8.x4.shared.b16 [row], {r0, r1, r2, r3};   PTX 7.8, sm_90 and later. The
/// inverse of ldmatrix_m8n8_x4_b16().
FOURSCALE_D inline void stmatrix_m8n8_x4_b16([[maybe_unused]] u32 row, [[maybe_unused]] u32 const (&r)[4]) {
#if FOURSCALE_DEVICE_PASS >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
#else
  stmatrix_needs_sm_90();
#endif
}

/// ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64 {r0, r1, r2, r3}, [row];   PTX 8.6. A row has 16
/// 4-bit elements and 8 bytes of padding. Each element arrives in a byte of its own, for kind::mxf8f6f4.
FOURSCALE_D inline void ldmatrix_m8n16_x4_b8x16_b4x16_p64([[maybe_unused]] u32 (&r)[4],
                                                          [[maybe_unused]] u32 row) {
#if FOURSCALE_HAS_CVT_NARROW
  asm volatile("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
#else
  ldmatrix_b8x16_needs_sm_100f_103f_110f_120f_or_121f();
#endif
}

/// ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b6x16_p32 {r0, r1, r2, r3}, [row];   PTX 8.6. As above, for 16
/// 6-bit elements and 4 bytes of padding.
FOURSCALE_D inline void ldmatrix_m8n16_x4_b8x16_b6x16_p32([[maybe_unused]] u32 (&r)[4],
                                                          [[maybe_unused]] u32 row) {
#if FOURSCALE_HAS_CVT_NARROW
  asm volatile("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b6x16_p32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
#else
  ldmatrix_b8x16_needs_sm_100f_103f_110f_120f_or_121f();
#endif
}

}  // namespace FOURSCALE_NAMESPACE::ptx
