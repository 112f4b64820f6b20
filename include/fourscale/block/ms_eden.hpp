// SPDX-License-Identifier: Apache-2.0
// MS-EDEN quantizes gradients to 4 bits with little bias, at the error of rounding to nearest. A random
// rotation of 128 values comes first; then the codes are rounded to nearest. The block scales are corrected
// for the shrinkage and rounded stochastically. Quartet II, arXiv 2601.22813. Whole matrices:
// host/ms_eden.hpp, device/ms_eden.cuh.
#pragma once

#include "../transform/hadamard.hpp"
#include "quantize.hpp"

namespace FOURSCALE_NAMESPACE {

/// Quantizes to NVFP4 in groups of 128 values, 8 blocks. Pass new signs to `transform` for every use. `bits`
/// decides how the scales are rounded.
///
/// The correction makes the mean of the result, over fresh signs and fresh random bits, as long as x along x:
/// <x, mean> = <x, x>, but for the rounding of rotated values to bf16. The codes alone, without their
/// corrected scales, are shorter. Were the rotation uniform, the mean would be x. Hadamard rotations by
/// random signs come close to that where many values of a group are of one size. Where a few outweigh all
/// others a bias stays: a group of 1, 1/2, 1/4 and zeros has the mean 1.02, 0.44, 0.29.
template <random_bits Bits>
struct ms_eden {
  static constexpr int group_size = 128;
  /// Where the block scale was rounded down as far as E4M3 can round it (by 16/17), the block amax is brought
  /// to 6 / 0.93 and clips at 6: clipping that much costs less than it gains.
  static constexpr float largest_code = static_cast<float>(6.0 / (17.0 / 16.0 * 0.93));
  static constexpr float largest_scale = 255.99f;  ///< leaves room in E4M3 for the correction of a scale

  Bits bits;
  hadamard<group_size> transform;

  FOURSCALE_HD constexpr ms_eden(Bits b, sign_vector signs) : bits(b), transform(signs) {}

  FOURSCALE_HD constexpr tensor_scale<nvfp4> tensor(nvfp4, float amax) const {
    return tensor_scale<nvfp4>(amax, largest_code * largest_scale);
  }

  /// Quantizes 128 values to which `transform` has already been applied. `where` is the position of the
  /// first.
  FOURSCALE_HD constexpr void operator()(float const (&y)[group_size], tensor_scale<nvfp4> const& tensor,
                                         position where, packed_block<nvfp4> (&blocks)[8]) const {
    double yy = 0.0, yq = 0.0;
    for (int b = 0; b < 8; ++b) nearest(y, b, tensor, blocks[b], yy, yq);
    // A group that is all zero, or not finite, gets no correction.
    const float correction = yq > 0.0 && yy <= 0x1p1000 ? static_cast<float>(yy / yq) : 1.0f;
    for (int b = 0; b < 8; ++b)
      blocks[b].scale = encode_stochastic_scale<e4m3>(ptx::mul_rn_f32(decode(blocks[b].scale), correction),
                                                      bits(where.right(b * nvfp4::block_size)));
  }

 private:
  /// Rounds block b to nearest, and adds its <y, y> and <y, Q> to yy and yq in the order of the elements; Q
  /// are the dequantized codes. Products of floats are exact in double.
  static FOURSCALE_HD constexpr void nearest(float const (&y)[group_size], int b,
                                             tensor_scale<nvfp4> const& tensor, packed_block<nvfp4>& block,
                                             double& yy, double& yq) {
    constexpr int n = nvfp4::block_size;
    float x[n]{}, q[n]{};
    for (int i = 0; i < n; ++i) x[i] = y[b * n + i];
    const float s = ptx::mul_rn_f32(block_amax(x), ptx::mul_rn_f32(tensor.encode, 1.0f / largest_code));
    const block_scale<nvfp4> scaled = detail::store_scale<nvfp4>(s, tensor);
    block.scale = scaled.scale;
    round_block<nvfp4>(x, scaled.multiplier, nearest_even{}, position{}, block.codes);
    dequantize_block(block, q, tensor);
    for (int i = 0; i < n; ++i) {
      yy += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      yq += static_cast<double>(x[i]) * static_cast<double>(q[i]);
    }
  }
};

}  // namespace FOURSCALE_NAMESPACE
