// SPDX-License-Identifier: Apache-2.0
// Takes some rows of a matrix to a format and back, by the library.
#pragma once

#include <fourscale/fourscale.hpp>
#include <fourscale/host/statistics.hpp>
#include <vector>

#include "rows.hpp"
#include "tally.hpp"

namespace inspect {

/// Some rows of a matrix as floats. Each row is followed by zeros up to a multiple of 32 columns.
struct band {
  i64 rows = 0, cols = 0, ld = 0;
  std::vector<float> values;
};

/// The result for a band: its errors and the bits that it takes and, on request, its values, with the `ld` of
/// the band.
struct rounded_band {
  tally lost;
  std::vector<float> values;
  std::vector<u8> codes, scales;  // working memory, kept so that it is allocated once
};

/// Throws on an error of the library, which could only be a mistake of this program.
inline void check(fourscale::errc e) {
  if (e != fourscale::errc::ok) throw std::logic_error(message(e));
}

/// Quantizes band x and compares. Under 2-D blocks the band must hold whole tiles, except at the end of the
/// matrix. `amax` is that of the whole matrix.
template <class F, class Blocks>
void round_trip(band const& x, float amax, Blocks blocks, bool with_values, rounded_band& out) {
  using namespace fourscale;
  const i64 cols = round_up<i64>(x.cols, F::block_size);
  out.codes.resize(static_cast<u64>(code_bytes<F>(x.rows, cols)));
  out.scales.resize(static_cast<u64>(scale_bytes<F>(x.rows, cols)));
  block_scaled_view<F> q(out.codes, out.scales, x.rows, cols, amax_value(amax));
  const matrix_view<float const> source(x.values, x.rows, cols, x.ld);
  check(host::quantize(source, q, quantizer{}, blocks));
  out.lost = {};
  check(host::statistics_of(source, q, &out.lost.sums));
  // A format without block scales is stored without the padding of the last block.
  out.lost.stored_bits = block_scale_bytes<F> > 0 ? 8 * (out.codes.size() + out.scales.size())
                                                  : static_cast<u64>(x.rows * x.cols) * F::element::width;
  if (!with_values) return;
  out.values.resize(x.values.size());
  check(host::dequantize(q, matrix_view<float>(out.values, x.rows, cols, x.ld)));
}

}  // namespace inspect
