// SPDX-License-Identifier: Apache-2.0
// wgmma (PTX ISA 9.7.15), sm_90a, PTX 8.0: a warpgroup multiplies two bf16 operands in shared memory into an
// accumulator in registers. wgmma_f8.cuh has FP8, and wgmma_rs.cuh takes A from registers. All four warps
// execute each function. A kernel asks arch::has_wgmma with `if constexpr`. An MMA in a pass without wgmma is
// a link error that names the target.
#pragma once

#include "smem_descriptor.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

template <class... Operands>
FOURSCALE_D void wgmma_needs_sm_90a(Operands const&...);

/// The descriptor of a K-major operand of 16-bit elements under the 128-byte swizzle (PTX
/// ISA 9.7.15.5.1.2.2). A row has 64 elements, a pattern eight rows; `address` is a multiple of 1024. wgmma
/// numbers the swizzle differently from tcgen05: 1 in bits 63:62. K advances by 32 bytes an instruction: see
/// advanced().
FOURSCALE_HD constexpr u64 wgmma_descriptor_b128(u32 address) {
  return u64{address >> 4 & 0x3fff} | u64{1} << 16 | u64{1024 >> 4} << 32 | u64{1} << 62;
}

/// Orders earlier accesses to accumulators, and to fragments of A in registers, before the wgmma that follow.
/// Goes before the first wgmma, and where ordinary instructions touched these registers since. Shared memory
/// that ordinary instructions wrote needs fence.proxy.async instead.
FOURSCALE_D inline void wgmma_fence() {
#if FOURSCALE_HAS_WGMMA
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
FOURSCALE_D inline void wgmma_commit_group() {
#if FOURSCALE_HAS_WGMMA
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
/// Waits until at most N committed groups are unfinished.
template <int N>
FOURSCALE_D void wgmma_wait_group() {
#if FOURSCALE_HAS_WGMMA
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#endif
}

/// wgmma.mma_async.sync.aligned.m64nNk16.f32.bf16.bf16: D = A * B^T, or D += A * B^T with `accumulate`, for
/// 64 rows of A, N rows of B and 16 values along K. N is 192, 128 or 64. `a` and `b` are the low words of
/// wgmma_descriptor_b128(). Each thread holds N / 2 elements of D. Element i in lane l of warp w (0 to 3) is
/// row 16 w + l / 4 + 8 (i / 2 % 2), column 8 (i / 4) + 2 (l % 4) + i % 2: the D fragment of mma.sync's
/// m16n8, N / 8 times. Asynchronous: D is valid after wgmma_wait_group().
FOURSCALE_D inline void wgmma_bf16([[maybe_unused]] float (&d)[96], [[maybe_unused]] u32 a,
                                   [[maybe_unused]] u32 b, [[maybe_unused]] bool accumulate) {
#if FOURSCALE_HAS_WGMMA
  asm volatile(
      "{ .reg .pred p; .reg .b64 a, b; setp.ne.b32 p, %98, 0; mov.b64 a, {%96, %99}; mov.b64 b, {%97, %99}; "
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, "
      "%72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, "
      "%88, %89, %90, %91, %92, %93, %94, %95 "
      "}, a, b, p, 1, 1, 0, 0; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
        "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
        "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),
        "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
        "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]),
        "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]),
        "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]),
        "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]),
        "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]),
        "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]),
        "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
      : "r"(a), "r"(b), "r"(accumulate ? 1 : 0), "n"(wgmma_descriptor_b128(0) >> 32));
#else
  wgmma_needs_sm_90a(d, a, b, accumulate);
#endif
}
FOURSCALE_D inline void wgmma_bf16([[maybe_unused]] float (&d)[64], [[maybe_unused]] u32 a,
                                   [[maybe_unused]] u32 b, [[maybe_unused]] bool accumulate) {
#if FOURSCALE_HAS_WGMMA
  asm volatile(
      "{ .reg .pred p; .reg .b64 a, b; setp.ne.b32 p, %66, 0; mov.b64 a, {%64, %67}; mov.b64 b, {%65, %67}; "
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63 "
      "}, a, b, p, 1, 1, 0, 0; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
        "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
        "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),
        "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
        "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]),
        "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]),
        "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "r"(a), "r"(b), "r"(accumulate ? 1 : 0), "n"(wgmma_descriptor_b128(0) >> 32));
#else
  wgmma_needs_sm_90a(d, a, b, accumulate);
#endif
}

FOURSCALE_D inline void wgmma_bf16([[maybe_unused]] float (&d)[32], [[maybe_unused]] u32 a,
                                   [[maybe_unused]] u32 b, [[maybe_unused]] bool accumulate) {
#if FOURSCALE_HAS_WGMMA
  asm volatile(
      "{ .reg .pred p; .reg .b64 a, b; setp.ne.b32 p, %34, 0; mov.b64 a, {%32, %35}; mov.b64 b, {%33, %35}; "
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31 "
      "}, a, b, p, 1, 1, 0, 0; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
        "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
        "+f"(d[30]), "+f"(d[31])
      : "r"(a), "r"(b), "r"(accumulate ? 1 : 0), "n"(wgmma_descriptor_b128(0) >> 32));
#else
  wgmma_needs_sm_90a(d, a, b, accumulate);
#endif
}

/// setmaxnreg (PTX ISA 9.7.20.5): sets how many registers each thread of this warpgroup may use from here on,
/// a multiple of 8 from 24 to 256. _inc raises the number, _dec lowers it. All warps of the warpgroup execute
/// it.
template <int Registers>
FOURSCALE_D void setmaxnreg_inc() {
#if FOURSCALE_HAS_WGMMA
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}
template <int Registers>
FOURSCALE_D void setmaxnreg_dec() {
#if FOURSCALE_HAS_WGMMA
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}

}  // namespace FOURSCALE_NAMESPACE::ptx
