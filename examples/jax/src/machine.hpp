// SPDX-License-Identifier: Apache-2.0
// Chooses the `machine` that a call is compiled for. The text of calls/ is the same for CPU and GPU.
#pragma once

#ifdef __CUDACC__
#include "machine_cuda.cuh"
#else
#include "machine_cpu.hpp"
#endif
