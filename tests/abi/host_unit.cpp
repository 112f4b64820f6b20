// SPDX-License-Identifier: Apache-2.0
// A unit that calls much of what runs on the CPU. check.py compiles it for several CPUs and looks at names.
#include <fourscale/fourscale.hpp>
#include <fourscale/recipe/describe.hpp>
#include <fourscale/recipe/presets.hpp>

#include "types.hpp"

using namespace fourscale;

namespace {

/// Both copies of a matrix under `recipe`, and back.
template <block_format F, class Quantizer>
bool round_trip(float const* x, u8* codes, u8* scales, float* y, Quantizer const& recipe) {
  const matrix_view<float const> in{x, 64, 64};
  const matrix_view<float> out{y, 64, 64};
  float amax = 0.0f;
  block_scaled_view<F, swizzled_128x4> q{codes, scales, 64, 64};
  q.amax = {amax_in(&amax), recipe};
  statistics s;
  return host::amax(in, &amax) == errc::ok && host::quantize(in, q, recipe) == errc::ok &&
         host::quantize(transposed(in), q, recipe) == errc::ok && host::dequantize(q, out) == errc::ok &&
         host::gemm(q, q, out) == errc::ok && host::statistics_of(in, q, &s) == errc::ok &&
         validate(out) == errc::ok;
}

}  // namespace

bool whole_matrices(float const* x, u8* codes, u8* scales, float* y) {
  return round_trip<nvfp4>(x, codes, scales, y, quantizer{stochastic{philox{1, 2}}, four_over_six<>{}}) &&
         round_trip<mxfp8_e4m3>(x, codes, scales, y, quantizer{}) &&
         round_trip<mxfp6_e2m3>(x, codes, scales, y, quantizer{});
}

bool one_block(float (&x)[16]) {
  const packed_block<nvfp4> b = quantize_block<nvfp4>(x, quantizer<>{});
  dequantize_block(b, x);
  hadamard<16>{}(x);
  return b == quantize_block<nvfp4>(x, quantizer{stochastic{philox{1, 2}}}) &&
         decode(encode<e4m3>(x[3])) > 2.0f;
}

int in_words(linear_recipe const& r) { return describe(r).c_str()[0]; }

void take(every_type const&, block_scaled_view<nvfp4, swizzled_128x4> const&, errc) {}
