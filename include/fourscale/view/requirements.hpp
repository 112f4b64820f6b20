// SPDX-License-Identifier: Apache-2.0
// Compile-time checks of the arguments of functions on whole matrices, each a static_assert with a sentence.
// A requires-clause would only report that no function matches.
#pragma once

#include "../block/quantizer.hpp"
#include "block_scaled_view.hpp"
#include "block_shape.hpp"
#include "matrix_view.hpp"

namespace FOURSCALE_NAMESPACE::detail {

template <class M>
concept view_of_matrix = requires(M const& m) {
  typename M::value_type;
  M::is_transposed;
  m.rows, m.cols, m.at(0, 0);
};

template <class M>
concept view_of_reals = view_of_matrix<M> && real<typename M::value_type>;

template <class M>
concept writable_view = requires(M const& m, typename M::value_type value) {
  m.at(0, 0) = value;
};

template <class Q>
concept joins_policies = requires(Q const& recipe) {
  recipe.round;
  recipe.scale;
  recipe.transform;
};

template <class Q, class F>
concept has_rounding_for = requires(Q q) {
  requires rounding_policy<decltype(q.round), typename F::element>;
};
template <class Q, class F>
concept has_scaling_for = requires(Q q) {
  requires scaling_policy<decltype(q.scale), F>;
};
template <class Q, class F>
concept has_transform_for = requires(Q q) {
  requires transform_policy<decltype(q.transform), F::block_size>;
};

template <class Blocks>
concept square_blocks = requires {
  requires Blocks::is_2d;
};
template <class Q>
FOURSCALE_H constexpr bool transforms() {
  if constexpr (requires(Q q) { q.transform; })
    return !same_type<decltype(Q::transform), identity>;
  else
    return false;
}

// Each of the following functions either fails to compile with a sentence, or returns true. Call them in `if
// constexpr`: it leaves out the function's body after a failure, whose errors would bury the sentence.

/// Checks that M can be read as a matrix.
template <class M>
FOURSCALE_H constexpr bool can_read() {
  static_assert(view_of_matrix<M>, "This is no matrix: it must be a matrix_view, or transposed() of one.");
  static_assert(!view_of_matrix<M> || view_of_reals<M>,
                "A matrix must hold a `real` type: float, bf16, fp16, or a type with real_traits of its own. "
                "Those of __nv_bfloat16 and __half are in interop/cuda_fp.hpp.");
  return view_of_reals<M>;
}

/// Checks that M can be read and written.
template <class M>
FOURSCALE_H constexpr bool can_write() {
  constexpr bool reads = can_read<M>();
  static_assert(!reads || writable_view<M>,
                "This matrix is written: it must be a matrix_view<T>, not a matrix_view<T const>.");
  return reads && writable_view<M>;
}

/// Checks that a quantized matrix with these bytes can be written.
template <class Byte>
FOURSCALE_H constexpr bool can_write_codes() {
  static_assert(same_type<Byte, u8>,
                "This quantized matrix is written: its view must be one of u8, not of u8 const.");
  return same_type<Byte, u8>;
}

/// Checks that a recipe can quantize blocks of format F.
template <class Quantizer, class F>
FOURSCALE_H constexpr bool fits_recipe() {
  constexpr bool joined = joins_policies<Quantizer>;
  static_assert(joined, "This is no recipe: it needs the members round, scale and transform of a quantizer.");
  static_assert(!joined || has_rounding_for<Quantizer, F>,
                "The rounding policy of this recipe does not fit the elements of the format.");
  static_assert(!joined || has_scaling_for<Quantizer, F>,
                "The scaling policy of this recipe does not fit the format.");
  static_assert(!joined || has_transform_for<Quantizer, F>,
                "The transform of this recipe does not fit blocks of the format's size.");
  return quantizer_for<Quantizer, F>;
}

/// Checks that format F can have blocks of that shape, and that a recipe can quantize them.
template <class Blocks, class F, class Quantizer>
FOURSCALE_H constexpr bool fits_blocks() {
  static_assert(block_shape<Blocks>, "This is no shape of blocks: blocks_1d{} or blocks_2d<16, 16>{}.");
  static_assert(!block_shape<Blocks> || fits_format<Blocks, F>,
                "2-D blocks must be square, as wide as the block of the format.");
  constexpr bool plain = !square_blocks<Blocks> || !transforms<Quantizer>();
  static_assert(plain, "2-D blocks take no transform.");
  return fits_format<Blocks, F> && plain;
}

/// Checks that a matrix M can be quantized to format F, by a recipe, in blocks of that shape.
template <class M, class F, class Byte, class Quantizer, class Blocks>
FOURSCALE_H constexpr bool can_quantize() {
  constexpr bool reads = can_read<M>(), writes = can_write_codes<Byte>(),
                 rounds = fits_recipe<Quantizer, F>(), shaped = fits_blocks<Blocks, F, Quantizer>();
  return reads && writes && rounds && shaped;
}

}  // namespace FOURSCALE_NAMESPACE::detail
