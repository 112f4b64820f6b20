// expect: D is written: it must be a matrix_view<T>, not a matrix_view<T const>.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/host/gemm_blackwell.hpp>
namespace f4 = fourscale;
auto gemm(f4::block_scaled_view<f4::nvfp4> a, f4::block_scaled_view<f4::nvfp4> b,
          f4::matrix_view<float const> d) {
  return f4::host::gemm(a, b, d, {}, f4::accumulate::blackwell{});
}
