// SPDX-License-Identifier: Apache-2.0
// Checks of shared-memory and instruction descriptors of tcgen05 that need the descriptors alone, not the
// state of the kernel. tensor_core (tcgen05.hpp) makes them before it carries out an mma or cp.
#pragma once

#include "misuse.hpp"
#include "tensor_memory.hpp"

namespace FOURSCALE_NAMESPACE::model {

namespace detail {

/// Checks start, base offset and stride of a swizzled tile.
FOURSCALE_HD constexpr misuse check_swizzled(shared_fields const& d, u32 rows, u32 row_bytes) {
  const u32 width = swizzle_width(d.mode()), pattern = 8 * width, in_row = d.start % width;
  const u32 pattern_start = d.start - in_row;
  const bool on_boundary = pattern_start % pattern == 0;
  const u32 expected = on_boundary ? 0 : pattern_start >> 7 & 7u;
  if (pattern_start % 128 != 0 || d.base_offset != expected || in_row + row_bytes > width)
    return misuse::off_swizzle_boundary;
  if (rows > 8 && (d.stride == 0 || d.stride % pattern != 0)) return misuse::wrong_stride;
  return misuse::ok;
}

/// Checks a tile without a swizzle: its core matrices, of 8 rows x 16 bytes = 128 bytes each, must not
/// overlap.
FOURSCALE_HD constexpr misuse check_plain(shared_fields const& d, u32 rows, u32 row_bytes) {
  if (d.base_offset != 0) return misuse::off_swizzle_boundary;
  const u32 groups = (rows + 7) / 8;
  if (groups > 1 && d.stride < 128) return misuse::wrong_stride;
  if (row_bytes == 16) return misuse::ok;
  for (u32 g = 0; g < groups; ++g) {
    const u32 at = g * d.stride, distance = at > d.leading ? at - d.leading : d.leading - at;
    if (distance < 128) return misuse::wrong_stride;
  }
  return misuse::ok;
}

}  // namespace detail

/// Checks the descriptor of a K-major matrix of `rows` rows of 16 or 32 bytes that lies in `memory`.
FOURSCALE_HD constexpr misuse check_shared(shared_fields const& d, u32 rows, u32 row_bytes,
                                           shared_memory const& memory) {
  if (d.constant != 1 || d.zero != 0) return misuse::bad_shared_descriptor;
  if (d.absolute) return misuse::not_modelled;
  const swizzle s = d.mode();
  const bool plain = s == swizzle::none;
  if (!plain && (row_bytes == 16 || (s != swizzle::b128 && s != swizzle::b64 && s != swizzle::b32)))
    return misuse::bad_swizzle;
  const misuse e =
      plain ? detail::check_plain(d, rows, row_bytes) : detail::check_swizzled(d, rows, row_bytes);
  if (e != misuse::ok) return e;
  for (u32 chunk = 0; chunk < (plain ? row_bytes / 16 : 1); ++chunk) {
    const strided_range r = operand_range(d, rows, chunk);
    if (!memory.holds(r.first, r.end() - r.first)) return misuse::shared_out_of_bounds;
  }
  return misuse::ok;
}

/// An mma instruction: its qualifiers and its descriptor.
struct mma_instruction {
  mma_kind kind = mma_kind::mxf4nvf4;
  int block = 16;  ///< .block16 or .block32
  u32 descriptor = 0;
};

/// The types of an instruction, which check_instruction() must have accepted.
FOURSCALE_HD constexpr mma_format format_of(mma_instruction const& i) {
  const instruction_fields f = decode_instruction(i.descriptor, i.kind);
  const bool wide = i.kind == mma_kind::mxf8f6f4;
  return {i.kind,
          i.block,
          f.scale,
          wide ? static_cast<element_type>(f.type_a) : element_type::e2m1,
          wide ? static_cast<element_type>(f.type_b) : element_type::e2m1,
          f.negate_a != f.negate_b};
}
FOURSCALE_HD constexpr mma_shape shape_of(mma_instruction const& i, u32 ctas) {
  const instruction_fields f = decode_instruction(i.descriptor, i.kind);
  return {f.m, f.n, ctas};
}

FOURSCALE_HD constexpr misuse check_instruction(mma_instruction const& i, u32 ctas) {
  const instruction_fields f = decode_instruction(i.descriptor, i.kind);
  const bool wide = i.kind == mma_kind::mxf8f6f4;
  if (f.sparse || f.k96) return misuse::not_modelled;
  if (i.block != 32 && (i.kind != mma_kind::mxf4nvf4 || i.block != 16)) return misuse::wrong_block_size;
  const bool known_a = wide ? f.type_a <= 5 && f.type_a != 2 : f.type_a == 1;
  const bool known_b = wide ? f.type_b <= 5 && f.type_b != 2 : f.type_b == 1;
  if (!known_a || !known_b) return misuse::wrong_element_type;
  if (f.reserved != 0) return misuse::reserved_bits;
  if (f.transpose_a || f.transpose_b) return misuse::mn_major_operand;
  if (!format_of(i).valid()) return misuse::wrong_scale_type;
  const int scales = format_of(i).scales();
  if (!valid_scale_id(scales, f.scale_id_a) || !valid_scale_id(scales, f.scale_id_b))
    return misuse::wrong_scale_id;
  const bool m_fits = f.m == 128 || (f.m == 256 && ctas == 2);
  if (!m_fits || f.n == 0 || f.n > 256 || f.n % (8 * ctas) != 0) return misuse::wrong_shape;
  return misuse::ok;
}

}  // namespace FOURSCALE_NAMESPACE::model
