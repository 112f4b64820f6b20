// SPDX-License-Identifier: Apache-2.0
// Random bits under a key that is an argument of the computation, so that nothing recompiles when it changes.
#pragma once

#include "recipes.hpp"

namespace fourscale_jax {

/// A key is four words in the memory of the machine: {seed low, seed high, stream low, stream high}. With 16
/// * layer and 65536 * microbatch in the third and the step in the fourth it draws what draw_key draws. The
/// lowest four bits of the third are not read: there `use` says what draws.
constexpr u64 stream_of(u32 low, u32 high, u32 use) { return u64{high} << 32 | ((low & ~15u) | use); }

/// The use of a copy of a tensor, as in draw_key.
constexpr u32 use_of(f4::tensor_role role, bool columnwise) {
  return static_cast<u32>(f4::draw_key{}.elements(role, columnwise).stream);
}

/// The quantizer of operand O, which draws from `bits` where it is stochastic.
template <f4::operand_recipe O, class Bits>
auto quantizer_drawing(Bits const& bits) {
  static_assert(O.scale != f4::scale_rule::stochastic_scale && O.signs != f4::sign_source::drawn &&
                    O.rounding != f4::rounding_rule::te_software,
                "Only stochastic rounding draws from the key.");
  const auto q = f4::quantizer_of<O>({});
  if constexpr (O.rounding == f4::rounding_rule::stochastic)
    return f4::quantizer{f4::stochastic{bits}, q.scale, q.transform};
  else
    return q;
}

}  // namespace fourscale_jax
