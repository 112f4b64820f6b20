// expect: fourscale promises bits that parts of -ffast-math break
// flags: -funsafe-math-optimizations
// only: GNU
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/config.hpp>
