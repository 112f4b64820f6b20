// SPDX-License-Identifier: Apache-2.0
// no_scale: the block scale of formats that have only a tensor scale. Nothing is stored, and it counts as 1.
#pragma once

#include "traits.hpp"

namespace FOURSCALE_NAMESPACE {

/// Takes no bytes in memory.
struct no_scale {
  u8 bits;

  static constexpr char const* name = "none";

  friend FOURSCALE_H constexpr bool operator==(no_scale, no_scale) = default;
};

/// Always 1.
FOURSCALE_HD constexpr float decode(no_scale) { return 1.0f; }

}  // namespace FOURSCALE_NAMESPACE
