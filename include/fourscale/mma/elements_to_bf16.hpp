// SPDX-License-Identifier: Apache-2.0
// Converts elements of 4, 6 or 8 bits to bf16, which holds them exactly, by shifts and one multiplication:
// for GEMMs that multiply them under their scales, and for dequantization. Elements become bytes first, bytes
// become bf16 without the right exponent, and a power of two corrects that.
#pragma once

#include "../formats/packed.hpp"
#include "../ptx/arith.hpp"

namespace FOURSCALE_NAMESPACE::mma {

/// Converts four bytes of bytes_of_four() to two registers of two bf16 each, in order, each 2^(127 - E::bias)
/// times too small. Infinity and NaN become finite: see with_specials().
template <element_format E>
FOURSCALE_HD constexpr void bytes_to_bf16(u32 bytes, u32 (&r)[2]) {
  // A byte has seven bits of magnitude; in bf16 an exponent begins at bit 7.
  constexpr u32 behind_point = E::mantissa_bits + 8 - E::width, shift = 8 - (7 - behind_point);
  FOURSCALE_UNROLL
  for (u32 i = 0; i < 2; ++i) {
    const u32 upper = ptx::prmt_b32(bytes, 0, i == 0 ? 0x1404u : 0x3424u);  // upper bytes of both halves
    r[i] = (upper & 0x8000'8000u) | (upper & 0x7f00'7f00u) >> shift;
  }
}
/// 2^(127 - E::bias) as bf16, in both halves of a word. That of E1M2 is beyond bf16.
template <element_format E>
requires(E::bias >= 0) inline constexpr u32 factor_of_bytes = static_cast<u32>(127 + 127 - E::bias) << 7 |
                                                              static_cast<u32>(127 + 127 - E::bias) << 23;

/// Whether one of four bytes is infinity or NaN.
template <element_format E>
FOURSCALE_HD constexpr bool have_specials(u32 bytes) {
  if constexpr (!E::has_nan) return false;
  constexpr u32 least = E::max_bits + 1u;  // of their magnitudes; adding 0x80 - least carries into bit 7
  return (((bytes & 0x7f7f'7f7fu) + (0x80u - least) * 0x0101'0101u) & 0x8080'8080u) != 0;
}
/// Puts the infinities and NaNs of the bytes in their places among the numbers of bytes_to_bf16().
template <element_format E>
FOURSCALE_HD constexpr void with_specials(u32 bytes, u32 (&r)[2]) {
  FOURSCALE_UNROLL
  for (u32 i = 0; i < 4; ++i) {
    const u32 magnitude = bytes >> (8 * i) & 0x7fu, at = 16 * (i % 2);
    if (magnitude <= E::max_bits) continue;
    const bool infinite = E::has_infinity && magnitude == E::max_bits + 1u;
    r[i / 2] = (r[i / 2] & ~(0x7fffu << at)) | (infinite ? 0x7f80u : 0x7fffu) << at;
  }
}

#if FOURSCALE_CUDA
/// Converts four elements, packed in the low bits of x, to two registers of two bf16 each, in order, exactly.
template <element_format E>
FOURSCALE_D void four_to_bf16(u32 x, u32 (&r)[2]) {
  const u32 bytes = bytes_of_four<E>(x);
  bytes_to_bf16<E>(bytes, r);
  if (have_specials<E>(bytes)) [[unlikely]]
    with_specials<E>(bytes, r);
  FOURSCALE_UNROLL
  for (u32& two : r) two = ptx::mul_rn_bf16x2(two, factor_of_bytes<E>);
}
#endif

}  // namespace FOURSCALE_NAMESPACE::mma
