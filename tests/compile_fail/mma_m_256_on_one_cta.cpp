// expect: M of a block-scaled tcgen05.mma is 128, or 256 with cta_group::2.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/ptx/descriptors.hpp>
namespace ptx = fourscale::ptx;
auto word = ptx::instruction_descriptor<ptx::block_scaled_mma{.m = 256}>();
