// expect: 4- and 6-bit operands are K-major only: quantize the transposed matrix instead.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/ptx/descriptors.hpp>
namespace ptx = fourscale::ptx;
auto word = ptx::instruction_descriptor<ptx::block_scaled_mma{.mn_major_b = true}>();
