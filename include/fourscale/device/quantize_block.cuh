// SPDX-License-Identifier: Apache-2.0
// One block of values in the registers of a thread, for kernels of your own: the bits of
// fourscale::quantize_block(), in as few instructions as the library's own kernels take.
#pragma once

#include "../cta/values.cuh"
#include "quantize_raw.cuh"

namespace fourscale::device {

/// A recipe as kernels should take it: what every thread would make of its parameters is made once, on the
/// host.
template <class Recipe>
auto scheduled(Recipe const& recipe) {
  return detail::scheduled(recipe);
}

namespace detail {
/// A block whose codes are in words: where two ways meet, the compiler would carry bytes one by one.
template <class F>
struct block_in_words {
  u32 codes[block_code_bytes<F> / 4] = {};
  u32 scale;
  float amax;

  FOURSCALE_D block_in_words(packed_block<F> const& block, float a) : scale(block.scale.bits), amax(a) {
    FOURSCALE_UNROLL
    for (int i = 0; i < block_code_bytes<F>; ++i) codes[i / 4] |= u32{block.codes[i]} << (8 * (i % 4));
  }
  FOURSCALE_D packed_block<F> packed() const {
    packed_block<F> block{{static_cast<decltype(F::scale::bits)>(scale)}, {}};
    FOURSCALE_UNROLL
    for (int i = 0; i < block_code_bytes<F>; ++i)
      block.codes[i] = static_cast<u8>(codes[i / 4] >> (8 * (i % 4)));
    return block;
  }
};

/// quantize_raw() as a call: blocks that need it are few, and must not cost the others registers.
template <class F, class T, class Quantizer>
__device__ __noinline__ block_in_words<F> quantize_rarely(cta::values<T, F::block_size> block,
                                                          Quantizer recipe, tensor_scale<F> tensor,
                                                          position where) {
  return {quantize_raw<F>(block, recipe, tensor, where), raw_amax(block)};
}
}  // namespace detail

/// Executed by one thread; `recipe` as it is or scheduled(); `tensor` and `where` as for
/// fourscale::quantize_block(). Raises `largest` to the largest magnitude of x, as fourscale::block_amax()
/// gives it, which costs less here than by itself.
template <block_format F, class T, quantizer_for<F> Quantizer>
FOURSCALE_D packed_block<F> quantize_block(cta::values<T, F::block_size> const& x, Quantizer const& recipe,
                                           tensor_scale<F> const& tensor, position where, float& largest) {
  if constexpr (!detail::has_quick_way<F, T, Quantizer>()) {
    largest = fmaxf(largest, detail::raw_amax(x));
    return detail::quantize_raw<F>(x, recipe, tensor, where);
  } else {
    const detail::attempt<F> result = detail::try_quantize_raw<F, T>(x, recipe, tensor, where);
    // The compiler sees that this amax was just found.
    detail::block_in_words<F> words(result.block, detail::amax_or_nan(x));
    if (!result.valid) words = detail::quantize_rarely<F, T>(x, recipe, tensor, where);
    largest = fmaxf(largest, words.amax);
    return words.packed();
  }
}
template <block_format F, class T, quantizer_for<F> Quantizer>
FOURSCALE_D packed_block<F> quantize_block(cta::values<T, F::block_size> const& x, Quantizer const& recipe,
                                           tensor_scale<F> const& tensor, position where = {}) {
  float unused = 0.0f;
  return quantize_block<F>(x, recipe, tensor, where, unused);
}

}  // namespace fourscale::device
