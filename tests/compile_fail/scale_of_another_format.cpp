// expect: The scaling policy of this recipe does not fit the format.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/fourscale.hpp>
namespace f4 = fourscale;
struct scale_of_mxfp4 {
  f4::block_scale<f4::mxfp4> operator()(f4::mxfp4, float, f4::tensor_scale<f4::mxfp4>) const { return {}; }
};
auto quantize(f4::matrix_view<float const> x, f4::block_scaled_view<f4::nvfp4> q) {
  return f4::host::quantize(x, q, f4::quantizer{f4::nearest_even{}, scale_of_mxfp4{}});
}
