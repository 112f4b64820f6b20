// expect: four_over_six is a rule for nvfp4.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/block/quantize.hpp>
#include <fourscale/scaling/four_over_six.hpp>
namespace f4 = fourscale;
auto quantize(float const (&x)[16]) {
  return f4::quantize_block<f4::nvint4>(x, f4::quantizer{f4::nearest_even{}, f4::four_over_six<>{}});
}
