// SPDX-License-Identifier: Apache-2.0
// The rowwise and the columnwise copy of a quantized tensor, on the CPU: both from the tensor, or one from
// the other.
#pragma once

#include "../view/dequantized_view.hpp"
#include "quantize.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

/// Writes the transpose of q, which has 2-D blocks, to qt without requantizing: codes and scales move,
/// nothing is rounded. qt must have the amax of q (other_amax). Errors: q.rows no multiple of the block
/// (partial_block), shape_mismatch, overlap, and those of validate(); qt is then untouched. If q has 1-D
/// blocks, the result is meaningless; this function cannot detect it.
template <class F, class Layout, class Byte, class LayoutT>
errc transpose(block_scaled_view<F, Layout, Byte> const& q, block_scaled_view<F, LayoutT, u8> const& qt) {
  constexpr i64 n = F::block_size;
  if (const errc e = validate_transpose(q, qt); e != errc::ok) return e;
  detail::clear_scale_padding(qt);
#ifdef _OPENMP
#pragma omp parallel for if (q.rows * q.cols > 65536)
#endif
  for (i64 tile = 0; tile < qt.blocks(); ++tile)
    for (i64 block = 0; block < q.blocks(); ++block) {
      packed_block<F> rows[n];
      for (i64 i = 0; i < n; ++i) rows[i] = q.load(tile * n + i, block);
      for (i64 j = 0; j < n; ++j) {
        packed_block<F> column{rows[0].scale, {}};
        for (i64 i = 0; i < n; ++i) column.set(static_cast<int>(i), rows[i].get(static_cast<int>(j)));
        qt.store(block * n + j, tile, column);
      }
    }
  return errc::ok;
}

/// Makes both copies in one call: q from x with the quantizer `rowwise`, qt from the transpose of x with
/// `columnwise`. Each has its own transform, rounding, random stream and amax (that of qt is taken after its
/// transform). With 2-D blocks there is one set of scales and qt is the transpose of q, so `columnwise` and
/// qt.amax must equal those of q. Errors: see validate(); both outputs are then untouched.
template <matrix_like M, class F, class Layout, class LayoutT, quantizer_for<F> Rowwise = quantizer<>,
          quantizer_for<F> Columnwise = quantizer<>, class Blocks = blocks_1d>
errc quantize_both(M const& x, block_scaled_view<F, Layout, u8> const& q,
                   block_scaled_view<F, LayoutT, u8> const& qt, Rowwise const& rowwise = {},
                   Columnwise const& columnwise = {}, Blocks shape = {}) {
  if (const errc e = validate_both(x, q, qt, shape, rowwise, columnwise); e != errc::ok) return e;
  if (const errc e = quantize(x, q, rowwise, shape); e != errc::ok) return e;
  if constexpr (Blocks::is_2d)
    return transpose(q, qt);
  else
    return quantize(transposed(x), qt, columnwise);
}

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
