// SPDX-License-Identifier: Apache-2.0
// shfl.sync with the predicate that it returns: whether the other lane exists. A scan then takes two
// instructions a round, where __shfl_up_sync() needs a comparison and a selection, too.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

namespace detail {
/// Bits 8 to 12 of shfl's operand c: the lane numbers that both lanes must share. PTX ISA 9.7.9.6.
template <unsigned Lanes>
inline constexpr unsigned shfl_segment = (32 - Lanes) << 8;
}  // namespace detail

/// shfl.sync.up.b32;   PTX ISA 9.7.9.6, PTX 6.0, sm_30 and later. Adds to `x` the `y` of the lane `distance`
/// below, if it is of the same `Lanes` neighbours (a power of two). The sum is rounded to nearest. All lanes
/// of the warp must execute it.
template <unsigned Lanes>
FOURSCALE_D void add_shfl_up(float& x, float y, unsigned distance) {
  asm volatile("{ .reg .pred p; .reg .f32 t; shfl.sync.up.b32 t|p, %1, %2, %3, -1; @p add.rn.f32 %0, %0, t; }"
               : "+f"(x)
               : "f"(y), "r"(distance), "n"(detail::shfl_segment<Lanes>));
}
/// The same for whole numbers, modulo 2^32.
template <unsigned Lanes>
FOURSCALE_D void add_shfl_up(u32& x, u32 y, unsigned distance) {
  asm volatile("{ .reg .pred p; .reg .u32 t; shfl.sync.up.b32 t|p, %1, %2, %3, -1; @p add.u32 %0, %0, t; }"
               : "+r"(x)
               : "r"(y), "r"(distance), "n"(detail::shfl_segment<Lanes>));
}
/// The same with the minimum of two whole numbers in place of the sum.
template <unsigned Lanes>
FOURSCALE_D void min_shfl_up(int& x, int y, unsigned distance) {
  asm volatile("{ .reg .pred p; .reg .s32 t; shfl.sync.up.b32 t|p, %1, %2, %3, -1; @p min.s32 %0, %0, t; }"
               : "+r"(x)
               : "r"(y), "r"(distance), "n"(detail::shfl_segment<Lanes>));
}

}  // namespace FOURSCALE_NAMESPACE::ptx
