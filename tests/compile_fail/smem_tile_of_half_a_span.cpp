// expect: K of a tile in shared memory is a whole number of swizzle spans and of instructions
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/ptx/descriptors.hpp>
namespace ptx = fourscale::ptx;
auto word = ptx::smem_descriptor<ptx::k_major_tile{.k = 128}>(0);
