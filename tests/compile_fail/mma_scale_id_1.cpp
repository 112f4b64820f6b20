// expect: A scale id is 0 with blocks of 16, 0 or 2 with blocks of 32 in kind::mxf4
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/ptx/descriptors.hpp>
namespace ptx = fourscale::ptx;
auto word = ptx::instruction_descriptor<ptx::block_scaled_mma{.sfa_id = 1}>();
