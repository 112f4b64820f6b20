// expect: and 64 for kind::mxf4 and kind::mxf4nvf4 (or 96, on sm_103a).
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/ptx/descriptors.hpp>
namespace ptx = fourscale::ptx;
using ptx::block_scaled_mma, ptx::mma_kind, ptx::scale_type;
auto word = ptx::instruction_descriptor<block_scaled_mma{
    .kind = mma_kind::mxf8f6f4, .k = 96, .block_size = 32, .scale = scale_type::ue8m0}>();
