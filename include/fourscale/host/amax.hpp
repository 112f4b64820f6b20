// SPDX-License-Identifier: Apache-2.0
// The largest magnitude of a matrix, on the CPU.
#pragma once

#include "../view/matrix_view.hpp"

namespace fourscale::host {

/// The largest magnitude of m: NaN is dropped, infinity stays, an empty matrix gives 0. On all cores under
/// OpenMP; the result does not depend on their number. A separate step from quantize(), so that ranks can
/// reduce it in between.
template <class T>
requires real<typename matrix_view<T>::value_type>
float amax(matrix_view<T> m) {
  i32 largest = 0;
#ifdef _OPENMP
#pragma omp parallel for reduction(max : largest) if (m.rows * m.cols > 65536)
#endif
  for (i64 r = 0; r < m.rows; ++r) {
    T* row = m.data + r * m.ld;
    i32 in_row = 0;
    for (i64 c = 0; c < m.cols; ++c) {
      const i32 magnitude = amax_bits(to_float(row[c]));
      in_row = magnitude > in_row ? magnitude : in_row;
    }
    largest = in_row > largest ? in_row : largest;
  }
  return bit_cast<float>(largest);
}

/// The largest magnitude of each row, to out[0 .. m.rows): for row_amax of a quantized matrix. Of
/// transposed(x) it gives those of the columns, for the columnwise copy.
template <matrix_like M>
void row_amax(M const& m, float* out) {
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
}

}  // namespace fourscale::host
