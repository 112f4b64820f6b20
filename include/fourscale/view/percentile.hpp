// SPDX-License-Identifier: Apache-2.0
// The percentile amax: which magnitude it is, and how the search for it is split into two passes. Shared by
// host and device.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE {

/// The scratch memory of the search. A percentile amax is the smallest magnitude of the matrix that at least
/// `share` of the elements do not exceed; elements beyond it saturate. So a few outliers cannot enlarge the
/// scales of all other values. Magnitudes are ordered by their bits: the first pass counts their upper 16
/// bits, the second the lower 15 of those whose upper bits match.
struct percentile_workspace {
  static constexpr i64 bins = 65536;
  u64 counts[bins];
  u64 upper;  ///< upper bits of the magnitude looked for
  u64 rank;   ///< its rank among the magnitudes with these upper bits, from 1
};

namespace detail {

/// The bin of a magnitude in pass 0 or 1; -1 if pass 1 must not count it.
FOURSCALE_HD constexpr i64 percentile_bin(int pass, i32 magnitude, u64 upper) {
  if (pass == 0) return magnitude >> 15;
  return static_cast<u64>(magnitude >> 15) == upper ? magnitude & 0x7fff : -1;
}

/// The rank, from 1, of the magnitude that `share` of `count` elements do not exceed.
FOURSCALE_HD constexpr u64 percentile_rank(double share, i64 count) {
  const double wanted = share * static_cast<double>(count);
  if (!(wanted > 1.0)) return 1;
  if (wanted >= static_cast<double>(count)) return static_cast<u64>(count);
  const u64 whole = static_cast<u64>(wanted);
  return static_cast<double>(whole) < wanted ? whole + 1 : whole;
}

}  // namespace detail
}  // namespace FOURSCALE_NAMESPACE
