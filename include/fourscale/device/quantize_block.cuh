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
template <class T, int N>
FOURSCALE_D raw_block<T, N> as_raw(cta::values<T, N> const& x) {
  raw_block<T, N> block;
  FOURSCALE_UNROLL
  for (int i = 0; i < x.count; ++i) block.w[i] = x.words[i];
  return block;
}
}  // namespace detail

/// Executed by one thread; `recipe` as it is or scheduled(); `tensor` and `where` as for
/// fourscale::quantize_block(). Raises `largest` to the largest magnitude of x, as fourscale::block_amax()
/// gives it, which costs less here than by itself.
template <block_format F, class T, quantizer_for<F> Quantizer>
FOURSCALE_D packed_block<F> quantize_block(cta::values<T, F::block_size> const& x, Quantizer const& recipe,
                                           tensor_scale<F> const& tensor, position where, float& largest) {
  const auto block = detail::as_raw(x);
  if constexpr (detail::has_quick_way<F, T, Quantizer>()) {
    const detail::attempt<F> result = detail::try_quantize_raw<F, T>(block, recipe, tensor, where);
    if (result.valid) {  // so there is no NaN; the compiler sees that the amax is the one that was just found
      largest = fmaxf(largest, detail::amax_or_nan(block));
      return result.block;
    }
  }
  largest = fmaxf(largest, detail::raw_amax(block));
  return detail::quantize_raw<F>(block, recipe, tensor, where);
}
template <block_format F, class T, quantizer_for<F> Quantizer>
FOURSCALE_D packed_block<F> quantize_block(cta::values<T, F::block_size> const& x, Quantizer const& recipe,
                                           tensor_scale<F> const& tensor, position where = {}) {
  float unused = 0.0f;
  return quantize_block<F>(x, recipe, tensor, where, unused);
}

}  // namespace fourscale::device
