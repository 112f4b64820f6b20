// SPDX-License-Identifier: Apache-2.0
// tcgen05.ld and tcgen05.st: tensor memory to registers and back (PTX ISA 9.7.16.8), sm_100f/a, sm_103f/a,
// sm_110f/a, PTX 8.6 (8.8 for the f targets). A whole warp calls them with the same address. Warp w of a
// warpgroup reaches lanes 32 w to 32 w + 31 of tensor memory. The number of registers, Count, decides how
// often the shape repeats along the columns (.xN). Both are asynchronous: call tcgen05_wait_ld(r) before
// using the registers, and tcgen05_wait_st() before other threads read.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

FOURSCALE_D void tcgen05_ld_and_st_need_sm_100f_103f_or_110f();

// The text "%0, %1, ..." and the operands r[0], r[1], ... for 1, 2, 4, ..., 128 registers.
#define FOURSCALE_DETAIL_NAMES_1 "%0"
#define FOURSCALE_DETAIL_NAMES_2 \
  FOURSCALE_DETAIL_NAMES_1       \
  ", %1"
#define FOURSCALE_DETAIL_NAMES_4 \
  FOURSCALE_DETAIL_NAMES_2       \
  ", %2, %3"
#define FOURSCALE_DETAIL_NAMES_8 \
  FOURSCALE_DETAIL_NAMES_4       \
  ", %4, %5, %6, %7"
#define FOURSCALE_DETAIL_NAMES_16 \
  FOURSCALE_DETAIL_NAMES_8        \
  ", %8, %9, %10, %11, %12, %13, %14, %15"
#define FOURSCALE_DETAIL_NAMES_32 \
  FOURSCALE_DETAIL_NAMES_16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FOURSCALE_DETAIL_NAMES_64                                                              \
  FOURSCALE_DETAIL_NAMES_32                                                                    \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49" \
  ", %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FOURSCALE_DETAIL_NAMES_128                                                                           \
  FOURSCALE_DETAIL_NAMES_64                                                                                  \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81"               \
  ", %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99"               \
  ", %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, " \
  "%117"                                                                                                     \
  ", %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define FOURSCALE_DETAIL_REGISTERS_1(how, at) how(r[at])
#define FOURSCALE_DETAIL_REGISTERS_2(how, at) \
  FOURSCALE_DETAIL_REGISTERS_1(how, at), FOURSCALE_DETAIL_REGISTERS_1(how, (at) + 1)
#define FOURSCALE_DETAIL_REGISTERS_4(how, at) \
  FOURSCALE_DETAIL_REGISTERS_2(how, at), FOURSCALE_DETAIL_REGISTERS_2(how, (at) + 2)
#define FOURSCALE_DETAIL_REGISTERS_8(how, at) \
  FOURSCALE_DETAIL_REGISTERS_4(how, at), FOURSCALE_DETAIL_REGISTERS_4(how, (at) + 4)
#define FOURSCALE_DETAIL_REGISTERS_16(how, at) \
  FOURSCALE_DETAIL_REGISTERS_8(how, at), FOURSCALE_DETAIL_REGISTERS_8(how, (at) + 8)
#define FOURSCALE_DETAIL_REGISTERS_32(how, at) \
  FOURSCALE_DETAIL_REGISTERS_16(how, at), FOURSCALE_DETAIL_REGISTERS_16(how, (at) + 16)
#define FOURSCALE_DETAIL_REGISTERS_64(how, at) \
  FOURSCALE_DETAIL_REGISTERS_32(how, at), FOURSCALE_DETAIL_REGISTERS_32(how, (at) + 32)
#define FOURSCALE_DETAIL_REGISTERS_128(how, at) \
  FOURSCALE_DETAIL_REGISTERS_64(how, at), FOURSCALE_DETAIL_REGISTERS_64(how, (at) + 64)

// The instructions. The address is operand `count`; `next` is count + 1, the operand after it.
#if FOURSCALE_HAS_TCGEN05
#define FOURSCALE_DETAIL_LD(shape, times, count, next, pack)                                             \
  asm volatile("tcgen05.ld.sync.aligned." shape ".x" #times pack ".b32 {" FOURSCALE_DETAIL_NAMES_##count \
               "}, [%" #count "];"                                                                       \
               : FOURSCALE_DETAIL_REGISTERS_##count("=r", 0)                                             \
               : "r"(address))
#define FOURSCALE_DETAIL_LD_HALVES(shape, times, count, next, pack)                                      \
  asm volatile("tcgen05.ld.sync.aligned." shape ".x" #times pack ".b32 {" FOURSCALE_DETAIL_NAMES_##count \
               "}, [%" #count "], %" #next ";"                                                           \
               : FOURSCALE_DETAIL_REGISTERS_##count("=r", 0)                                             \
               : "r"(address), "n"(HalfOffset))
