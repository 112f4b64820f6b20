// SPDX-License-Identifier: Apache-2.0
// Back to float, bf16 or fp16, on the CPU.
#pragma once

#include "../block/quantize.hpp"
#include "../view/requirements.hpp"
#include "../view/validate.hpp"

namespace fourscale::host {

namespace detail {

template <class F, class Layout, class Byte, matrix_like M>
void dequantize_rows(block_scaled_view<F, Layout, Byte> const& q, M const& y) {
#ifdef _OPENMP
#pragma omp parallel for if (q.rows * q.cols > 65536)
#endif
  for (i64 row = 0; row < q.rows; ++row) {
    const tensor_scale<F> tensor = q.amax.scale_of_row(row);
    for (i64 block = 0; block < q.blocks(); ++block) {
      float values[F::block_size];
      dequantize_block(q.load(row, block), values, tensor);
      for (int i = 0; i < F::block_size; ++i)
        y.at(row, block * F::block_size + i) = from_float<typename M::value_type>(values[i]);
    }
  }
}

}  // namespace detail

/// Writes the values of q into y (or into transposed(y), for a columnwise copy), each rounded once to float
/// as dequantize_block() says and once more to y's type. Errors: see validate(); y is then untouched.
template <class F, class Layout, class Byte, class M>
errc dequantize(block_scaled_view<F, Layout, Byte> const& q, M const& y) {
  if constexpr (fourscale::detail::can_write<M>()) {
    if (const errc e = validate(y, q); e != errc::ok) return e;
    detail::dequantize_rows(q, y);
  }
  return errc::ok;
}

}  // namespace fourscale::host
