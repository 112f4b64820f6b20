// expect: 2-D blocks must be square, as wide as the block of the format.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/fourscale.hpp>
namespace f4 = fourscale;
auto quantize(f4::matrix_view<float const> x, f4::block_scaled_view<f4::nvfp4> q) {
  return f4::host::quantize(x, q, f4::quantizer{}, f4::blocks_2d<8, 8>{});
}
