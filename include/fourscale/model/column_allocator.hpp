// SPDX-License-Identifier: Apache-2.0
// The allocator of tensor memory of one CTA: tcgen05.alloc, dealloc and relinquish_alloc_permit. PTX ISA
// 9.7.16.7.
#pragma once

#include "misuse.hpp"

namespace FOURSCALE_NAMESPACE::model {

/// The columns that a CTA has allocated, in units of 32. All zero at the start of a kernel.
struct column_allocator {
  static constexpr u32 unit = 32, units = 16;
  u8 owner[units] = {};  ///< 0: free; else 1 + the first unit of the allocation
  u32 previous = 0;      ///< columns of the last allocation
  bool relinquished = false;

  /// True if all columns [first, first + columns) are allocated, by one allocation or several.
  FOURSCALE_HD constexpr bool holds(u32 first, u32 columns) const {
    if (columns == 0 || first >= unit * units || columns > unit * units - first) return false;
    for (u32 u = first / unit; u <= (first + columns - 1) / unit; ++u)
      if (owner[u] == 0) return false;
    return true;
  }
  FOURSCALE_HD constexpr bool empty() const {
    for (u8 o : owner)
      if (o != 0) return false;
    return true;
  }

  /// Allocates the first free run that begins at a multiple of its own length. Where hardware would block,
  /// the result is out_of_columns.
  FOURSCALE_HD constexpr misuse alloc(u32 columns, u32& first) {
    if (columns < unit || columns > unit * units || (columns & (columns - 1)) != 0)
      return misuse::bad_column_count;
    if (relinquished) return misuse::alloc_after_relinquish;
    if (previous != 0 && columns > previous) return misuse::growing_allocation;
    const u32 length = columns / unit;
    for (u32 u = 0; u < units; u += length) {
      if (!is_free(u, length)) continue;
      for (u32 i = 0; i < length; ++i) owner[u + i] = static_cast<u8>(u + 1);
      previous = columns, first = u * unit;
      return misuse::ok;
    }
    return misuse::out_of_columns;
  }

  /// True if [first, first + columns) is exactly one allocation.
  FOURSCALE_HD constexpr bool is_allocation(u32 first, u32 columns) const {
    if (first % unit != 0 || columns % unit != 0 || !holds(first, columns)) return false;
    const u32 u = first / unit, length = columns / unit;
    for (u32 i = 0; i < length; ++i)
      if (owner[u + i] != u + 1) return false;
    return u + length >= units || owner[u + length] != u + 1;
  }
  FOURSCALE_HD constexpr void release(u32 first, u32 columns) {
    for (u32 u = first / unit; u < (first + columns) / unit; ++u) owner[u] = 0;
  }

 private:
  FOURSCALE_HD constexpr bool is_free(u32 first, u32 length) const {
    for (u32 i = 0; i < length; ++i)
      if (owner[first + i] != 0) return false;
    return true;
  }
};

}  // namespace FOURSCALE_NAMESPACE::model
