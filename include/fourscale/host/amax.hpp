// SPDX-License-Identifier: Apache-2.0
// The largest magnitude (amax) of a matrix, or of each of its rows, on the CPU.
#pragma once

#include "../view/validate.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

namespace detail {

/// The largest magnitude of m, without validation. m may have any number of rows; no rows give 0.
template <matrix_like M>
float amax_of(M const& m) {
  i32 largest = 0;
#ifdef _OPENMP
#pragma omp parallel for reduction(max : largest) if (m.rows * m.cols > 65536)
#endif
  for (i64 r = 0; r < m.rows; ++r) {
    i32 in_row = 0;
    for (i64 c = 0; c < m.cols; ++c) {
      const i32 magnitude = amax_bits(to_float(m.at(r, c)));
      in_row = magnitude > in_row ? magnitude : in_row;
    }
    largest = in_row > largest ? in_row : largest;
  }
  return bit_cast<float>(largest);
}

}  // namespace detail

/// Writes the largest magnitude of m to *amax. NaN is dropped, infinity stays. It uses all cores under
/// OpenMP; the result does not depend on their number. It is a separate step from quantize(), so that ranks
/// can reduce the amax in between. Errors: see validate(); *amax is then untouched.
template <matrix_like M>
errc amax(M const& m, float* amax) {
  if (const errc e = validate(m); e != errc::ok) return e;
  if (const errc e = fourscale::detail::check_amax_output(amax); e != errc::ok) return e;
  *amax = detail::amax_of(m);
  return errc::ok;
}

/// Writes the largest magnitude of each row to out[0 .. m.rows), for amax_of_rows(). For transposed(x) these
/// are the largest magnitudes of the columns of x, for the columnwise copy. Errors: as for amax().
template <matrix_like M>
errc row_amax(M const& m, float* out) {
  if (const errc e = validate(m); e != errc::ok) return e;
  if (const errc e = fourscale::detail::check_amax_output(out); e != errc::ok) return e;
#ifdef _OPENMP
#pragma omp parallel for if (m.rows * m.cols > 65536)
#endif
  for (i64 r = 0; r < m.rows; ++r) {
    i32 largest = 0;
    for (i64 c = 0; c < m.cols; ++c) {
      const i32 magnitude = amax_bits(to_float(m.at(r, c)));
      largest = magnitude > largest ? magnitude : largest;
    }
    out[r] = bit_cast<float>(largest);
  }
  return errc::ok;
}

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
