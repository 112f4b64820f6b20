// expect: fourscale promises bits that need float arithmetic in float
// flags: -m32 -mno-sse
// only: x86_64
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/config.hpp>
