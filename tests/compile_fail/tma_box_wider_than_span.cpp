// expect: The inner extent of a TMA box fits in the swizzle span: 32, 64 or 128 bytes.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/ptx/descriptors.hpp>
namespace ptx = fourscale::ptx;
auto box = ptx::checked_box<ptx::tma_box{.pattern = ptx::swizzle::b64}>();
