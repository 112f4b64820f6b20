// expect: fourscale promises bits that parts of -ffast-math break
// flags: -fno-signed-zeros
// only: GNU
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/config.hpp>
