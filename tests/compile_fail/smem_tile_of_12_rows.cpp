// expect: Rows of an operand in shared memory come in groups of eight, 8 to 256 of them.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/ptx/descriptors.hpp>
namespace ptx = fourscale::ptx;
auto word = ptx::smem_descriptor<ptx::k_major_tile{.rows = 12}>(0);
