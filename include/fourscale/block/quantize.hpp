// SPDX-License-Identifier: Apache-2.0
// Quantizes and dequantizes one block in the registers of one thread. These functions are the definition:
// every loop, warp and kernel of the library gives their bits.
#pragma once

#include "packed_block.hpp"
#include "quantizer.hpp"

namespace FOURSCALE_NAMESPACE {

/// The largest magnitude of N values, as TE's cast kernels take it: NaN is dropped, infinity stays. 0 if all
/// are NaN.
template <int N>
FOURSCALE_HD constexpr float block_amax(float const (&x)[N]) {
#if FOURSCALE_DEVICE_PASS  // one instruction for each value
  if (!is_constant_evaluated()) {
    float most = x[0];
    FOURSCALE_UNROLL
    for (int i = 1; i < N; ++i) most = ptx::max_xorsign_abs_f32(most, x[i]);
    return bit_cast<float>(amax_bits(most));
  }
#endif
  i32 largest = 0;
  FOURSCALE_UNROLL
  for (int i = 0; i < N; ++i) {
    const i32 magnitude = amax_bits(x[i]);
    largest = magnitude > largest ? magnitude : largest;
  }
  return bit_cast<float>(largest);
}

/// The codes of one block under a known multiplier: one IEEE product for each value, then the rounding
/// policy. `where` is the position of x[0].
template <block_format F, class Round>
requires rounding_policy<Round, typename F::element> FOURSCALE_HD constexpr void round_block(
    float const (&x)[F::block_size], float multiplier, Round const& round, position where,
    u8 (&codes)[block_code_bytes<F>]) {
  using element = typename F::element;
  constexpr bool by_eights = requires(float const(&x8)[8]) { round(element{}, x8, where); };
  constexpr int group = by_eights ? 8 : 4;
  FOURSCALE_UNROLL
  for (int i = 0; i < F::block_size; i += group) {
    float scaled[group]{};
    FOURSCALE_UNROLL
    for (int j = 0; j < group; ++j) scaled[j] = ptx::mul_rn_f32(x[i + j], multiplier);
    const packed<element, group> packed_codes = round(element{}, scaled, where.right(i));
    FOURSCALE_UNROLL
    for (int j = 0; j < packed_codes.bytes; ++j)
      codes[i / group * packed_codes.bytes + j] = packed_codes.byte(j);
  }
}

/// Chooses the scale of a block that lies in one row: from its amax, or, by a policy that weighs two
/// candidates, the second one if its error is smaller and else the first.
template <block_format F, scaling_policy<F> Scale>
FOURSCALE_HD constexpr block_scale<F> choose_scale(float const (&x)[F::block_size], Scale const& scale,
                                                   tensor_scale<F> const& tensor, position where) {
  if constexpr (amax_scaling_policy<Scale, F>) {
    return scale_for<F>(scale, block_amax(x), tensor, where);
  } else {
    block_scale<F> c[2]{{{}, 0.0f}, {{}, 0.0f}};
    scale.candidates(F{}, block_amax(x), tensor, c);
    const float errors[2] = {scale.error(F{}, x, c[0], tensor), scale.error(F{}, x, c[1], tensor)};
    return less_magnitude(errors[1], errors[0]) ? c[1] : c[0];
  }
}

/// Quantizes one block of F::block_size values: transform, amax, scale, multiply, round, pack. Executed by
/// one thread. `tensor` matters only for formats with a tensor scale. `where` is the position of x[0], which
/// random rounding is a function of.
template <block_format F, quantizer_for<F> Quantizer>
FOURSCALE_HD constexpr packed_block<F> quantize_block(float const (&x)[F::block_size], Quantizer const& q,
                                                      tensor_scale<F> const& tensor, position where = {}) {
  float y[F::block_size]{};
  FOURSCALE_UNROLL
  for (int i = 0; i < F::block_size; ++i) y[i] = x[i];
  q.transform(y);
  const block_scale<F> scaled = choose_scale<F>(y, q.scale, tensor, where);
  packed_block<F> block{scaled.scale, {}};
  round_block<F>(y, scaled.multiplier, q.round, where, block.codes);
  return block;
}

/// As above with tensor scale 1; `index` counts blocks along one row.
template <block_format F, quantizer_for<F> Quantizer>
FOURSCALE_HD constexpr packed_block<F> quantize_block(float const (&x)[F::block_size], Quantizer const& q,
                                                      i64 index = 0) {
  return quantize_block<F>(x, q, tensor_scale<F>{}, position{0, index * F::block_size});
}

/// Dequantizes one block: code * factor, rounded once. The factor is the block scale, exactly; under a tensor
/// scale it is (scale * amax) * (1/2688), or 1 / scale for FP8 per tensor. A NaN scale gives NaN, and so does
/// amax = infinity for zeros, as in TE. A NaN is 0x7fff'ffff.
template <block_format F>
FOURSCALE_HD constexpr void dequantize_block(packed_block<F> const& block, float (&y)[F::block_size],
                                             tensor_scale<F> const& tensor) {
  const float factor = tensor.dequantize_factor(decode(block.scale));
  FOURSCALE_UNROLL
  for (int i = 0; i < F::block_size; ++i)
    y[i] = with_nan_of_gpu(ptx::mul_rn_f32(decode(block.get(i)), factor));
}

/// As above with tensor scale 1: code * scale. The product is exact, except that under an FP32 scale it is
/// rounded once.
template <block_format F>
FOURSCALE_HD constexpr void dequantize_block(packed_block<F> const& block, float (&y)[F::block_size]) {
  const float scale = decode(block.scale);
  FOURSCALE_UNROLL
  for (int i = 0; i < F::block_size; ++i)
    y[i] = with_nan_of_gpu(ptx::mul_rn_f32(decode(block.get(i)), scale));
}

}  // namespace FOURSCALE_NAMESPACE
