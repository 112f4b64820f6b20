// expect: Scales are UE8M0 per 32 elements for every kind, and UE4M3 or UE8M0 per 16 for kind::mxf4nvf4.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/ptx/descriptors.hpp>
namespace ptx = fourscale::ptx;
auto word = ptx::instruction_descriptor<ptx::block_scaled_mma{.block_size = 32}>();
