// SPDX-License-Identifier: Apache-2.0
#include <fourscale/fourscale.hpp>

namespace f4 = fourscale;

static_assert(f4::encode<f4::e2m1>(5.0f).bits == 6);  // 4: half-way between 4 and 6, and its code is even

int main(int argc, char**) { return f4::encode<f4::e2m1>(argc > 0 ? 5.0f : 0.0f).bits == 6 ? 0 : 1; }
