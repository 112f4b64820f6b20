// expect: This quantized matrix is written: its view must be one of u8, not of u8 const.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/fourscale.hpp>
namespace f4 = fourscale;
auto quantize(f4::matrix_view<float const> x, f4::block_scaled_view<f4::nvfp4, f4::linear, f4::u8 const> q) {
  return f4::host::quantize(x, q);
}
