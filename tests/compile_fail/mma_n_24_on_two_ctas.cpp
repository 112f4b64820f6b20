// expect: N of a block-scaled tcgen05.mma is 8, 16, ..., 256, and with cta_group::2 16, 32, ..., 256.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/ptx/descriptors.hpp>
namespace ptx = fourscale::ptx;
auto word = ptx::instruction_descriptor<ptx::block_scaled_mma{.cta_group = 2, .n = 24}>();
