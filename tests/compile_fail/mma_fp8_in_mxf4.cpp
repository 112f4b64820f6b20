// expect: kind::mxf4 and kind::mxf4nvf4 take E2M1 only
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/ptx/descriptors.hpp>
namespace ptx = fourscale::ptx;
auto word = ptx::instruction_descriptor<ptx::block_scaled_mma{.a = ptx::element_type::e4m3}>();
