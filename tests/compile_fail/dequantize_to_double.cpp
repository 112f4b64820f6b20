// expect: A matrix must hold a `real` type: float, bf16, fp16, or a type with real_traits of its own.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/fourscale.hpp>
namespace f4 = fourscale;
auto dequantize(f4::block_scaled_view<f4::nvfp4> q, f4::matrix_view<double> y) {
  return f4::host::dequantize(q, y);
}
