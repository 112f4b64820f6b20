// expect: A Hadamard transform longer than the block must be applied to the matrix first
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/block/quantize.hpp>
#include <fourscale/transform/hadamard.hpp>
namespace f4 = fourscale;
auto quantize(float const (&x)[16]) {
  return f4::quantize_block<f4::nvfp4>(
      x, f4::quantizer{f4::nearest_even{}, f4::two_level{}, f4::hadamard<32>{}});
}
