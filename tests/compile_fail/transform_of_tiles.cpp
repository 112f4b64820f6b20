// expect: 2-D blocks take no transform.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/fourscale.hpp>
namespace f4 = fourscale;
auto quantize(f4::matrix_view<float const> x, f4::block_scaled_view<f4::nvfp4> q) {
  const f4::quantizer recipe{f4::nearest_even{}, f4::two_level{}, f4::hadamard<16>{}};
  return f4::host::quantize(x, q, recipe, f4::blocks_2d<16, 16>{});
}
