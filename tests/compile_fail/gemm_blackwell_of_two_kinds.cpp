// expect: accumulate::blackwell on the CPU multiplies NVFP4 by NVFP4, and MX formats by each other.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/host/gemm_blackwell.hpp>
namespace f4 = fourscale;
auto gemm(f4::block_scaled_view<f4::nvfp4> a, f4::block_scaled_view<f4::mxfp8> b, f4::matrix_view<float> d) {
  return f4::host::gemm(a, b, d, {}, f4::accumulate::blackwell{});
}
