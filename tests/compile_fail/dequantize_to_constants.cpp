// expect: This matrix is written: it must be a matrix_view<T>, not a matrix_view<T const>.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/fourscale.hpp>
namespace f4 = fourscale;
auto dequantize(f4::block_scaled_view<f4::nvfp4> q, f4::matrix_view<float const> y) {
  return f4::host::dequantize(q, f4::transposed(y));
}
