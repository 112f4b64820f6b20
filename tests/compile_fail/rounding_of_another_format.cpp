// expect: The rounding policy of this recipe does not fit the elements of the format.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/fourscale.hpp>
namespace f4 = fourscale;
struct rounds_e4m3 {
  f4::packed<f4::e4m3, 4> operator()(f4::e4m3, float const (&)[4], f4::position) const { return {}; }
};
auto quantize(f4::matrix_view<float const> x, f4::block_scaled_view<f4::nvfp4> q) {
  return f4::host::quantize(x, q, f4::quantizer{rounds_e4m3{}});
}
