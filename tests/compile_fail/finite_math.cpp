// expect: fourscale promises bits that parts of -ffast-math break
// flags: -ffinite-math-only
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/config.hpp>
