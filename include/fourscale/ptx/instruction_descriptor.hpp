// SPDX-License-Identifier: Apache-2.0
// The instruction descriptor of tcgen05.mma for the block-scaled kinds: a 32-bit word with shape and types
// (PTX ISA 9.7.16.4, tables 43 and 44). The instruction's name says the rest: kind, cta_group and block size.
// `block_scaled_mma` holds both, so that the rules between them can be checked.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

enum class mma_kind : u8 { mxf8f6f4, mxf4, mxf4nvf4 };

/// The values are those of the descriptor of kind::mxf8f6f4. In the other two kinds E2M1 has code 1.
enum class element_type : u8 { e4m3 = 0, e5m2 = 1, e2m3 = 3, e3m2 = 4, e2m1 = 5 };

enum class scale_type : u8 { ue4m3 = 0, ue8m0 = 1 };

/// One instruction: D[m][n] (+)= A[m][k] * B[n][k], where each factor is multiplied by its block scale. The
/// default is NVFP4.
///
/// K is 32 bytes of an operand; on sm_103a the 4-bit kinds also take K = 96. For K = 96, PTX (table 39) lists
/// only M = 256 with cta_group::2. CUTLASS ships M = 128 as well, on one CTA and on two, so both are allowed
/// here. This project has run no instruction with K = 96.
struct block_scaled_mma {
  mma_kind kind = mma_kind::mxf4nvf4;
  int cta_group = 1;
  int m = 128;
  int n = 128;
  int k = 64;           ///< elements of one instruction: 32, 64, or 96 as above
  int block_size = 16;  ///< elements along K that share one scale
  scale_type scale = scale_type::ue4m3;
  element_type a = element_type::e2m1;
  element_type b = element_type::e2m1;
  int sfa_id = 0;  ///< first byte of A's scales in their 32-bit column of tensor memory
  int sfb_id = 0;
  bool mn_major_a = false;  ///< "transpose" in the tables
  bool mn_major_b = false;
  bool negate_a = false;
  bool negate_b = false;

  friend FOURSCALE_H constexpr bool operator==(block_scaled_mma const&, block_scaled_mma const&) = default;

  FOURSCALE_HD constexpr bool is_4_bit_kind() const { return kind != mma_kind::mxf8f6f4; }
  FOURSCALE_HD constexpr int scales_per_row() const { return k / block_size; }
};

/// Whether an element has 8 bits of its own. 6- and 4-bit elements do not count, though kind::mxf8f6f4 pads
/// each to a byte in shared memory.
FOURSCALE_HD constexpr bool is_8_bit(element_type t) {
  return t == element_type::e4m3 || t == element_type::e5m2;
}

namespace detail {

FOURSCALE_HD constexpr bool known(element_type t) {
  return is_8_bit(t) || t == element_type::e2m3 || t == element_type::e3m2 || t == element_type::e2m1;
}
FOURSCALE_HD constexpr bool m_exists(block_scaled_mma const& s) {
  return s.m == 128 || (s.m == 256 && s.cta_group == 2);
}
FOURSCALE_HD constexpr bool n_exists(block_scaled_mma const& s) {
  return s.n >= 8 * s.cta_group && s.n <= 256 && s.n % (8 * s.cta_group) == 0;
}
FOURSCALE_HD constexpr bool k_exists(block_scaled_mma const& s) {
  if (!s.is_4_bit_kind()) return s.k == 32;
  return s.k == 64 || s.k == 96;
}
FOURSCALE_HD constexpr bool scales_exist(block_scaled_mma const& s) {
  if (s.kind == mma_kind::mxf4nvf4)
    return s.block_size == 16 || (s.block_size == 32 && s.scale == scale_type::ue8m0);
  return s.block_size == 32 && s.scale == scale_type::ue8m0;
}
FOURSCALE_HD constexpr bool id_exists(block_scaled_mma const& s, int id) {
  if (!s.is_4_bit_kind() || (s.k == 96 && s.block_size == 32)) return id >= 0 && id < 4;
  return id == 0 || (id == 2 && (s.k == 96 || s.block_size == 32));
}

}  // namespace detail

// The rules, listed once for the static_asserts and for refusal(). Keep the order: later rules rely on
// earlier ones.
#define FOURSCALE_DETAIL_MMA_RULES(RULE, s)                                                                  \
  RULE((s).cta_group == 1 || (s).cta_group == 2, "cta_group is 1 (one CTA) or 2 (a pair of CTAs).")          \
  RULE(detail::m_exists(s), "M of a block-scaled tcgen05.mma is 128, or 256 with cta_group::2.")             \
  RULE(detail::n_exists(s),                                                                                  \
       "N of a block-scaled tcgen05.mma is 8, 16, ..., 256, and with cta_group::2 16, 32, ..., 256.")        \
  RULE(detail::k_exists(s),                                                                                  \
       "K of one tcgen05.mma is 32 for kind::mxf8f6f4 and 64 for kind::mxf4 and kind::mxf4nvf4 (or 96, "     \
       "on sm_103a).")                                                                                       \
  RULE(detail::known((s).a) && detail::known((s).b),                                                         \
       "An operand of a block-scaled tcgen05.mma is E4M3, E5M2, E2M3, E3M2 or E2M1.")                        \
  RULE(!(s).is_4_bit_kind() || ((s).a == element_type::e2m1 && (s).b == element_type::e2m1),                 \
       "kind::mxf4 and kind::mxf4nvf4 take E2M1 only; kind::mxf8f6f4 takes every type.")                     \
  RULE((!(s).mn_major_a || is_8_bit((s).a)) && (!(s).mn_major_b || is_8_bit((s).b)),                         \
       "4- and 6-bit operands are K-major only: quantize the transposed matrix instead.")                    \
  RULE(detail::scales_exist(s),                                                                              \
       "Scales are UE8M0 per 32 elements for every kind, and UE4M3 or UE8M0 per 16 for kind::mxf4nvf4.")     \
  RULE(                                                                                                      \
      detail::id_exists(s, (s).sfa_id) && detail::id_exists(s, (s).sfb_id),                                  \
      "A scale id is 0 with blocks of 16, 0 or 2 with blocks of 32 in kind::mxf4 and kind::mxf4nvf4, and 0 " \
      "to 3 in kind::mxf8f6f4 (K = 96: 0 or 2 with blocks of 16, 0 to 3 with blocks of 32).")

