// SPDX-License-Identifier: Apache-2.0
// Some rows of a matrix, to a format and back, by the library.
#pragma once

#include <fourscale/fourscale.hpp>
#include <vector>

#include "rows.hpp"

namespace inspect {

/// Rows as floats, each followed by zeros up to a multiple of 32 columns.
struct band {
  i64 rows = 0, cols = 0, ld = 0;
  std::vector<float> values;
};

/// What became of a band: values with the band's `ld`; per block along each row, the magnitude beyond which
/// values saturate; and how many bits all of it takes.
struct rounded_band {
  std::vector<float> values;
  std::vector<double> limits;
  i64 block = 0, blocks = 0;
  u64 bits = 0;
  std::vector<u8> codes, scales;  // here only to be allocated once
};

/// The library wants no error to go unseen; here each one would be a mistake of this program.
inline void check(fourscale::errc e) {
  if (e != fourscale::errc::ok) throw std::logic_error(message(e));
}

/// Rows must be whole tiles of 2-D blocks, except at the end of the matrix. `amax` is that of all its rows.
template <class F, class Blocks>
void round_trip(band const& x, float amax, Blocks blocks, rounded_band& out) {
  using namespace fourscale;
  const i64 cols = round_up<i64>(x.cols, F::block_size);
  out.codes.resize(static_cast<u64>(code_bytes<F>(x.rows, cols)));
  out.scales.resize(static_cast<u64>(scale_bytes<F>(x.rows, cols)));
  block_scaled_view<F> q(out.codes, out.scales, x.rows, cols);
  q.tensor_scale = tensor_scale<F>(amax);
  check(host::quantize(matrix_view<float const>(x.values, x.rows, cols, x.ld), q, quantizer{}, blocks));
  out.values.resize(x.values.size());
  check(host::dequantize(q, matrix_view<float>(out.values, x.rows, cols, x.ld)));

  out.block = F::block_size;
  out.blocks = q.blocks();
  out.bits = 8 * (out.codes.size() + out.scales.size());
  // The product is exact in double and the quotient rounded once, so that the tensor's own amax comes out as
  // itself: it does not saturate.
  double factor = static_cast<double>(largest_element<typename F::element>), divisor = 1;
  if constexpr (F::has_tensor_scale) {
    factor *= static_cast<double>(amax);
    divisor = static_cast<double>(largest_block_value<F>);
  }
  out.limits.resize(out.scales.size());
  for (i64 row = 0, i = 0; row < q.rows; ++row)
    for (i64 block = 0; block < out.blocks; ++block)
      out.limits[static_cast<u64>(i++)] =
          static_cast<double>(decode(q.load(row, block).scale)) * factor / divisor;
}

/// FP8 under one scale for the tensor, 448 / amax: Transformer Engine's current scaling.
inline void round_trip_fp8(band const& x, float amax, rounded_band& out) {
  using namespace fourscale;
  const float quotient = largest_element<e4m3> / amax;
  const float scale = amax == 0.0f ? 1.0f : quotient <= float_max ? quotient : float_max;
  const float inverse = 1.0f / scale;
  out.values.resize(x.values.size());
#ifdef _OPENMP
#pragma omp parallel for if (x.rows * x.cols > 65536)
#endif
  for (i64 i = 0; i < x.rows * x.ld; ++i)
    out.values[static_cast<u64>(i)] = decode(encode<e4m3>(x.values[static_cast<u64>(i)] * scale)) * inverse;
  out.block = x.cols;
  out.blocks = 1;
  out.bits = static_cast<u64>(x.rows * x.cols) * e4m3::width;
  // The scale follows from amax, so nothing is larger.
  out.limits.assign(static_cast<u64>(x.rows), static_cast<double>(amax));
}

}  // namespace inspect