#define FOURSCALE_DETAIL_ST(shape, times, count, next, unpack)                                          \
  asm volatile("tcgen05.st.sync.aligned." shape ".x" #times unpack ".b32 [%" #count                     \
               "], {" FOURSCALE_DETAIL_NAMES_##count "};" ::FOURSCALE_DETAIL_REGISTERS_##count("r", 0), \
               "r"(address))
#define FOURSCALE_DETAIL_ST_HALVES(shape, times, count, next, unpack)                                  \
  asm volatile("tcgen05.st.sync.aligned." shape ".x" #times unpack ".b32 [%" #count "], %" #next       \
               ", {" FOURSCALE_DETAIL_NAMES_##count "};" ::FOURSCALE_DETAIL_REGISTERS_##count("r", 0), \
               "r"(address), "n"(HalfOffset))
#else
#define FOURSCALE_DETAIL_LD(...) tcgen05_ld_and_st_need_sm_100f_103f_or_110f()
#define FOURSCALE_DETAIL_LD_HALVES FOURSCALE_DETAIL_LD
#define FOURSCALE_DETAIL_ST FOURSCALE_DETAIL_LD
#define FOURSCALE_DETAIL_ST_HALVES FOURSCALE_DETAIL_LD
#endif

// Choose .xN by Count. One macro for each number of registers that a shape takes at .x1: 1, 2 or 4.
#define FOURSCALE_DETAIL_BY_COUNT_1(instruction, shape, pack)                                       \
  static_assert(Count >= 1 && Count <= 128 && (Count & (Count - 1)) == 0,                           \
                "A tcgen05.ld or tcgen05.st of this shape has 1, 2, 4, ..., 64 or 128 registers."); \
  if constexpr (Count == 1)                                                                         \
    instruction(shape, 1, 1, 2, pack);                                                              \
  else if constexpr (Count == 2)                                                                    \
    instruction(shape, 2, 2, 3, pack);                                                              \
  else if constexpr (Count == 4)                                                                    \
    instruction(shape, 4, 4, 5, pack);                                                              \
  else if constexpr (Count == 8)                                                                    \
    instruction(shape, 8, 8, 9, pack);                                                              \
  else if constexpr (Count == 16)                                                                   \
    instruction(shape, 16, 16, 17, pack);                                                           \
  else if constexpr (Count == 32)                                                                   \
    instruction(shape, 32, 32, 33, pack);                                                           \
  else if constexpr (Count == 64)                                                                   \
    instruction(shape, 64, 64, 65, pack);                                                           \
  else                                                                                              \
    instruction(shape, 128, 128, 129, pack)
#define FOURSCALE_DETAIL_BY_COUNT_2(instruction, shape, pack)                                       \
  static_assert(Count >= 2 && Count <= 128 && (Count & (Count - 1)) == 0,                           \
                "A tcgen05.ld or tcgen05.st of this shape has 2, 4, 8, ..., 64 or 128 registers."); \
  if constexpr (Count == 2)                                                                         \
    instruction(shape, 1, 2, 3, pack);                                                              \
  else if constexpr (Count == 4)                                                                    \
    instruction(shape, 2, 4, 5, pack);                                                              \
  else if constexpr (Count == 8)                                                                    \
    instruction(shape, 4, 8, 9, pack);                                                              \
  else if constexpr (Count == 16)                                                                   \
    instruction(shape, 8, 16, 17, pack);                                                            \
  else if constexpr (Count == 32)                                                                   \
    instruction(shape, 16, 32, 33, pack);                                                           \
  else if constexpr (Count == 64)                                                                   \
    instruction(shape, 32, 64, 65, pack);                                                           \
  else                                                                                              \
    instruction(shape, 64, 128, 129, pack)
#define FOURSCALE_DETAIL_BY_COUNT_4(instruction, shape, pack)                                        \
  static_assert(Count >= 4 && Count <= 128 && (Count & (Count - 1)) == 0,                            \
                "A tcgen05.ld or tcgen05.st of this shape has 4, 8, 16, ..., 64 or 128 registers."); \
  if constexpr (Count == 4)                                                                          \
    instruction(shape, 1, 4, 5, pack);                                                               \
  else if constexpr (Count == 8)                                                                     \
    instruction(shape, 2, 8, 9, pack);                                                               \
  else if constexpr (Count == 16)                                                                    \
    instruction(shape, 4, 16, 17, pack);                                                             \
  else if constexpr (Count == 32)                                                                    \
    instruction(shape, 8, 32, 33, pack);                                                             \
  else if constexpr (Count == 64)                                                                    \
    instruction(shape, 16, 64, 65, pack);                                                            \
  else                                                                                               \
    instruction(shape, 32, 128, 129, pack)

