// expect: fourscale promises bits that parts of -ffast-math break
// flags: -fassociative-math -fno-signed-zeros -fno-trapping-math
// only: GNU
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/config.hpp>
