// expect: two_level_inference needs a format with two levels of scales, such as nvfp4.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/fourscale.hpp>
namespace f4 = fourscale;
auto quantize(float const (&x)[16]) {
  return f4::quantize_block<f4::fp8_e4m3>(x, f4::quantizer{f4::nearest_even{}, f4::two_level_inference{}});
}
