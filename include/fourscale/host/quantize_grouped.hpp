// SPDX-License-Identifier: Apache-2.0
// Quantizes grouped matrices on the CPU: many matrices of one width, packed one after the other by rows
// (view/row_groups.hpp). The device functions must give the same result in one launch.
#pragma once

#include "../view/row_groups.hpp"
#include "amax.hpp"
#include "quantize.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

/// Writes the largest magnitude of each group to out[0 .. groups.count), as amax() gives it. An empty group
/// gets 0. Errors: see validate() and validate_offsets().
template <class T>
errc amax_grouped(matrix_view<T> const& x, row_groups const& groups, float* out) {
  if (const errc e = validate(x); e != errc::ok) return e;
  if (const errc e = validate(groups); e != errc::ok) return e;
  if (const errc e = validate_offsets(groups, x.rows); e != errc::ok) return e;
  if (const errc e = fourscale::detail::check_amax_output(out); e != errc::ok) return e;
  for (i64 g = 0; g < groups.count; ++g) {
    const i64 first = groups.offset(g);
    out[g] =
        detail::amax_of(matrix_view<T>{x.data + first * x.ld, groups.offset(g + 1) - first, x.cols, x.ld});
  }
  return errc::ok;
}

/// Quantizes each group of x by itself, under its own amax if q.amax is amax_of_groups(), else under the
/// common one. Codes lie in the order of the rows of x. Each group has its own scale layout, whose padding is
/// zeroed: see grouped_scale_bytes() and group_of(). Random rounding depends on the row in the packed matrix,
/// so no two groups share random draws. Errors: see validate_grouped() and validate_offsets(); the output is
/// then untouched.
template <class T, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
errc quantize_grouped(matrix_view<T> const& x, block_scaled_view<F, Layout> const& q,
                      row_groups const& groups, Quantizer const& quantizer = {}) {
  if (const errc e = validate_grouped(x, q, groups, quantizer); e != errc::ok) return e;
  if (const errc e = validate_offsets(groups, x.rows); e != errc::ok) return e;
  i64 scale_rows = 0;
  for (i64 g = 0; g < groups.count; ++g) {
    const i64 first = groups.offset(g), rows = groups.offset(g + 1) - first;
    const block_scaled_view<F, Layout> group = group_of(q, g, first, rows, scale_rows);
    scale_rows += Layout::padded_rows(rows);
    detail::quantize_valid<false>(matrix_view<T>{x.data + first * x.ld, rows, x.cols, x.ld}, group, quantizer,
                                  first);
  }
  return errc::ok;
}

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
