// SPDX-License-Identifier: Apache-2.0
// mma.sync with block scales (PTX ISA 9.7.14.5.14), sm_120f/a and sm_121f/a, PTX 8.7: a whole warp computes
// D[16][8] += A[16][k] * B[8][k] with all fragments in registers. A kernel asks arch::has_mma_block_scale
// with `if constexpr`. A call from a pass without the instruction is a link error that names its targets.
//
// Fragments of a lane, with g = lane / 4 and t = lane % 4. Element 0 is the lowest of its register.
//   m16n8k64, 4-bit elements
//     A element i: row g + 8 ((i / 8) & 1), k = 8 t + i % 8 + 32 (i / 16)
//     B element i: column g, k = 8 t + i % 8 + 32 (i / 8)
//   m16n8k32, elements of a byte
//     A element i: row g + 8 ((i / 4) & 1), k = 4 t + i % 4 + 16 (i / 8)
//     B element i: column g, k = 4 t + i % 4 + 16 (i / 4)
//   both
//     D element i: row g + 8 (i / 2), column 2 t + i % 2
#pragma once

#include "instruction_descriptor.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

template <class... Operands>
FOURSCALE_D void mma_sync_with_block_scale_needs_sm_120f_or_121f(Operands const&...);

/// Which lanes and bytes hold the scales of an operand. For A, thread_id is 0 or 1: lanes with (lane % 4) / 2
/// == thread_id hold the scales of row (lane & 1) * 8 + lane / 4. For B, thread_id is 0 to 3: lanes with
/// lane % 4 == thread_id hold those of column lane / 4. Bytes byte_id, byte_id + 1, ... of the register
/// belong to the blocks along k in order. Other values are undefined.
struct scale_selector {
  u16 byte_id = 0;
  u16 thread_id = 0;
};

#if FOURSCALE_HAS_MMA_BLOCK_SCALE
#define FOURSCALE_DETAIL_MMA(instruction, byte_a, thread_a, byte_b, thread_b)                          \
  asm volatile(instruction                                                                             \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, %10, {%12, %13}, "    \
               "%11, {%14, %15};"                                                                      \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                        \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(sfa), "r"(sfb), \
                 "h"(byte_a), "h"(thread_a), "h"(byte_b), "h"(thread_b))
#else
#define FOURSCALE_DETAIL_MMA(instruction, ...) \
  mma_sync_with_block_scale_needs_sm_120f_or_121f(d, a, b, sfa, sfb, __VA_ARGS__)
#endif
#define FOURSCALE_DETAIL_MMA_SELECT(instruction)                                            \
  FOURSCALE_DETAIL_MMA(instruction, select_a.byte_id, select_a.thread_id, select_b.byte_id, \
                       select_b.thread_id)

/// mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3: NVFP4.
/// Byte j of a scale register scales k = 16 j to 16 j + 15. The byte id is always 0.
FOURSCALE_D inline void mma_sync_m16n8k64_mxf4nvf4_4x_ue4m3(float (&d)[4], u32 const (&a)[4],
                                                            u32 const (&b)[2], u32 sfa, u16 thread_id_a,
                                                            u32 sfb, u16 thread_id_b) {
  FOURSCALE_DETAIL_MMA(
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
      u16{0}, thread_id_a, u16{0}, thread_id_b);
}

/// The same with scale_vec::2X and UE8M0: MXFP4. byte_id is 0 or 2; byte byte_id + j scales k = 32 j to
/// 32 j + 31.
FOURSCALE_D inline void mma_sync_m16n8k64_mxf4nvf4_2x_ue8m0(float (&d)[4], u32 const (&a)[4],
                                                            u32 const (&b)[2], u32 sfa,
                                                            scale_selector select_a, u32 sfb,
                                                            scale_selector select_b) {
  FOURSCALE_DETAIL_MMA_SELECT(
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0");
}

/// mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0: MXFP4.
FOURSCALE_D inline void mma_sync_m16n8k64_mxf4_2x_ue8m0(float (&d)[4], u32 const (&a)[4], u32 const (&b)[2],
                                                        u32 sfa, scale_selector select_a, u32 sfb,
                                                        scale_selector select_b) {
  FOURSCALE_DETAIL_MMA_SELECT(
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0");
}

#define FOURSCALE_DETAIL_MMA_TYPES(type_a, type_b)                                                        \
  FOURSCALE_DETAIL_MMA_SELECT(                                                                            \
      "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32." type_a "." type_b \
      ".f32.ue8m0")
#define FOURSCALE_DETAIL_MMA_FOR_B(type_a)      \
  if constexpr (B == element_type::e4m3)        \
    FOURSCALE_DETAIL_MMA_TYPES(type_a, "e4m3"); \
  else if constexpr (B == element_type::e5m2)   \
    FOURSCALE_DETAIL_MMA_TYPES(type_a, "e5m2"); \
  else if constexpr (B == element_type::e2m3)   \
    FOURSCALE_DETAIL_MMA_TYPES(type_a, "e2m3"); \
  else if constexpr (B == element_type::e3m2)   \
    FOURSCALE_DETAIL_MMA_TYPES(type_a, "e3m2"); \
  else                                          \
    FOURSCALE_DETAIL_MMA_TYPES(type_a, "e2m1")

/// mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.A.B.f32.ue8m0: MXFP8, MXFP6
/// and mixtures. Each element takes a byte: E2M1 lies in bits 5:2 of it, E2M3 and E3M2 in bits 5:0. byte_id
/// is 0 to 3.
template <element_type A, element_type B>
FOURSCALE_D void mma_sync_m16n8k32_mxf8f6f4_1x_ue8m0(float (&d)[4], u32 const (&a)[4], u32 const (&b)[2],
                                                     u32 sfa, scale_selector select_a, u32 sfb,
                                                     scale_selector select_b) {
  if constexpr (A == element_type::e4m3) {
    FOURSCALE_DETAIL_MMA_FOR_B("e4m3");
  } else if constexpr (A == element_type::e5m2) {
    FOURSCALE_DETAIL_MMA_FOR_B("e5m2");
  } else if constexpr (A == element_type::e2m3) {
    FOURSCALE_DETAIL_MMA_FOR_B("e2m3");
  } else if constexpr (A == element_type::e3m2) {
    FOURSCALE_DETAIL_MMA_FOR_B("e3m2");
  } else {
    FOURSCALE_DETAIL_MMA_FOR_B("e2m1");
  }
}

#undef FOURSCALE_DETAIL_MMA_FOR_B
#undef FOURSCALE_DETAIL_MMA_TYPES
#undef FOURSCALE_DETAIL_MMA_SELECT
#undef FOURSCALE_DETAIL_MMA

}  // namespace FOURSCALE_NAMESPACE::ptx
