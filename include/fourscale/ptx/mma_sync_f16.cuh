// SPDX-License-Identifier: Apache-2.0
// mma.sync of bf16 and fp16 (PTX ISA 9.7.14.5.8, PTX 7.0, sm_80 and later): a whole warp computes
// D[16][8] += A[16][16] * B[8][16] in FP32. Also mma.sync of bytes in integers, and arithmetic on f16x2.
//
// Fragments of a lane, with g = lane / 4 and t = lane % 4. The lower half of a register has the lower k.
//   A register i: row g + 8 (i % 2), k = 2 t + 8 (i / 2) and the next
//   B register i: column g, k = 2 t + 8 i and the next
//   D element i:  row g + 8 (i / 2), column 2 t + i % 2
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

/// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
FOURSCALE_D inline void mma_sync_m16n8k16_bf16(float (&d)[4], u32 const (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// The same with separate C and D: D = C + A * B^T.
FOURSCALE_D inline void mma_sync_m16n8k16_bf16(float (&d)[4], u32 const (&a)[4], u32 const (&b)[2],
                                               float const (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]),
        "f"(c[3]));
}

/// mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
FOURSCALE_D inline void mma_sync_m16n8k16_f16(float (&d)[4], u32 const (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 (PTX ISA 9.7.14.5.10): D[16][8] += A[16][32] * B[8][32].
/// Register i of A has four values from k = 4 t + 16 (i / 2) on in row g + 8 (i % 2). Register i of B has
/// four from k = 4 t + 16 i on in column g.
FOURSCALE_D inline void mma_sync_m16n8k32_u8(i32 (&d)[4], u32 const (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Puts the lower half of `both` twice into `lower`, and the upper half twice into `upper`. Written with mov,
/// because the compiler can then drop the copies: an instruction that can select either half of a register
/// reads `both` itself. For prmt the compiler does not find this.
FOURSCALE_D inline void twice_each(u32 both, u32& lower, u32& upper) {
  asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; mov.b32 %0, {a, a}; mov.b32 %1, {b, b}; }"
      : "=r"(lower), "=r"(upper)
      : "r"(both));
}

/// mul.rn.f16x2 d, a, b;
FOURSCALE_D inline u32 mul_rn_f16x2(u32 a, u32 b) {
  u32 d;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

/// add.rn.f16x2 d, a, b;
FOURSCALE_D inline u32 add_rn_f16x2(u32 a, u32 b) {
  u32 d;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

/// sub.rn.f16x2 d, a, b;
FOURSCALE_D inline u32 sub_rn_f16x2(u32 a, u32 b) {
  u32 d;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

/// abs.f16x2; set.ge.u32.f16x2 d, abs(a), b; (PTX ISA 9.7.7.1): 0xffff in each half of d where the magnitude
/// of a is b or more, else 0.
FOURSCALE_D inline u32 set_ge_abs_f16x2(u32 a, u32 b) {
  u32 d;
  asm("{ .reg .b32 m; abs.f16x2 m, %1; set.ge.u32.f16x2 %0, m, %2; }" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

}  // namespace FOURSCALE_NAMESPACE::ptx
