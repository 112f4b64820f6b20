// SPDX-License-Identifier: Apache-2.0
// Many matrices of one width, packed row by row, on the CPU. The device functions must give the same in one
// launch.
#pragma once

#include "../view/row_groups.hpp"
#include "amax.hpp"
#include "quantize.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

/// The largest magnitude of each group to out[0 .. groups.count), as amax() gives it; 0 for an empty group.
/// Errors: see validate() and validate_offsets().
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

/// Quantizes each group of x by itself, under its own amax if q has amax_of_groups(), else under the one
/// of q. Codes lie as the rows of x do; each group has scales of its own, the padding zeroed: see
/// grouped_scale_bytes() and group_of(). Random rounding is a function of the row of the packed matrix, so
/// that no two groups share their draws. Errors: see validate_grouped() and
/// validate_offsets(); the output is then untouched.
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
