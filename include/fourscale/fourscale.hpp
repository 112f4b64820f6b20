// SPDX-License-Identifier: Apache-2.0
// Includes what most programs use and what needs no CUDA compiler: number formats, blocks, policies, views
// and, except under NVRTC, the functions for whole matrices on the CPU. This include costs g++ 0.05 s, and
// nvcc, which reads it three times, 0.2 s.
// Left out, to be included by name:
//   recipe/                                which operand of which GEMM is quantized how, in run-time values
//   model/                                 Blackwell's tensor memory and matrix instructions, bit by bit
//   ptx/descriptors.hpp                    the descriptor words that these instructions take
//   formats/limits.hpp, formats/io.hpp     std::numeric_limits, printing
//   host/buffer.hpp                        quantized matrices that own their memory (needs <vector>)
//   host/gemm_blackwell.hpp                a GEMM with Blackwell's bits (needs <vector>)
//   view/accumulate.hpp                    how that GEMM adds
//   interop/                               types of other libraries, and what they do faster
#pragma once

#include "block/ms_eden.hpp"
#include "block/quantize.hpp"
#include "formats/real.hpp"
#include "rounding/stochastic.hpp"
#include "scaling/four_over_six.hpp"
#include "scaling/two_level_inference.hpp"
#include "transform/hadamard.hpp"
#include "view/block_scaled_view.hpp"
#include "view/computed_view.hpp"
#include "view/validate.hpp"

#if !FOURSCALE_RTC
#include "host/amax.hpp"
#include "host/copies.hpp"
#include "host/delayed.hpp"
#include "host/dequantize.hpp"
#include "host/gemm.hpp"
#include "host/ms_eden.hpp"
#include "host/percentile.hpp"
#include "host/quantize.hpp"
#include "host/quantize_grouped.hpp"
#include "host/statistics.hpp"
#include "host/transform.hpp"
#endif
