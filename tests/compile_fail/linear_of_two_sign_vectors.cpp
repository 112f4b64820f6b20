// expect: Both operands of wgrad need the same Hadamard transform under the same signs
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/recipe/linear.hpp>
#include <fourscale/recipe/presets.hpp>
namespace f4 = fourscale;
constexpr f4::linear_recipe other_signs() {
  f4::linear_recipe r = f4::presets::te_nvfp4().linear;
  r.wgrad.b.signs = f4::sign_source::none;
  return r;
}
f4::linear_tensors<other_signs()> tensors;
