// SPDX-License-Identifier: Apache-2.0
// wgmma of bf16 and fp16 with operand A in registers (PTX ISA 9.7.15), sm_90a, PTX 8.0: as in wgmma.cuh, for
// kernels that compute A, such as those that decode 4-bit weights.
#pragma once

#include "wgmma.cuh"

namespace FOURSCALE_NAMESPACE::ptx {

/// The formats of wgmma_of_registers().
enum class f16 : u8 { bf16, fp16 };

// The instructions. They are macros, because the type is part of the instruction's text, which no template
// parameter can choose.
#define FOURSCALE_DETAIL_WGMMA_RS_8(type)                                       \
  asm volatile(                                                                 \
      "{ .reg .pred p; .reg .b64 b; setp.ne.b32 p, 1, 0; mov.b64 b, {%8, %9}; " \
      "wgmma.mma_async.sync.aligned.m64n8k16.f32." type "." type                \
      " {"                                                                      \
      "%0, %1, %2, %3 "                                                         \
      "}, {%4, %5, %6, %7}, b, p, 1, 1, 0; }"                                   \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                          \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "n"(wgmma_descriptor_b128(0) >> 32))
#define FOURSCALE_DETAIL_WGMMA_RS_16(type)                                                             \
  asm volatile(                                                                                        \
      "{ .reg .pred p; .reg .b64 b; setp.ne.b32 p, 1, 0; mov.b64 b, {%12, %13}; "                      \
      "wgmma.mma_async.sync.aligned.m64n16k16.f32." type "." type                                      \
      " {"                                                                                             \
      "%0, %1, %2, %3, %4, %5, %6, %7 "                                                                \
      "}, {%8, %9, %10, %11}, b, p, 1, 1, 0; }"                                                        \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "n"(wgmma_descriptor_b128(0) >> 32))
#define FOURSCALE_DETAIL_WGMMA_RS_32(type)                                                                   \
  asm volatile(                                                                                              \
      "{ .reg .pred p; .reg .b64 b; setp.ne.b32 p, 1, 0; mov.b64 b, {%20, %21}; "                            \
      "wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type                                            \
      " {"                                                                                                   \
      "%0, %1, %2, %3, %4, %5, %6, %7, "                                                                     \
      "%8, %9, %10, %11, %12, %13, %14, %15 "                                                                \
      "}, {%16, %17, %18, %19}, b, p, 1, 1, 0; }"                                                            \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),      \
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "n"(wgmma_descriptor_b128(0) >> 32))
#define FOURSCALE_DETAIL_WGMMA_RS_64(type)                                                              \
  asm volatile(                                                                                         \
      "{ .reg .pred p; .reg .b64 b; setp.ne.b32 p, 1, 0; mov.b64 b, {%36, %37}; "                       \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                                       \
      " {"                                                                                              \
      "%0, %1, %2, %3, %4, %5, %6, %7, "                                                                \
      "%8, %9, %10, %11, %12, %13, %14, %15, "                                                          \
      "%16, %17, %18, %19, %20, %21, %22, %23, "                                                        \
      "%24, %25, %26, %27, %28, %29, %30, %31 "                                                         \
      "}, {%32, %33, %34, %35}, b, p, 1, 1, 0; }"                                                       \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),        \
        "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),      \
        "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),      \
        "+f"(d[29]), "+f"(d[30]), "+f"(d[31])                                                           \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "n"(wgmma_descriptor_b128(0) >> 32))

/// wgmma.mma_async.sync.aligned.m64nNk16.f32.T.T: D += A * B^T for 64 rows of A, N rows of B and 16 values
/// along K. N is 8, 16, 32 or 64. Each warp holds 16 rows of A, in the fragments of mma_sync_m16n8k16_bf16().
/// `b` is the low word of wgmma_descriptor_b128(). Elements of D are as in wgmma_bf16(). Asynchronous: D is
/// valid, and the registers of A may change, after wgmma_wait_group().
template <f16 T>
FOURSCALE_D void wgmma_of_registers([[maybe_unused]] float (&d)[4], [[maybe_unused]] u32 const (&a)[4],
                                    [[maybe_unused]] u32 b) {
#if FOURSCALE_HAS_WGMMA
  if constexpr (T == f16::bf16)
    FOURSCALE_DETAIL_WGMMA_RS_8("bf16");
  else
    FOURSCALE_DETAIL_WGMMA_RS_8("f16");
#else
  wgmma_needs_sm_90a(d, a, b);
#endif
}
template <f16 T>
FOURSCALE_D void wgmma_of_registers([[maybe_unused]] float (&d)[8], [[maybe_unused]] u32 const (&a)[4],
                                    [[maybe_unused]] u32 b) {
#if FOURSCALE_HAS_WGMMA
  if constexpr (T == f16::bf16)
    FOURSCALE_DETAIL_WGMMA_RS_16("bf16");
  else
    FOURSCALE_DETAIL_WGMMA_RS_16("f16");
#else
  wgmma_needs_sm_90a(d, a, b);
#endif
}
template <f16 T>
FOURSCALE_D void wgmma_of_registers([[maybe_unused]] float (&d)[16], [[maybe_unused]] u32 const (&a)[4],
                                    [[maybe_unused]] u32 b) {
#if FOURSCALE_HAS_WGMMA
  if constexpr (T == f16::bf16)
    FOURSCALE_DETAIL_WGMMA_RS_32("bf16");
  else
    FOURSCALE_DETAIL_WGMMA_RS_32("f16");
#else
  wgmma_needs_sm_90a(d, a, b);
#endif
}
template <f16 T>
FOURSCALE_D void wgmma_of_registers([[maybe_unused]] float (&d)[32], [[maybe_unused]] u32 const (&a)[4],
                                    [[maybe_unused]] u32 b) {
#if FOURSCALE_HAS_WGMMA
  if constexpr (T == f16::bf16)
    FOURSCALE_DETAIL_WGMMA_RS_64("bf16");
  else
    FOURSCALE_DETAIL_WGMMA_RS_64("f16");
#else
  wgmma_needs_sm_90a(d, a, b);
#endif
}

#undef FOURSCALE_DETAIL_WGMMA_RS_8
#undef FOURSCALE_DETAIL_WGMMA_RS_16
#undef FOURSCALE_DETAIL_WGMMA_RS_32
#undef FOURSCALE_DETAIL_WGMMA_RS_64

}  // namespace FOURSCALE_NAMESPACE::ptx