/// tcgen05.ld.sync.aligned.32x32b.xN.b32 r, [address];   Register i of thread l: lane l, column i.
template <int Count>
FOURSCALE_D void tcgen05_ld_32x32b(u32 (&r)[Count], u32 address) {
  FOURSCALE_DETAIL_BY_COUNT_1(FOURSCALE_DETAIL_LD, "32x32b", "");
}
/// With .pack::16b: two 16-bit elements of neighbouring columns in one register.
template <int Count>
FOURSCALE_D void tcgen05_ld_32x32b_pack_16b(u32 (&r)[Count], u32 address) {
  FOURSCALE_DETAIL_BY_COUNT_1(FOURSCALE_DETAIL_LD, "32x32b", ".pack::16b");
}
/// tcgen05.st.sync.aligned.32x32b.xN.b32 [address], r;
template <int Count>
FOURSCALE_D void tcgen05_st_32x32b(u32 address, u32 const (&r)[Count]) {
  FOURSCALE_DETAIL_BY_COUNT_1(FOURSCALE_DETAIL_ST, "32x32b", "");
}
/// With .unpack::16b: the halves of a register go to the low halves of two neighbouring columns.
template <int Count>
FOURSCALE_D void tcgen05_st_32x32b_unpack_16b(u32 address, u32 const (&r)[Count]) {
  FOURSCALE_DETAIL_BY_COUNT_1(FOURSCALE_DETAIL_ST, "32x32b", ".unpack::16b");
}

/// tcgen05.ld.sync.aligned.16x64b.xN.b32 r, [address];   16 lanes, two columns at a time.
template <int Count>
FOURSCALE_D void tcgen05_ld_16x64b(u32 (&r)[Count], u32 address) {
  FOURSCALE_DETAIL_BY_COUNT_1(FOURSCALE_DETAIL_LD, "16x64b", "");
}
/// With .pack::16b: two 16-bit elements of neighbouring columns in one register.
template <int Count>
FOURSCALE_D void tcgen05_ld_16x64b_pack_16b(u32 (&r)[Count], u32 address) {
  FOURSCALE_DETAIL_BY_COUNT_1(FOURSCALE_DETAIL_LD, "16x64b", ".pack::16b");
}
/// tcgen05.st.sync.aligned.16x64b.xN.b32 [address], r;
template <int Count>
FOURSCALE_D void tcgen05_st_16x64b(u32 address, u32 const (&r)[Count]) {
  FOURSCALE_DETAIL_BY_COUNT_1(FOURSCALE_DETAIL_ST, "16x64b", "");
}
/// With .unpack::16b: the halves of a register go to the low halves of two neighbouring columns.
template <int Count>
FOURSCALE_D void tcgen05_st_16x64b_unpack_16b(u32 address, u32 const (&r)[Count]) {
  FOURSCALE_DETAIL_BY_COUNT_1(FOURSCALE_DETAIL_ST, "16x64b", ".unpack::16b");
}

/// tcgen05.ld.sync.aligned.16x128b.xN.b32 r, [address];   16 lanes, four columns at a time.
template <int Count>
FOURSCALE_D void tcgen05_ld_16x128b(u32 (&r)[Count], u32 address) {
  FOURSCALE_DETAIL_BY_COUNT_2(FOURSCALE_DETAIL_LD, "16x128b", "");
}
/// With .pack::16b: two 16-bit elements of neighbouring columns in one register.
template <int Count>
FOURSCALE_D void tcgen05_ld_16x128b_pack_16b(u32 (&r)[Count], u32 address) {
  FOURSCALE_DETAIL_BY_COUNT_2(FOURSCALE_DETAIL_LD, "16x128b", ".pack::16b");
}
/// tcgen05.st.sync.aligned.16x128b.xN.b32 [address], r;
template <int Count>
FOURSCALE_D void tcgen05_st_16x128b(u32 address, u32 const (&r)[Count]) {
  FOURSCALE_DETAIL_BY_COUNT_2(FOURSCALE_DETAIL_ST, "16x128b", "");
}
/// With .unpack::16b: the halves of a register go to the low halves of two neighbouring columns.
template <int Count>
FOURSCALE_D void tcgen05_st_16x128b_unpack_16b(u32 address, u32 const (&r)[Count]) {
  FOURSCALE_DETAIL_BY_COUNT_2(FOURSCALE_DETAIL_ST, "16x128b", ".unpack::16b");
}

