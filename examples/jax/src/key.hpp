// SPDX-License-Identifier: Apache-2.0
// Random bits under a key that is an argument of the computation, so that nothing recompiles when it changes.
#pragma once

#include "recipes.hpp"

namespace fourscale_jax {

/// A key is four words in the memory of the machine: {seed low, seed high, stream low, stream high}. With 16
/// * layer and 65536 * microbatch in the third and the step in the fourth it draws what draw_key draws. The
/// lowest four bits of the third are not read: there `use` says what draws.
FOURSCALE_HD constexpr u64 stream_of(u32 low, u32 high, u32 use) {
  return u64{high} << 32 | ((low & ~15u) | use);
}

/// The use of a copy of a tensor, as in draw_key.
constexpr u32 use_of(f4::tensor_role role, bool columnwise) {
  return static_cast<u32>(f4::draw_key{}.elements(role, columnwise).stream);
}

/// The same for its block scales, as draw_key::scales().
constexpr u32 use_of_scales(f4::tensor_role role, bool columnwise) {
  return static_cast<u32>(f4::draw_key{}.scales(role, columnwise).stream);
}

}  // namespace fourscale_jax
