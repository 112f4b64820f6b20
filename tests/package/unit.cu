// SPDX-License-Identifier: Apache-2.0
// One of the units that rdc.sh links; UNIT names its function.
#include "every_header.cuh"  // written by rdc.sh

namespace f4 = fourscale;

/// Where a function of launches is, or null. Null pointers are refused, so nothing runs; but the kernels of
/// all calls are in all units.
void const* UNIT() {
  const f4::matrix_view<float const> x{nullptr, 64, 64};
  const f4::block_scaled_view<f4::nvfp4, f4::linear> q{nullptr, nullptr, 64, 64};
  // Its kernels call functions, whose registers -rdc=true does not limit.
  const f4::block_scaled_view<f4::mxfp6_e2m3, f4::linear> a{nullptr, nullptr, 64, 64};
  const bool refused = f4::device::quantize(x, q) != f4::errc::ok &&
                       f4::device::statistics_of(x, q, nullptr, nullptr) != f4::errc::ok &&
                       f4::device::gemm(a, a, f4::matrix_view<float>{nullptr, 64, 64}, {},
                                        f4::accumulate::blackwell{}, {}) != f4::errc::ok &&
                       f4::device::update({}) != f4::errc::ok;
  return refused ? reinterpret_cast<void const*>(&f4::device::detail::has_code) : nullptr;
}