/// tcgen05.ld.sync.aligned.16x256b.xN.b32 r, [address];   16 lanes, eight columns at a time, laid out as D of
/// mma.sync: registers 0 and 1 of thread l are columns 2 (l % 4) and the next of lane l / 4; registers 2 and
/// 3 are the same columns of lane l / 4 + 8.
template <int Count>
FOURSCALE_D void tcgen05_ld_16x256b(u32 (&r)[Count], u32 address) {
  FOURSCALE_DETAIL_BY_COUNT_4(FOURSCALE_DETAIL_LD, "16x256b", "");
}
/// With .pack::16b: two 16-bit elements of neighbouring columns in one register.
template <int Count>
FOURSCALE_D void tcgen05_ld_16x256b_pack_16b(u32 (&r)[Count], u32 address) {
  FOURSCALE_DETAIL_BY_COUNT_4(FOURSCALE_DETAIL_LD, "16x256b", ".pack::16b");
}
/// tcgen05.st.sync.aligned.16x256b.xN.b32 [address], r;
template <int Count>
FOURSCALE_D void tcgen05_st_16x256b(u32 address, u32 const (&r)[Count]) {
  FOURSCALE_DETAIL_BY_COUNT_4(FOURSCALE_DETAIL_ST, "16x256b", "");
}
/// With .unpack::16b: the halves of a register go to the low halves of two neighbouring columns.
template <int Count>
FOURSCALE_D void tcgen05_st_16x256b_unpack_16b(u32 address, u32 const (&r)[Count]) {
  FOURSCALE_DETAIL_BY_COUNT_4(FOURSCALE_DETAIL_ST, "16x256b", ".unpack::16b");
}

/// tcgen05.ld.sync.aligned.16x32bx2.xN.b32 r, [address], HalfOffset;   Two accesses of 16 lanes, the second
/// at address + HalfOffset.
template <int HalfOffset, int Count>
FOURSCALE_D void tcgen05_ld_16x32bx2(u32 (&r)[Count], u32 address) {
  FOURSCALE_DETAIL_BY_COUNT_1(FOURSCALE_DETAIL_LD_HALVES, "16x32bx2", "");
}
template <int HalfOffset, int Count>
FOURSCALE_D void tcgen05_ld_16x32bx2_pack_16b(u32 (&r)[Count], u32 address) {
  FOURSCALE_DETAIL_BY_COUNT_1(FOURSCALE_DETAIL_LD_HALVES, "16x32bx2", ".pack::16b");
}
/// tcgen05.st.sync.aligned.16x32bx2.xN.b32 [address], HalfOffset, r;
template <int HalfOffset, int Count>
FOURSCALE_D void tcgen05_st_16x32bx2(u32 address, u32 const (&r)[Count]) {
  FOURSCALE_DETAIL_BY_COUNT_1(FOURSCALE_DETAIL_ST_HALVES, "16x32bx2", "");
}
template <int HalfOffset, int Count>
FOURSCALE_D void tcgen05_st_16x32bx2_unpack_16b(u32 address, u32 const (&r)[Count]) {
  FOURSCALE_DETAIL_BY_COUNT_1(FOURSCALE_DETAIL_ST_HALVES, "16x32bx2", ".unpack::16b");
}

#undef FOURSCALE_DETAIL_BY_COUNT_4
#undef FOURSCALE_DETAIL_BY_COUNT_2
#undef FOURSCALE_DETAIL_BY_COUNT_1
#undef FOURSCALE_DETAIL_ST_HALVES
#undef FOURSCALE_DETAIL_ST
#undef FOURSCALE_DETAIL_LD_HALVES
#undef FOURSCALE_DETAIL_LD
#undef FOURSCALE_DETAIL_REGISTERS_1
#undef FOURSCALE_DETAIL_REGISTERS_2
#undef FOURSCALE_DETAIL_REGISTERS_4
#undef FOURSCALE_DETAIL_REGISTERS_8
#undef FOURSCALE_DETAIL_REGISTERS_16
#undef FOURSCALE_DETAIL_REGISTERS_32
#undef FOURSCALE_DETAIL_REGISTERS_64
#undef FOURSCALE_DETAIL_REGISTERS_128
#undef FOURSCALE_DETAIL_NAMES_1
#undef FOURSCALE_DETAIL_NAMES_2
#undef FOURSCALE_DETAIL_NAMES_4
#undef FOURSCALE_DETAIL_NAMES_8
#undef FOURSCALE_DETAIL_NAMES_16
#undef FOURSCALE_DETAIL_NAMES_32
#undef FOURSCALE_DETAIL_NAMES_64
#undef FOURSCALE_DETAIL_NAMES_128

}  // namespace FOURSCALE_NAMESPACE::ptx
