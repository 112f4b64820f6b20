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
/// fourscale::quantize_block().
template <block_format F, class T, quantizer_for<F> Quantizer>
FOURSCALE_D packed_block<F> quantize_block(cta::values<T, F::block_size> const& x, Quantizer const& recipe,
                                           tensor_scale<F> const& tensor, position where = {}) {
  const auto block = detail::as_raw(x);
  const detail::attempt<F> result = detail::try_quantize_raw<F, T>(block, recipe, tensor, where);
  if (result.valid) return result.block;
  return detail::quantize_raw<F>(block, recipe, tensor, where);
}

/// The largest magnitude, as fourscale::block_amax() gives it.
template <class T, int N>
FOURSCALE_D float block_amax(cta::values<T, N> const& x) {
  return detail::raw_amax(detail::as_raw(x));
}

}  // namespace fourscale::device
