// expect: Tensor memory has 512 columns, and this needs more.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/ptx/descriptors.hpp>
namespace ptx = fourscale::ptx;
auto columns = ptx::allocation_for<513>();
