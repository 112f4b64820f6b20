// SPDX-License-Identifier: Apache-2.0
// NVFP4's block scale as inference engines compute it. It differs from two_level in the order of evaluation,
// and a block whose scale is stored as 0 gets codes of 0.
#pragma once

#include "two_level.hpp"

namespace FOURSCALE_NAMESPACE {

namespace detail {

/// 1 / x, rounded once; subnormals count as zero, both as x and as the result. rcp.approx.ftz.f32
/// approximates this function to within 1 ulp (PTX ISA 9.7.3.13).
FOURSCALE_HD constexpr float rcp_flushed(float x) {
  constexpr u32 sign_bit = 0x8000'0000u, least_normal = 0x0080'0000u;
  const u32 u = bit_cast<u32>(x), sign = u & sign_bit;
  if ((u & ~sign_bit) < least_normal) return bit_cast<float>(sign | float_inf_bits);
  const float inverse = ptx::rcp_rn_f32(x);
  return (bit_cast<u32>(inverse) & ~sign_bit) < least_normal ? bit_cast<float>(sign) : inverse;
}

}  // namespace detail

/// vLLM's scaled_fp4_quant (nvfp4_utils.cuh, cvt_warp_fp16_to_fp4): s = encode * (amax * (1/6)), two
/// roundings, stored to nearest even; above 448 it is stored as 448. The multiplier is 1 / (stored * (1 /
/// encode)), three roundings. Where 0 is stored, the multiplier is 0: the codes of such a block are zero,
/// where those of two_level saturate. Both dequantize to zero.
///
/// vLLM inverts by rcp.approx.ftz. Its flush of subnormals is kept here: where stored / encode is subnormal,
/// or encode is above 2^126, the multiplier is infinite, and all codes of the block saturate, zeros too. Its
/// error of 1 ulp is not kept. On an H100 this error moves a fifth of the multipliers, but it moves a code
/// only at a midpoint: none of 2^34 random bf16 under a tensor amax of 24 bits; under one of 8 bits, where
/// exact midpoints are common, one in 8000 of all pairs of significands.
///
/// vLLM's global_scale is the encode scale: tensor_scale<nvfp4>::from_encode_scale(global_scale).
struct two_level_inference {
  template <block_format F>
  FOURSCALE_HD constexpr block_scale<F> operator()(F, float amax, tensor_scale<F> const& tensor) const {
    static_assert(F::has_tensor_scale && block_scale_bytes<F> != 0,
                  "two_level_inference needs a format with two levels of scales, such as nvfp4.");
    constexpr float sixth = 1.0f / largest_element<typename F::element>;
    const auto code = encode<typename F::scale>(ptx::mul_rn_f32(tensor.encode, ptx::mul_rn_f32(amax, sixth)));
    const float stored = decode(code);
    if (stored == 0.0f) return {code, 0.0f};
    return {code, detail::rcp_flushed(ptx::mul_rn_f32(stored, detail::rcp_flushed(tensor.encode)))};
  }
};

}  // namespace FOURSCALE_NAMESPACE
