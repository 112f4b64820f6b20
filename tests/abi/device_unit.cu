// SPDX-License-Identifier: Apache-2.0
// A library that launches kernels: check.py builds it for two architectures and loads both into one process.
#include <fourscale/device/amax.cuh>
#include <fourscale/device/quantize.cuh>

#include "types.hpp"

using namespace fourscale;

extern "C" errc launch(float const* x, float* amax, u8* codes, u8* scales, cudaStream_t stream) {
  const matrix_view<float const> m{x, 64, 64};
  if (const errc e = device::amax(m, amax, stream); e != errc::ok) return e;
  return device::quantize(m, block_scaled_view<nvfp4>{codes, scales, 64, 64, amax_in(amax)}, quantizer{},
                          stream);
}

void take(every_type const&, block_scaled_view<nvfp4, swizzled_128x4> const&, errc) {}
