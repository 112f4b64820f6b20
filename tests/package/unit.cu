// SPDX-License-Identifier: Apache-2.0
// One of the units that rdc.sh links; UNIT names its function.
#include "every_header.cuh"  // written by rdc.sh

namespace f4 = fourscale;

#if defined(__CUDACC_RDC__)
static constexpr bool relocatable = true;
#else
static constexpr bool relocatable = false;
#endif

/// Whether explain_gemm() says that this unit's GEMMs are slow if they are, though other units' are not.
static bool explains() {
  f4::u8 codes[64 * 32] = {}, scales[64 * 4] = {};
  float d[64 * 64];
  const f4::block_scaled_view<f4::nvfp4, f4::linear, f4::u8 const> q{codes, scales, 64, 64,
                                                                     f4::amax_value(1.0f)};
  const f4::explanation why =
      f4::device::explain_gemm(f4::device::gemm_kernel::wgmma, q, q, f4::matrix_view<float>{d, 64, 64});
  return why.error == f4::errc::ok && why.says(f4::notes::gemm_rdc) == relocatable;
}

/// Null pointers are refused, so nothing runs; but the kernels of all three calls are in all units.
bool UNIT() {
  const f4::matrix_view<float const> x{nullptr, 64, 64};
  const f4::block_scaled_view<f4::nvfp4, f4::linear> q{nullptr, nullptr, 64, 64};
  return f4::device::quantize(x, q) != f4::errc::ok &&
         f4::device::statistics_of(x, q, nullptr, nullptr) != f4::errc::ok &&
         f4::device::update({}) != f4::errc::ok && explains();
}
