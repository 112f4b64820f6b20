// expect: A matrix must hold a `real` type: float, bf16, fp16, or a type with real_traits of its own.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/fourscale.hpp>
namespace f4 = fourscale;
auto quantize(f4::matrix_view<double const> x, f4::block_scaled_view<f4::nvfp4> q) {
  return f4::host::quantize(x, q);
}
