// SPDX-License-Identifier: Apache-2.0
// A binary32 as the stored scale of a block: what FP8 recipes with 128-element blocks use.
#pragma once

#include "traits.hpp"

namespace FOURSCALE_NAMESPACE {

/// The bits of a float. A scale only, never an element.
struct f32 {
  u32 bits;

  static constexpr char const* name = "f32";

  friend FOURSCALE_H constexpr bool operator==(f32, f32) = default;
};

/// The value, as it is.
FOURSCALE_HD constexpr float decode(f32 scale) { return bit_cast<float>(scale.bits); }

}  // namespace FOURSCALE_NAMESPACE
