// expect: fourscale promises bits that -ffast-math breaks
// flags: -ffast-math
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/config.hpp>
