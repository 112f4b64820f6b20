// expect: K of one tcgen05.mma is 32 for kind::mxf8f6f4 and 64 for kind::mxf4 and kind::mxf4nvf4
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/ptx/descriptors.hpp>
namespace ptx = fourscale::ptx;
auto word = ptx::instruction_descriptor<ptx::block_scaled_mma{.k = 32}>();