/// A sentence that says why no such instruction exists; null if it exists.
FOURSCALE_HD constexpr char const* refusal(block_scaled_mma const& s) {
#define FOURSCALE_DETAIL_RULE(holds, sentence) \
  if (!(holds)) return sentence;
  FOURSCALE_DETAIL_MMA_RULES(FOURSCALE_DETAIL_RULE, s)
#undef FOURSCALE_DETAIL_RULE
  return nullptr;
}

/// The descriptor, unchecked. For a shape that is known only at run time, ask refusal() first.
FOURSCALE_HD constexpr u32 instruction_descriptor(block_scaled_mma const& s) {
  const u32 a = s.is_4_bit_kind() ? 1u : static_cast<u32>(s.a);
  const u32 b = s.is_4_bit_kind() ? 1u : static_cast<u32>(s.b);
  return static_cast<u32>(s.sfb_id) << 4 | a << 7 | b << 10 | static_cast<u32>(s.negate_a) << 13 |
         static_cast<u32>(s.negate_b) << 14 | static_cast<u32>(s.mn_major_a) << 15 |
         static_cast<u32>(s.mn_major_b) << 16 | static_cast<u32>(s.n / 8) << 17 |
         static_cast<u32>(s.scale) << 23 | static_cast<u32>(s.m / 128) << 27 |
         static_cast<u32>(s.sfa_id) << 29 | static_cast<u32>(s.k == 96) << 31;
}

/// The descriptor of a shape that is known at compile time. An impossible shape does not compile.
template <block_scaled_mma S>
FOURSCALE_HD constexpr u32 instruction_descriptor() {
#define FOURSCALE_DETAIL_RULE(holds, sentence) static_assert(holds, sentence);
  FOURSCALE_DETAIL_MMA_RULES(FOURSCALE_DETAIL_RULE, S)
#undef FOURSCALE_DETAIL_RULE
  return instruction_descriptor(S);
}
#undef FOURSCALE_DETAIL_MMA_RULES

/// The same descriptor with other scale ids. From one K step to the next, only these change.
FOURSCALE_HD constexpr u32 with_scale_ids(u32 word, int sfa_id, int sfb_id) {
  return (word & ~(3u << 29 | 3u << 4)) | static_cast<u32>(sfa_id) << 29 | static_cast<u32>(sfb_id) << 4;
}

/// The fields of a descriptor, and a sentence that says what is wrong with it (null: nothing).
struct parsed_instruction_descriptor {
  block_scaled_mma mma;
  char const* refusal;
};

/// Reads a descriptor. kind, cta_group and block_size are those of the instruction that takes it.
FOURSCALE_HD constexpr parsed_instruction_descriptor parse_instruction_descriptor(u32 word, mma_kind kind,
                                                                                  int cta_group,
                                                                                  int block_size) {
  const auto bits = [word](int low, int count) { return word >> low & ((1u << count) - 1); };
  const bool narrow = kind != mma_kind::mxf8f6f4;
  const u32 a = bits(7, 3), b = bits(10, 3);
  block_scaled_mma s;
  s.kind = kind;
  s.cta_group = cta_group;
  s.block_size = block_size;
  s.m = static_cast<int>(128 * bits(27, 2));
  s.n = static_cast<int>(8 * bits(17, 6));
  s.k = !narrow ? 32 : bits(31, 1) != 0 ? 96 : 64;
  s.scale = static_cast<scale_type>(bits(23, 1));
  s.a = narrow ? element_type::e2m1 : static_cast<element_type>(a);
  s.b = narrow ? element_type::e2m1 : static_cast<element_type>(b);
  s.sfa_id = static_cast<int>(bits(29, 2));
  s.sfb_id = static_cast<int>(bits(4, 2));
  s.negate_a = bits(13, 1) != 0;
  s.negate_b = bits(14, 1) != 0;
  s.mn_major_a = bits(15, 1) != 0;
  s.mn_major_b = bits(16, 1) != 0;
  char const* wrong = refusal(s);
  if (bits(2, 1) != 0) wrong = "Bit 2 asks for a sparse A, which fourscale does not build.";
  if (narrow && (a != 1 || b != 1)) wrong = "E2M1 has code 1 in kind::mxf4 and kind::mxf4nvf4.";
  if (bits(0, 2) != 0 || bits(3, 1) != 0 || bits(6, 1) != 0 || bits(24, 3) != 0 ||
      (!narrow && bits(31, 1) != 0))
    wrong = "A reserved bit (0, 1, 3, 6, 24 to 26; 31 in kind::mxf8f6f4) is set.";
  return {s, wrong};
}

}  // namespace FOURSCALE_NAMESPACE::ptx
