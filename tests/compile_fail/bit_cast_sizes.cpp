// expect: bit_cast needs two types of the same size.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/bits.hpp>
auto bits = fourscale::bit_cast<fourscale::u16>(1.0f);
