// expect: fp8_block_scale needs a format with FP32 scales.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/block/quantize.hpp>
namespace f4 = fourscale;
auto quantize(float const (&x)[32]) {
  return f4::quantize_block<f4::mxfp8>(x, f4::quantizer{f4::nearest_even{}, f4::fp8_block_scale{}});
}
