// SPDX-License-Identifier: Apache-2.0
// mma.sync of bf16 (PTX ISA 9.7.14.5.8), sm_80 and later, PTX 7.0: one warp computes D[16][8] += A[16][16] *
// B[8][16] with its fragments in registers. g = lane / 4, t = lane % 4; element 0 is the lowest of a
// register:
//   A element i: row g + 8 ((i / 2) & 1), k 2 t + i % 2 + 8 (i / 4)      B: k 2 t + i % 2 + 8 (i / 2), n g
//   D element i: row g + 8 (i / 2), n 2 t + i % 2
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

/// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {d}, {a}, {b}, {c}.
FOURSCALE_D inline void mma_sync_m16n8k16_bf16([[maybe_unused]] float (&d)[4],
                                               [[maybe_unused]] u32 const (&a)[4],
                                               [[maybe_unused]] u32 const (&b)[2],
                                               [[maybe_unused]] float const (&c)[4]) {
#if FOURSCALE_DEVICE_PASS
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]),
        "f"(c[3]));
#endif
}

}  // namespace FOURSCALE_NAMESPACE::ptx
