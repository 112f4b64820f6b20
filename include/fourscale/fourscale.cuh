// SPDX-License-Identifier: Apache-2.0
// For CUDA compilers: includes fourscale.hpp, the parts for kernels of your own (cta/, warp/) and, except
// under NVRTC, the functions that launch the library's kernels. Under NVRTC no header from outside the
// library is needed.
// Left out, besides what fourscale.hpp leaves out:
//   device/gemm.cuh                        the GEMM by the fastest means that the device has; and its parts
//   device/explain_gemm.cuh                which kernel that is, and what makes it slower than it could be
//   device/gemm_native.cuh                 the same GEMM within an error bound, by cuBLASLt or own kernels
//   device/gemm_small.cuh                  the weight-only GEMM
//   device/gemm_tcgen05.cuh                the GEMM of sm_100, with mma/tcgen05_*.cuh and ptx/tcgen05*.cuh
//   device/buffer.cuh                      quantized matrices that own their device memory
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
