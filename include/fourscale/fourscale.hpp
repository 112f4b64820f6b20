// SPDX-License-Identifier: Apache-2.0
// All of fourscale that needs no CUDA compiler: values, blocks, policies, views and whole matrices on the
// CPU. Opt-in headers stay outside: formats/limits.hpp, formats/io.hpp, host/buffer.hpp, recipe/, interop/.
#pragma once

#include "block/ms_eden.hpp"
#include "block/quantize.hpp"
#include "formats/real.hpp"
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
#include "rounding/stochastic.hpp"
#include "scaling/four_over_six.hpp"
#include "scaling/two_level_inference.hpp"
#include "transform/hadamard.hpp"
#include "view/block_scaled_view.hpp"
#include "view/validate.hpp"
