// SPDX-License-Identifier: Apache-2.0
// Grouped matrices: many matrices of one width, whose rows lie one after the other in one packed matrix.
// Grouped GEMMs take the tokens of the experts of an MoE layer this way.
#pragma once

#include "validate.hpp"

namespace FOURSCALE_NAMESPACE {

/// Group g has the rows from offsets[g] up to offsets[g + 1] of a packed matrix. There are count + 1 offsets,
/// of 64 or of 32 bits; they begin with 0, never fall, and end at most with the number of rows. A group may
/// be empty. Rows behind the last group belong to none and are left alone. Host functions check the offsets.
/// For device functions the offsets are in device memory, so that neither the router's result nor a sum over
/// it has to reach the host. Nobody checks them there: wrong offsets read and write out of bounds.
struct row_groups {
  i64 const* offsets = nullptr;
  i64 count = 0;
  i32 const* offsets32 = nullptr;  ///< used in place of `offsets` if not null: as engines keep them

  FOURSCALE_HD constexpr row_groups() {}
  FOURSCALE_HD constexpr row_groups(i64 const* o, i64 n) : offsets(o), count(n) {}
  FOURSCALE_HD constexpr row_groups(i32 const* o, i64 n) : count(n), offsets32(o) {}
  FOURSCALE_HD constexpr row_groups(decltype(nullptr), i64 n) : count(n) {}  // validate() refuses it

  /// Offset i, of whichever type.
  FOURSCALE_HD constexpr i64 offset(i64 i) const { return offsets32 != nullptr ? offsets32[i] : offsets[i]; }
};

/// The most bytes that the scales of `groups` groups with `rows` rows in total can take. Each group is padded
/// on its own: group g begins after the padded_rows() of all groups before it, without gaps.
template <block_format F, scale_layout Layout = linear>
FOURSCALE_HD constexpr i64 grouped_scale_bytes(i64 rows, i64 cols, i64 groups) {
  const i64 tile = Layout::padded_rows(1);
  return scale_bytes<F, Layout>((rows + groups * (tile - 1)) / tile * tile, cols);
}

/// A view of group `index` of a packed matrix: `rows` rows from row `first` on. Its scales begin `scale_rows`
/// rows after q.scales, where scale_rows is the sum of padded_rows() over the groups before it. If each group
/// has its own amax, the view has this group's.
template <class F, class Layout, class Byte>
FOURSCALE_HD constexpr block_scaled_view<F, Layout, Byte> group_of(
    block_scaled_view<F, Layout, Byte> const& q, i64 index, i64 first, i64 rows, i64 scale_rows) {
  block_scaled_view<F, Layout, Byte> group = q;
  group.codes += first * q.blocks() * block_code_bytes<F>;
  group.scales += scale_rows * Layout::padded_blocks(q.blocks()) * block_scale_bytes<F>;
  group.rows = rows;
  group.code_capacity = group.scale_capacity = -1;
  if constexpr (F::has_tensor_scale) {  // without a tensor scale, data may be null
    if (q.amax.kind == amax_kind::per_row) group.amax.data += first;
    if (q.amax.kind == amax_kind::per_group) {
      group.amax.kind = amax_kind::one;
      group.amax.data += index;
    }
  }
  return group;
}

/// Checks the groups alone. The offsets are not read: they may be in device memory.
FOURSCALE_H inline errc validate(row_groups const& groups) {
  if (groups.offsets == nullptr && groups.offsets32 == nullptr) return errc::null_pointer;
  if (groups.count < 1) return errc::empty_matrix;
  if (groups.count >= detail::dimension_limit) return errc::too_large;
  return reinterpret_cast<u64>(groups.offsets) % alignof(i64) != 0 ||
                 reinterpret_cast<u64>(groups.offsets32) % alignof(i32) != 0
             ? errc::misaligned
             : errc::ok;
}

/// Checks the offsets themselves for a packed matrix of `rows` rows. It reads them.
FOURSCALE_H inline errc validate_offsets(row_groups const& groups, i64 rows) {
  i64 last = 0;
  for (i64 i = 0; i <= groups.count; ++i) {
    const i64 next = groups.offset(i);
    if (next < last || (i == 0 && next != 0)) return errc::bad_offsets;
    last = next;
  }
  return last <= rows ? errc::ok : errc::bad_offsets;
}

/// Checks packed groups, their quantized form, whose scales need grouped_scale_bytes(), and the quantizer.
template <class T, class F, class Layout, class Quantizer>
FOURSCALE_H errc validate_grouped(matrix_view<T> const& x, block_scaled_view<F, Layout, u8> const& q,
                                  row_groups const& groups, Quantizer const& quantizer) {
  if (F::has_tensor_scale && !detail::names_amax(q.amax)) return errc::no_amax;
  block_scaled_view<F, Layout, u8> all = q;
  if (q.amax.kind == amax_kind::per_group) all.amax.kind = amax_kind::one;  // checks the first amax only
  if (const errc e = validate(x, all, blocks_1d{}, quantizer); e != errc::ok) return e;
  if (const errc e = validate(groups); e != errc::ok) return e;
  const i64 bytes = grouped_scale_bytes<F, Layout>(q.rows, q.cols, groups.count);
  if (q.scale_capacity >= 0 && q.scale_capacity < bytes) return errc::buffer_too_small;
  const detail::byte_range scales = detail::bytes_of(q.scales, bytes),
                           codes = detail::bytes_of(q.codes, code_bytes<F>(q.rows, q.cols));
  if (detail::overlaps(x, scales) || detail::overlap(codes, scales)) return errc::overlap;
  if (!F::has_tensor_scale || q.amax.kind != amax_kind::per_group) return errc::ok;
  const detail::byte_range amaxes = detail::bytes_of(q.amax.data, groups.count);
  return detail::overlap(amaxes, scales) || detail::overlap(amaxes, codes) ? errc::overlap : errc::ok;
}

}  // namespace FOURSCALE_NAMESPACE
