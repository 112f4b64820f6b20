// expect: Both operands of a GEMM need blocks of the same size.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/host/gemm.hpp>
namespace f4 = fourscale;
auto gemm(f4::block_scaled_view<f4::nvfp4> a, f4::block_scaled_view<f4::mxfp4> b, f4::matrix_view<float> d) {
  return f4::host::gemm(a, b, d);
}
