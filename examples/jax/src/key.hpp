// SPDX-License-Identifier: Apache-2.0
// Random bits under a key that is an argument of the computation, so that a new key recompiles nothing.
#pragma once

#include "recipes.hpp"

namespace fourscale_jax {

/// The random words of philox under a key in memory of the machine, which every draw reads. The key has six
/// words: seed low and high; stream low and high; and the row and column, each a multiple of 16, where this
/// matrix begins in the whole one that all devices share. So a part draws what the whole would. With 16 *
/// layer + 65536 * microbatch in the third word and the step in the fourth, the draws are those of draw_key.
/// The lowest four bits of the third word are not read: `use`, which says what draws, takes their place.
struct keyed_bits {
  u32 const* key;
  u32 use;
  bool transposed;  ///< the matrix in the key is the transpose of the one whose elements draw

  static constexpr i64 length = 6;

  keyed_bits for_use(u32 other) const { return {key, other, transposed}; }
  FOURSCALE_HD constexpr f4::prepared_philox<10> words() const {
    return f4::prepared_philox<10>({u64{key[1]} << 32 | key[0], u64{key[3]} << 32 | ((key[2] & ~15u) | use)});
  }
  FOURSCALE_HD constexpr f4::position in_whole(f4::position where) const {
    return {where.row + key[transposed ? 5 : 4], where.col + key[transposed ? 4 : 5]};
  }
  FOURSCALE_HD constexpr u32 operator()(f4::position where) const { return words()(in_whole(where)); }
  FOURSCALE_HD constexpr f4::philox_words of_sixteen(f4::position where) const {
    return words().of_sixteen(in_whole(where));
  }
  /// Fast form: see lane_random_bits.
  FOURSCALE_HD constexpr void draw_lanes(f4::position where, int count, u32* to) const {
    words().draw_lanes(in_whole(where), count, to);
  }
};

/// draw_key::signs() of a GEMM (1 for dgrad, 2 for wgrad): the sign, 1 or -1, of element i of 128.
FOURSCALE_HD constexpr float sign_of(u32 const* key, u32 gemm, int i) {
  const u64 seed = u64{key[1]} << 32 | key[0];
  const f4::philox_words w = f4::philox4x32(0, 0, (key[2] & ~15u) | (12 + gemm), key[3], seed);
  return w.words[i / 32] >> (i % 32) & 1u ? -1.0f : 1.0f;
}

/// `use` for rounding the elements of a copy of a tensor, as in draw_key.
constexpr u32 use_of(f4::tensor_role role, bool columnwise) {
  return static_cast<u32>(f4::draw_key{}.elements(role, columnwise).stream);
}
/// `use` for rounding its block scales.
constexpr u32 use_of_scales(f4::tensor_role role, bool columnwise) {
  return static_cast<u32>(f4::draw_key{}.scales(role, columnwise).stream);
}

}  // namespace fourscale_jax
