// SPDX-License-Identifier: Apache-2.0
// Certificates of all steps of a GEMM by wgmma: which sums of 64 products are exact in f32 for 16 rows (a
// strip) by eight columns. Two kernels before the GEMM make them, from the magnitudes of eight rows
// (device/gemm_certify.cuh) and from the products of each row (device/gemm_certify_products.cuh); the role
// `certify` reads them (wgmma_certify.cuh).
#pragma once

#include "decoded_operand.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

/// Which of eight groups of columns is column n of the mma.sync that certifies them: a lane's columns 2 t and
/// 2 t + 1 are the groups t and t + 4.
FOURSCALE_HD constexpr u32 group_of_column(u32 n) { return n % 2 * 4 + n / 2; }

/// A bit in device memory for each strip, group of eight columns and step: 1 if all its sums are exact. A
/// word has the bits of four times eight groups, in the order in which lanes find them: byte t has, from its
/// highest bit down, the groups t and t + 4 of the first eight, then those of the other three.
struct certified_strips {
  static constexpr u32 strips_of_tile = 8, eights_of_word = 4;
  u32* words = nullptr;      ///< [step][word of columns][strip]; null: strips are not certified ahead
  u32 strips = 0;            ///< strips of 16 rows, rounded up to whole tiles
  u32 words_of_strip = 0;    ///< in a step
  u32 least_open = 1;        ///< strips are certified if widths leave so many sampled steps open: way_of()
  bool by_products = false;  ///< whether both kernels certify, or only the one that knows magnitudes

  FOURSCALE_H static certified_strips in(u8* at, i64 rows, i64 cols) {
    certified_strips x;
    x.words = reinterpret_cast<u32*>(at);
    x.strips = static_cast<u32>(ceil_div<i64>(rows, 16 * strips_of_tile)) * strips_of_tile;
    x.words_of_strip = static_cast<u32>(ceil_div<i64>(cols, 64 * eights_of_word));
    return x;
  }
  FOURSCALE_HD constexpr i64 bytes(i64 steps) const {
    return round_up<i64>(steps * words_of_strip * strips * 4, decoded_operand::alignment);
  }
  FOURSCALE_HD constexpr u64 word_at(u32 step, u32 word, u32 strip) const {
    return (u64{step} * words_of_strip + word) * strips + strip;
  }

  /// Which of a word's groups of columns a bit is.
  FOURSCALE_HD static constexpr u32 group_of_bit(u32 bit) {
    const u32 of_byte = 7 - bit % 8;
    return of_byte / 2 * 8 + of_byte % 2 * 4 + bit / 8;
  }
  /// The bits of `Eights` times eight groups of columns from 8 * `eight` on, in the order of the groups.
  /// Those behind the last word are 1.
  template <u32 Eights>
  FOURSCALE_D u32 of(u32 step, u32 strip, u32 eight) const {
    static_assert(Eights <= eights_of_word);
    const u32 word = eight / eights_of_word, first = eight % eights_of_word;
    u32 const* const from = words + word_at(step, word, strip);
    const bool two = first + Eights > eights_of_word && word + 1 < words_of_strip;
    const u32 here = __ldcg(from), behind = two ? __ldcg(from + strips) : ~0u;
    u32 bits = 0;
    FOURSCALE_UNROLL
    for (u32 i = 0; i < Eights; ++i) {
      const u32 at = first + i, x = at < eights_of_word ? here : behind,
                shift = 6 - 2 * (at % eights_of_word);
      bits |= (bit_of_bytes(x >> (shift + 1)) | bit_of_bytes(x >> shift) << 4) << (8 * i);
    }
    return bits;
  }
  /// Whether all these bits are set in a step for all eight strips of the tile of 128 rows that has `strip`.
  template <u32 Eights>
  FOURSCALE_D bool all_of_tile(u32 step, u32 strip, u32 eight) const {
    static_assert(Eights <= eights_of_word && strips_of_tile == 8);
    const u32 word = eight / eights_of_word, first = eight % eights_of_word;
    const u32 of_tile = strip / strips_of_tile * strips_of_tile;
    // Bits 15:8 are asked of each byte of the word, bits 7:0 of each byte of the next word.
    const u32 asked = ((1u << 2 * Eights) - 1) << (16 - 2 * (first + Eights));
    const auto missing = [&](u32 number, u32 bits) {
      auto const* const from = reinterpret_cast<uint4 const*>(words + word_at(step, number, of_tile));
      const uint4 x = __ldcg(from), y = __ldcg(from + 1);
      return ~(x.x & x.y & x.z & x.w & y.x & y.y & y.z & y.w) & bits * 0x0101'0101u;
    };
    const u32 behind = asked & 0xff;
    u32 lacks = missing(word, asked >> 8);
    if (behind != 0 && word + 1 < words_of_strip) lacks |= missing(word + 1, behind);
    return lacks == 0;
  }

 private:
  /// Bit 0 of each of the four bytes of x, gathered in bits 0 to 3.
  FOURSCALE_HD static constexpr u32 bit_of_bytes(u32 x) { return (x & 0x0101'0101u) * 0x0102'0408u >> 24; }
};

/// Whether strips are certified ahead: where a few widths in a thousand leave a step open, and the GEMM is
/// large, a kernel of its own costs less than what certifying warps would take from those that multiply.
/// By products, too, if it is larger still: that kernel costs some 3 us even where it has nothing to do. As
/// measured: docs/gemm_experiments.md.
constexpr bool certifies_ahead(i64 rows, i64 cols, i64 steps, bool by_products = false) {
  const i64 least = i64{1} << (by_products ? 32 : 30);  // 4096^3, and 8192 x 8192 x 4096
  return steps < fourscale::model::most_steps && rows * cols >= ceil_div<i64>(least, steps);
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
