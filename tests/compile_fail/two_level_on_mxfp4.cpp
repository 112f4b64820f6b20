// expect: two_level needs a format with a tensor scale, such as nvfp4.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/block/quantize.hpp>
namespace f4 = fourscale;
auto quantize(float const (&x)[32]) {
  return f4::quantize_block<f4::mxfp4>(x, f4::quantizer{f4::nearest_even{}, f4::two_level{}});
}
