// SPDX-License-Identifier: Apache-2.0
// Which magnitude a percentile amax is, and how the search for it is split in two, for host and device.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE {

/// A percentile amax keeps a freak value from dragging the scales of all the others down: it is the smallest
/// magnitude of the matrix that at least `share` of the elements do not exceed. Elements beyond it saturate.
/// Magnitudes are ordered by their bits: first the upper 16 decide, then the lower 15.
struct percentile_workspace {
  static constexpr i64 bins = 65536;
  u64 counts[bins];
  u64 upper;  ///< upper bits of the magnitude looked for
  u64 rank;   ///< its rank among those with the same upper bits, from 1
};

namespace detail {

/// The bin of a magnitude in pass 0 or 1, or -1 if it does not count.
FOURSCALE_HD constexpr i64 percentile_bin(int pass, i32 magnitude, u64 upper) {
  if (pass == 0) return magnitude >> 15;
  return static_cast<u64>(magnitude >> 15) == upper ? magnitude & 0x7fff : -1;
}

/// The rank that `share` of `count` elements means, from 1.
FOURSCALE_HD constexpr u64 percentile_rank(double share, i64 count) {
  const double wanted = share * static_cast<double>(count);
  if (!(wanted > 1.0)) return 1;
  if (wanted >= static_cast<double>(count)) return static_cast<u64>(count);
  const u64 whole = static_cast<u64>(wanted);
  return static_cast<double>(whole) < wanted ? whole + 1 : whole;
}

}  // namespace detail
}  // namespace FOURSCALE_NAMESPACE
