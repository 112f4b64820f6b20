// expect: The transform of this recipe does not fit blocks of the format's size.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/fourscale.hpp>
namespace f4 = fourscale;
struct reverses_16 {
  void operator()(float (&)[16]) const {}
};
auto quantize(f4::matrix_view<float const> x, f4::block_scaled_view<f4::mxfp4> q) {
  return f4::host::quantize(x, q, f4::quantizer{f4::nearest_even{}, f4::amax_scale{}, reverses_16{}});
}
