// SPDX-License-Identifier: Apache-2.0
// Descriptors in words, for error messages and for people. describe() says what a descriptor asks for and, if
// it breaks a rule, which one. The text is built in place, without allocation.
#pragma once

#include "smem_descriptor.hpp"
#include "tma_box.hpp"
#include "tmem_address.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

/// One line of text. It is cut at 511 characters.
struct descriptor_text {
  char text[512] = {};
  int length = 0;

  FOURSCALE_HD constexpr char const* c_str() const { return text; }

  FOURSCALE_HD constexpr descriptor_text& add(char const* s) {
    while (*s != '\0' && length + 1 < static_cast<int>(sizeof text)) text[length++] = *s++;
    return *this;
  }
  FOURSCALE_HD constexpr descriptor_text& add(int number) {
    const u32 bits = static_cast<u32>(number);
    return number < 0 ? add("-").digits(0u - bits, 10, 1) : digits(bits, 10, 1);
  }
  FOURSCALE_HD constexpr descriptor_text& add_hex(u32 number) { return add("0x").digits(number, 16, 1); }
  FOURSCALE_HD constexpr descriptor_text& add_refusal(char const* sentence) {
    return sentence == nullptr ? *this : add(". Impossible: ").add(sentence);
  }

 private:
  FOURSCALE_HD constexpr descriptor_text& digits(u32 number, u32 base, int least) {
    char reversed[12] = {};
    int count = 0;
    for (; number != 0 || count < least; number /= base)
      reversed[count++] = "0123456789abcdef"[number % base];
    while (count > 0) {
      const char one[2] = {reversed[--count], '\0'};
      add(one);
    }
    return *this;
  }
};

FOURSCALE_HD constexpr char const* name(mma_kind k) {
  return k == mma_kind::mxf8f6f4 ? "mxf8f6f4" : k == mma_kind::mxf4 ? "mxf4" : "mxf4nvf4";
}
FOURSCALE_HD constexpr char const* name(scale_type s) { return s == scale_type::ue4m3 ? "UE4M3" : "UE8M0"; }
FOURSCALE_HD constexpr char const* name(element_type t) {
  switch (t) {
    case element_type::e4m3:
      return "E4M3";
    case element_type::e5m2:
      return "E5M2";
    case element_type::e2m3:
      return "E2M3";
    case element_type::e3m2:
      return "E3M2";
    case element_type::e2m1:
      return "E2M1";
  }
  return "an unknown type";
}
FOURSCALE_HD constexpr char const* name(swizzle s) {
  switch (s) {
    case swizzle::none:
      return "no swizzle";
    case swizzle::b128_atom_32b:
      return "128B swizzle of 32B atoms";
    case swizzle::b128:
      return "128B swizzle";
    case swizzle::b64:
      return "64B swizzle";
    case swizzle::b32:
      return "32B swizzle";
  }
  return "an unknown swizzle";
}

namespace detail {
FOURSCALE_HD constexpr void add_operand(descriptor_text& d, char const* letter, element_type t, bool negate,
                                        bool mn_major) {
  d.add(letter).add(negate ? "-" : "").add(name(t)).add(mn_major ? " MN-major" : " K-major");
}
}  // namespace detail

/// "kind::mxf4nvf4, cta_group::1, M 128, N 128, K 64, A E2M1 K-major, B E2M1 K-major, UE4M3 scales per 16,
/// ids 0 and 0".
FOURSCALE_HD constexpr descriptor_text describe(block_scaled_mma const& s) {
  descriptor_text d;
  d.add("kind::").add(name(s.kind)).add(", cta_group::").add(s.cta_group).add(", M ").add(s.m);
  d.add(", N ").add(s.n).add(", K ").add(s.k);
  detail::add_operand(d, ", A ", s.a, s.negate_a, s.mn_major_a);
  detail::add_operand(d, ", B ", s.b, s.negate_b, s.mn_major_b);
  d.add(", ").add(name(s.scale)).add(" scales per ").add(s.block_size);
  return d.add(", ids ").add(s.sfa_id).add(" and ").add(s.sfb_id);
}

FOURSCALE_HD constexpr descriptor_text describe(parsed_instruction_descriptor const& p) {
  return describe(p.mma).add_refusal(p.refusal);
}

/// "at 0x400, 128B swizzle, next eight rows at +1024, leading offset 16".
FOURSCALE_HD constexpr descriptor_text describe(parsed_smem_descriptor const& p) {
  descriptor_text d;
  d.add("at ").add_hex(p.fields.start_address).add(", ").add(name(p.fields.pattern));
  d.add(", next eight rows at +").add(static_cast<int>(p.fields.stride_byte_offset));
  if (p.fields.absolute_leading)
    d.add(", leading address ").add_hex(p.fields.leading_byte_offset);
  else
    d.add(", leading offset ").add(static_cast<int>(p.fields.leading_byte_offset));
  if (p.fields.base_offset != 0) d.add(", base offset ").add(static_cast<int>(p.fields.base_offset));
  return d.add_refusal(p.refusal);
}

/// "lane 32, column 256".
FOURSCALE_HD constexpr descriptor_text describe(tmem_location at) {
  descriptor_text d;
  return d.add("lane ").add(at.lane).add(", column ").add(at.column).add_refusal(refusal(at));
}

/// "128 rows x 256 packed 4-bit elements, 128B swizzle, 16384 bytes".
FOURSCALE_HD constexpr descriptor_text describe(tma_box const& b) {
  descriptor_text d;
  d.add(b.box_rows).add(" rows x ").add(b.box_k);
  d.add(b.type == tma_type::bytes        ? " bytes, "
        : b.type == tma_type::u4_align8b ? " packed 4-bit elements, "
                                         : " padded 4-bit elements, ");
  d.add(name(b.pattern));
  if (char const* wrong = refusal(b)) return d.add_refusal(wrong);  // no size: it may be meaningless
  return d.add(", ").add(b.size_bytes()).add(" bytes");
}

}  // namespace FOURSCALE_NAMESPACE::ptx
