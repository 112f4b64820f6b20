// expect: GEMMs in bf16 are the caller's.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/recipe/linear.hpp>
#include <fourscale/recipe/presets.hpp>
namespace f4 = fourscale;
f4::linear_tensors<f4::presets::bf16().linear> tensors;
