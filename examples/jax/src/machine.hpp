// SPDX-License-Identifier: Apache-2.0
// `machine`, the one that a call is compiled for: the text of calls/ is the same for all.
#pragma once

#ifdef __CUDACC__
#include "machine_cuda.cuh"
#else
#include "machine_cpu.hpp"
#endif
