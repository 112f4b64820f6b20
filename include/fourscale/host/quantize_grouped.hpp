// SPDX-License-Identifier: Apache-2.0
// Many matrices of one width, packed row by row, on the CPU: what the one launch of the device functions must
// give.
#pragma once

#include "../view/row_groups.hpp"
#include "amax.hpp"
#include "quantize.hpp"

namespace fourscale::host {

/// The largest magnitude of each group to out[0 .. groups.count), as amax() gives it; 0 for an empty group.
/// Errors: see validate().
template <class T>
errc amax_grouped(matrix_view<T> const& x, row_groups const& groups, float* out) {
  if (const errc e = validate(x); e != errc::ok) return e;
  if (const errc e = validate(groups); e != errc::ok) return e;
  if (out == nullptr) return errc::null_pointer;
  for (i64 g = 0; g < groups.count; ++g) {
    const i64 first = groups.offsets[g];
    out[g] = amax(matrix_view<T>{x.data + first * x.ld, groups.offsets[g + 1] - first, x.cols, x.ld});
  }
  return errc::ok;
}

/// Quantizes each group of x by itself, under the tensor scale of amax[g], or q.tensor_scale if `amax` is
/// null. Codes lie as the rows of x do; each group has scales of its own, the padding zeroed: see
/// grouped_scale_bytes() and group_of(). Random rounding is a function of the row of the packed matrix, so
/// that no two groups share their draws. Errors: see validate_grouped(); the output is then untouched.
template <class T, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
errc quantize_grouped(matrix_view<T> const& x, block_scaled_view<F, Layout> const& q,
                      row_groups const& groups, float const* amax, Quantizer const& recipe = {}) {
  if (const errc e = validate_grouped(x, q, groups); e != errc::ok) return e;
  i64 scale_rows = 0;
  for (i64 g = 0; g < groups.count; ++g) {
    const i64 first = groups.offsets[g], rows = groups.offsets[g + 1] - first;
    block_scaled_view<F, Layout> group = fourscale::group_of(q, first, rows, scale_rows);
    if (F::has_tensor_scale && amax != nullptr)
      group.tensor_scale = tensor_scale_for<F>(recipe.scale, amax[g]);
    scale_rows += Layout::padded_rows(rows);
    detail::quantize_valid<false>(matrix_view<T>{x.data + first * x.ld, rows, x.cols, x.ld}, group, recipe,
                                  first);
  }
  return errc::ok;
}

}  // namespace fourscale::host
