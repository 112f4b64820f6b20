// SPDX-License-Identifier: Apache-2.0
// f32: a binary32 as the stored scale of a block, as FP8 recipes with 128-element blocks use it.
#pragma once

#include "traits.hpp"

namespace FOURSCALE_NAMESPACE {

/// The bits of a float. A scale only, never an element.
struct f32 {
  u32 bits;

  static constexpr char const* name = "f32";

  friend FOURSCALE_H constexpr bool operator==(f32, f32) = default;
};

/// The value of the scale, unchanged.
FOURSCALE_HD constexpr float decode(f32 scale) { return bit_cast<float>(scale.bits); }

}  // namespace FOURSCALE_NAMESPACE
