// SPDX-License-Identifier: Apache-2.0
// All of fourscale, for CUDA compilers: fourscale.hpp and the functions that launch kernels. Opt-in headers
// stay outside here too: device/buffer.cuh, device/gemm_tcgen05.cuh, recipe/, interop/.
#pragma once

#include "cta/quantize.cuh"
#include "cta/reduce.cuh"
#include "device/amax.cuh"
#include "device/copies.cuh"
#include "device/delayed.cuh"
#include "device/dequantize.cuh"
#include "device/explain.cuh"
#include "device/gemm.cuh"
#include "device/ms_eden.cuh"
#include "device/percentile.cuh"
#include "device/quantize.cuh"
#include "device/quantize_grouped.cuh"
#include "device/statistics.cuh"
#include "device/transform.cuh"
#include "fourscale.hpp"
#include "warp/hadamard.cuh"
