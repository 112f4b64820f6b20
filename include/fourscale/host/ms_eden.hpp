// SPDX-License-Identifier: Apache-2.0
// Quantizes whole matrices by MS-EDEN (block/ms_eden.hpp), on the CPU.
#pragma once

#include "../block/ms_eden.hpp"
#include "quantize.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

/// Quantizes x into q by MS-EDEN, 128 consecutive values of a row at a time. For the operands of a backward
/// GEMM, x may be transposed(x) or transposed(dequantized(q8)). The amax of q must be that of the transformed
/// matrix: call amax<128>(x, quantizer.transform, &a), then set q.amax = {amax_value(a), quantizer}. Errors:
/// x.cols no multiple of 128 (partial_block), and those of validate(); q is then untouched.
template <matrix_like M, class Layout, random_bits Bits>
errc quantize(M const& x, block_scaled_view<nvfp4, Layout, u8> const& q, ms_eden<Bits> const& quantizer) {
  constexpr int n = ms_eden<Bits>::group_size;
  if (const errc e = validate_groups(x, q, n, quantizer); e != errc::ok) return e;
  detail::clear_scale_padding(q);
#ifdef _OPENMP
#pragma omp parallel for if (q.rows * q.cols > 65536)
#endif
  for (i64 row = 0; row < q.rows; ++row)
    for (i64 col = 0; col < q.cols; col += n) {
      float y[n];
      for (int i = 0; i < n; ++i) y[i] = to_float(x.at(row, col + i));
      quantizer.transform(y);
      packed_block<nvfp4> blocks[8];
      quantizer(y, q.amax.scale_of_row(row), position{row, col}, blocks);
      for (int b = 0; b < 8; ++b) q.store(row, col / nvfp4::block_size + b, blocks[b]);
    }
  return errc::ok;
}

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
