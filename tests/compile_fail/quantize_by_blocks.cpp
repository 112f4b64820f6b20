// expect: This is no recipe: it needs the members round, scale and transform of a quantizer.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/fourscale.hpp>
namespace f4 = fourscale;
auto quantize(f4::matrix_view<float const> x, f4::block_scaled_view<f4::nvfp4> q) {
  return f4::host::quantize(x, q, f4::blocks_2d<16, 16>{});
}
