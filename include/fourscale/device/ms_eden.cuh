// SPDX-License-Identifier: Apache-2.0
// Quantizes whole matrices by MS-EDEN (block/ms_eden.hpp), on a stream.
#pragma once

#include "../block/ms_eden.hpp"
#include "quantize.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// A thread takes a group of 128 values, eight blocks. If the group lies in the padding, it zeroes its
/// scales.
template <class Layout, class M, class Recipe>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    ms_eden_kernel(M x, bool vectors, block_scaled_view<nvfp4, Layout> q, Recipe recipe) {
  constexpr int n = Recipe::group_size;
  cta::no_memory unused;
  const tensor_scale<nvfp4> of_tensor = shared_tensor_scale<nvfp4>(q.amax);
  const i64 rows = Layout::padded_rows(q.rows), groups = q.cols / n;
  for (i64 i = blockIdx.x * i64{cta_threads} + threadIdx.x; i < rows * groups;
       i += i64{gridDim.x} * cta_threads) {
    const i64 row = M::is_transposed ? i % rows : i / groups,
              group = M::is_transposed ? i / rows : i % groups;
    packed_block<nvfp4> blocks[8];
    if (row < q.rows) {
      float y[n];
      load_block(x, row, group, vectors, y);
      recipe.transform(y);
      const tensor_scale<nvfp4> tensor = tensor_scale_of(q.amax, row, of_tensor);
      recipe(y, tensor, position{row, group * n}, blocks);
    }
    for (int b = 0; b < 8; ++b)
      if (row < q.rows)
        cta::view_sink<nvfp4, Layout>{q}.store(unused, {row, group * 8 + b}, blocks[b]);
      else
        q.store_scale(row, group * 8 + b, {});
  }
}

}  // namespace detail

/// As host::quantize by MS-EDEN. One kernel on the stream; never synchronises, never allocates. Errors:
/// x.cols no multiple of 128, and those of validate(); q is then untouched.
template <matrix_like M, class Layout, random_bits Bits>
errc quantize(M const& x, block_scaled_view<nvfp4, Layout> const& q, ms_eden<Bits> const& recipe,
              cudaStream_t stream = nullptr) {
  constexpr int n = ms_eden<Bits>::group_size;
  if (const errc e = validate_groups(x, q, n, recipe); e != errc::ok) return e;
  const auto input = detail::as_input(x);
  const i64 groups = Layout::padded_rows(q.rows) * (q.cols / n);
  detail::ms_eden_kernel<<<detail::grid_for(groups), detail::cta_threads, 0, stream>>>(
      input, detail::rows_are_vectors(input), q, recipe);
  return detail::launched();
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
