// SPDX-License-Identifier: Apache-2.0
// The rules of cuTensorMapEncodeTiled for a tensor map over a row-major matrix of 4-bit or 8-bit codes
// (cuda.h; PTX ISA 9.7.9.27.1). They are checked before the driver is called, which answers every violation
// with CUDA_ERROR_INVALID_VALUE; refusal() names the broken rule. Dimensions and boxes count elements,
// strides count bytes. Nothing here needs cuda.h.
#pragma once

#include "smem_descriptor.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

/// Values of CUtensorMapDataType. u4_align8b keeps codes packed in shared memory, for kind::mxf4 and
/// kind::mxf4nvf4. u4_align16b writes 8 bytes of padding after each 16 elements, for kind::mxf8f6f4; it
/// cannot store. sm_120 and sm_121 load neither: there, describe packed codes as bytes with half the extent.
enum class tma_type : u8 { bytes = 0, u4_align8b = 13, u4_align16b = 14 };

/// The value of CUtensorMapSwizzle. It differs from the value in the shared-memory descriptor.
FOURSCALE_HD constexpr int tma_swizzle(swizzle s) {
  return s == swizzle::none ? 0 : s == swizzle::b32 ? 1 : s == swizzle::b64 ? 2 : s == swizzle::b128 ? 3 : 4;
}

/// The box of one copy: box_k elements of each of box_rows rows.
struct tma_box {
  tma_type type = tma_type::u4_align8b;
  int box_k = 256;
  int box_rows = 128;
  swizzle pattern = swizzle::b128;

  /// Bytes of a row in shared memory, padding included.
  FOURSCALE_HD constexpr int inner_bytes() const { return type == tma_type::u4_align8b ? box_k / 2 : box_k; }
  /// The bytes that the mbarrier has to expect.
  FOURSCALE_HD constexpr int size_bytes() const { return inner_bytes() * box_rows; }
};

#define FOURSCALE_DETAIL_BOX_RULES(RULE, b)                                                                 \
  RULE((b).box_k > 0 && (b).box_rows > 0 && (b).box_k <= 256 && (b).box_rows <= 256,                        \
       "A TMA box has 1 to 256 elements along each dimension.")                                             \
  RULE((b).type != tma_type::u4_align16b || (b).box_k == 128,                                               \
       "A TMA box of padded 4-bit elements (16U4_ALIGN16B) has exactly 128 of them along K.")               \
  RULE((b).type != tma_type::u4_align16b || (b).pattern == swizzle::none || (b).pattern == swizzle::b128 || \
           (b).pattern == swizzle::b128_atom_32b,                                                           \
       "Padded 4-bit elements (16U4_ALIGN16B) come without a swizzle or with a 128-byte one.")              \
  RULE((b).box_k % 2 == 0 && (b).inner_bytes() % 16 == 0,                                                   \
       "The inner extent of a TMA box is a multiple of 16 bytes: 32 packed 4-bit elements.")                \
  RULE((b).pattern == swizzle::none || (b).inner_bytes() <= span_bytes((b).pattern),                        \
       "The inner extent of a TMA box fits in the swizzle span: 32, 64 or 128 bytes.")

FOURSCALE_HD constexpr char const* refusal(tma_box const& b) {
#define FOURSCALE_DETAIL_RULE(holds, sentence) \
  if (!(holds)) return sentence;
  FOURSCALE_DETAIL_BOX_RULES(FOURSCALE_DETAIL_RULE, b)
#undef FOURSCALE_DETAIL_RULE
  return nullptr;
}

/// The box itself, checked at compile time.
template <tma_box Box>
FOURSCALE_HD constexpr tma_box checked_box() {
#define FOURSCALE_DETAIL_RULE(holds, sentence) static_assert(holds, sentence);
  FOURSCALE_DETAIL_BOX_RULES(FOURSCALE_DETAIL_RULE, Box)
#undef FOURSCALE_DETAIL_RULE
  return Box;
}
#undef FOURSCALE_DETAIL_BOX_RULES

/// The box that fills one column (one swizzle span of K) of a tile. row_bytes() / span_bytes() boxes fill the
/// tile.
FOURSCALE_HD constexpr tma_box box_of(k_major_tile const& t, tma_type type) {
  const int span = span_bytes(t.pattern);
  return {type, type == tma_type::u4_align8b ? 2 * span : span, t.rows, t.pattern};
}

/// The matrix in global memory: `rows` rows of `k` elements, `stride` bytes apart.
struct tma_matrix {
  u64 address = 0;
  u64 k = 0;
  u64 rows = 0;
  u64 stride = 0;
};

FOURSCALE_HD constexpr char const* refusal(tma_matrix const& m, tma_type type) {
  const u64 unit = type == tma_type::u4_align16b ? 32 : 16;
  const u64 bits = type == tma_type::bytes ? 8 : 4;
  if (m.address % unit != 0)
    return unit == 16 ? "A matrix that TMA reads starts on a multiple of 16 bytes."
                      : "A matrix of padded 4-bit elements starts on a multiple of 32 bytes.";
  if (m.k == 0 || m.rows == 0 || m.k > u64{1} << 32 || m.rows > u64{1} << 32)
    return "A dimension of a matrix that TMA reads is 1 to 2^32.";
  if (type == tma_type::u4_align8b && m.k % 2 != 0)
    return "A row of 4-bit elements has an even number of them.";
  if (type == tma_type::u4_align16b && m.k % 128 != 0)
    return "A row of padded 4-bit elements has a multiple of 128 of them.";
  if (m.stride % unit != 0 || m.stride >= u64{1} << 40)
    return unit == 16 ? "Rows that TMA reads are a multiple of 16 bytes apart, less than 2^40."
                      : "Rows of padded 4-bit elements are a multiple of 32 bytes apart, less than 2^40.";
  if (m.stride < m.k * bits / 8) return "The stride is shorter than a row.";
  return nullptr;
}

/// A tensor of three dimensions: the elements along each, the bytes from one row to the next and from one
/// layer to the next, and a box. The swizzle is that of 128 bytes, or none.
struct tma_tensor {
  u64 extent[3], stride[2];
  u32 box[3];
  bool swizzled;
};

/// Why TMA cannot read a tensor that starts at `address`; null if it can. The box, a constant of the caller,
/// is not checked.
FOURSCALE_HD constexpr char const* refusal(tma_tensor const& t, u64 address) {
  if (address % 16 != 0) return "A tensor that TMA reads starts on a multiple of 16 bytes.";
  for (const u64 x : t.extent)
    if (x == 0 || x > u64{1} << 32) return "A dimension of a tensor that TMA reads is 1 to 2^32.";
  for (const u64 x : t.stride)
    if (x % 16 != 0 || x >= u64{1} << 40)
      return "Rows and layers that TMA reads are a multiple of 16 bytes apart, less than 2^40.";
  return nullptr;
}

/// True if a copy may start at element `k` of a row. Padded elements move in groups of 128.
FOURSCALE_HD constexpr bool can_start_at(tma_type type, i64 k) {
  return type != tma_type::u4_align16b || k % 128 == 0;
}

}  // namespace FOURSCALE_NAMESPACE::ptx
