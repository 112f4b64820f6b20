// expect: power_of_two_up needs a format with E8M0 scales.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/block/quantize.hpp>
namespace f4 = fourscale;
auto quantize(float const (&x)[16]) {
  return f4::quantize_block<f4::nvfp4>(x, f4::quantizer{f4::nearest_even{}, f4::power_of_two_up{}});
}
