// expect: fourscale needs CUDA 12.9 or later
// flags: -D__CUDACC_VER_MAJOR__=12 -D__CUDACC_VER_MINOR__=8
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/config.hpp>
