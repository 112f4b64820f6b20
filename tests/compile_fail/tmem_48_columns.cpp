// expect: tcgen05.alloc takes 32, 64, 128, 256 or 512 columns.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/ptx/descriptors.hpp>
namespace ptx = fourscale::ptx;
auto columns = ptx::allocation<48>();
