// SPDX-License-Identifier: Apache-2.0
// wgmma of FP8 (PTX ISA 9.7.15), sm_90a, PTX 8.0: as in wgmma.cuh, with operands of bytes. The same
// descriptors serve: an instruction takes 32 bytes along K here, too, which are 32 values.
#pragma once

#include "wgmma.cuh"

namespace FOURSCALE_NAMESPACE::ptx {

/// The formats of wgmma_f8().
enum class f8 : u8 { e4m3, e5m2 };

// The instructions. They are macros, because the types are part of the instruction's text, which no template
// parameter can choose.
#define FOURSCALE_DETAIL_WGMMA_F8_192(types)                                                            \
  asm volatile(                                                                                         \
      "{ .reg .pred p; .reg .b64 a, b; setp.ne.b32 p, %98, 0; mov.b64 a, {%96, %99}; "                  \
      "mov.b64 b, {%97, %99}; wgmma.mma_async.sync.aligned.m64n192k32.f32." types                       \
      " {"                                                                                              \
      "%0, %1, %2, %3, %4, %5, %6, %7, "                                                                \
      "%8, %9, %10, %11, %12, %13, %14, %15, "                                                          \
      "%16, %17, %18, %19, %20, %21, %22, %23, "                                                        \
      "%24, %25, %26, %27, %28, %29, %30, %31, "                                                        \
      "%32, %33, %34, %35, %36, %37, %38, %39, "                                                        \
      "%40, %41, %42, %43, %44, %45, %46, %47, "                                                        \
      "%48, %49, %50, %51, %52, %53, %54, %55, "                                                        \
      "%56, %57, %58, %59, %60, %61, %62, %63, "                                                        \
      "%64, %65, %66, %67, %68, %69, %70, %71, "                                                        \
      "%72, %73, %74, %75, %76, %77, %78, %79, "                                                        \
      "%80, %81, %82, %83, %84, %85, %86, %87, "                                                        \
      "%88, %89, %90, %91, %92, %93, %94, %95 "                                                         \
      "}, a, b, p, 1, 1; }"                                                                             \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),        \
        "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),      \
        "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),      \
        "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),      \
        "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),      \
        "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),      \
        "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),      \
        "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),      \
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]),      \
        "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]),      \
        "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]),      \
        "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]),      \
        "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])                                              \
      : "r"(a), "r"(b), "r"(accumulate ? 1 : 0), "n"(wgmma_descriptor_b128(0) >> 32))
#define FOURSCALE_DETAIL_WGMMA_F8_128(types)                                                            \
  asm volatile(                                                                                         \
      "{ .reg .pred p; .reg .b64 a, b; setp.ne.b32 p, %66, 0; mov.b64 a, {%64, %67}; "                  \
      "mov.b64 b, {%65, %67}; wgmma.mma_async.sync.aligned.m64n128k32.f32." types                       \
      " {"                                                                                              \
      "%0, %1, %2, %3, %4, %5, %6, %7, "                                                                \
      "%8, %9, %10, %11, %12, %13, %14, %15, "                                                          \
      "%16, %17, %18, %19, %20, %21, %22, %23, "                                                        \
      "%24, %25, %26, %27, %28, %29, %30, %31, "                                                        \
      "%32, %33, %34, %35, %36, %37, %38, %39, "                                                        \
      "%40, %41, %42, %43, %44, %45, %46, %47, "                                                        \
      "%48, %49, %50, %51, %52, %53, %54, %55, "                                                        \
      "%56, %57, %58, %59, %60, %61, %62, %63 "                                                         \
      "}, a, b, p, 1, 1; }"                                                                             \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),        \
        "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),      \
        "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),      \
        "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),      \
        "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),      \
        "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),      \
        "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),      \
        "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])       \
      : "r"(a), "r"(b), "r"(accumulate ? 1 : 0), "n"(wgmma_descriptor_b128(0) >> 32))

/// wgmma.mma_async.sync.aligned.m64nNk32.f32.A.B: D = A * B^T, or D += A * B^T with `accumulate`, for 64 rows
/// of A, N rows of B and 32 values along K, both K-major. N is 192 or 128. Arguments and elements of D are as
/// in wgmma_bf16(). The sums have fewer bits than f32: see docs/native_gemm.md.
template <f8 A, f8 B>
FOURSCALE_D void wgmma_f8([[maybe_unused]] float (&d)[96], [[maybe_unused]] u32 a, [[maybe_unused]] u32 b,
                          [[maybe_unused]] bool accumulate) {
#if FOURSCALE_HAS_WGMMA
  if constexpr (A == f8::e4m3 && B == f8::e4m3)
    FOURSCALE_DETAIL_WGMMA_F8_192("e4m3.e4m3");
  else if constexpr (A == f8::e4m3)
    FOURSCALE_DETAIL_WGMMA_F8_192("e4m3.e5m2");
  else if constexpr (B == f8::e4m3)
    FOURSCALE_DETAIL_WGMMA_F8_192("e5m2.e4m3");
  else
    FOURSCALE_DETAIL_WGMMA_F8_192("e5m2.e5m2");
#else
  wgmma_needs_sm_90a(d, a, b, accumulate);
#endif
}
template <f8 A, f8 B>
FOURSCALE_D void wgmma_f8([[maybe_unused]] float (&d)[64], [[maybe_unused]] u32 a, [[maybe_unused]] u32 b,
                          [[maybe_unused]] bool accumulate) {
#if FOURSCALE_HAS_WGMMA
  if constexpr (A == f8::e4m3 && B == f8::e4m3)
    FOURSCALE_DETAIL_WGMMA_F8_128("e4m3.e4m3");
  else if constexpr (A == f8::e4m3)
    FOURSCALE_DETAIL_WGMMA_F8_128("e4m3.e5m2");
  else if constexpr (B == f8::e4m3)
    FOURSCALE_DETAIL_WGMMA_F8_128("e5m2.e4m3");
  else
    FOURSCALE_DETAIL_WGMMA_F8_128("e5m2.e5m2");
#else
  wgmma_needs_sm_90a(d, a, b, accumulate);
#endif
}

#undef FOURSCALE_DETAIL_WGMMA_F8_192
#undef FOURSCALE_DETAIL_WGMMA_F8_128

}  // namespace FOURSCALE_NAMESPACE::ptx
