// SPDX-License-Identifier: Apache-2.0
// For CUDA compilers: fourscale.hpp, parts to make kernels of and, except under NVRTC, the functions that
// launch the library's own. Under NVRTC no header from outside is needed.
// Left out, besides what fourscale.hpp leaves out:
//   device/gemm.cuh                        the GEMM, by what the device does it fastest with; and its parts
//   device/explain_gemm.cuh                what that is, and what makes it slower than it could be
//   device/gemm_native.cuh                 the same within a bound, by a library that multiplies
//   device/gemm_small.cuh                  the weight-only GEMM
//   device/gemm_tcgen05.cuh                that of sm_100, with mma/tcgen05_*.cuh and ptx/tcgen05*.cuh
//   device/buffer.cuh                      memory on the device that owns itself
//   recipe/fake_quantize.cuh               recipes on the device
//   recipe/linear.cuh                      linear layers on the device
#pragma once

#include "cta/quantize.cuh"
#include "cta/reduce.cuh"
#include "fourscale.hpp"
#include "warp/hadamard.cuh"

#if !FOURSCALE_RTC
#include "device/amax.cuh"
#include "device/amax_of_producer.cuh"
#include "device/copies.cuh"
#include "device/delayed.cuh"
#include "device/dequantize.cuh"
#include "device/explain.cuh"
#include "device/gemm_mma_sync.cuh"
#include "device/ms_eden.cuh"
#include "device/percentile.cuh"
#include "device/quantize.cuh"
#include "device/quantize_grouped.cuh"
#include "device/statistics.cuh"
#include "device/transform.cuh"
#endif
