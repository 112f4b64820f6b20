// SPDX-License-Identifier: Apache-2.0
// One block of raw values by one thread: quantize_block() in fewer instructions. On sm_89 and sm_90, which
// have no E2M1 instructions, 16-bit values are first quantized as if no care were needed: no NaN, nothing
// beyond the largest code, no scale near the end of its range. Blocks where that was wrong are done again.
#pragma once

#include "../rounding/stochastic.hpp"
#include "../transform/hadamard.hpp"
#include "raw.cuh"

namespace fourscale::device::detail {

/// quantize_block() of raw values.
template <class F, class T, class Quantizer>
FOURSCALE_D packed_block<F> quantize_raw(raw_block<T, F::block_size> const& block, Quantizer const& recipe,
                                         tensor_scale<F> const& tensor, position where) {
  float values[F::block_size];
  to_floats(block, values);
  if constexpr (__is_same(decltype(recipe.transform), identity) &&
                amax_scaling_policy<decltype(recipe.scale), F>) {
    const block_scale<F> scaled = scale_for<F>(recipe.scale, raw_amax(block), tensor, where);
    packed_block<F> packed{scaled.scale, {}};
    round_block<F>(values, scaled.multiplier, recipe.round, where, packed.codes);
    return packed;
  } else {
    return quantize_block<F>(values, recipe, tensor, where);
  }
}

/// A recipe as its kernel gets it: keys that every thread would make are made before the launch.
template <class Quantizer>
Quantizer scheduled(Quantizer const& recipe) {
  return recipe;
}
template <int Rounds, class Scale, class Transform>
auto scheduled(quantizer<stochastic<philox<Rounds>>, Scale, Transform> const& recipe) {
  return quantizer{stochastic{scheduled_philox<Rounds>(recipe.round.bits)}, recipe.scale, recipe.transform};
}

/// A result that holds only if `valid`.
template <class F>
struct attempt {
  packed_block<F> block;
  bool valid;
};

template <class Transform>
inline constexpr bool gives_bf16 = false;
template <int N>
inline constexpr bool gives_bf16<hadamard<N, bf16>> = true;
template <class Round>
inline constexpr bool is_stochastic = false;
template <class Bits>
inline constexpr bool is_stochastic<stochastic<Bits>> = true;

/// Is there a quick way for blocks of F of type T? Differs between passes: to be read as arch:: is.
template <class F, class T, class Quantizer>
FOURSCALE_HD constexpr bool has_quick_way() {
  using round = decltype(Quantizer::round);
  using transform = decltype(Quantizer::transform);
  return arch::has_cvt_fma && __is_same(typename F::element, e2m1) && is_short<T> &&
         amax_scaling_policy<decltype(Quantizer::scale), F> &&
         (__is_same(round, nearest_even) || is_stochastic<round>)&&(__is_same(transform, identity) ||
                                                                    gives_bf16<transform>);
}

#if FOURSCALE_HAS_CVT_FMA

template <class T, int N>
FOURSCALE_D raw_block<T, N> transformed(raw_block<T, N> const& block, identity) {
  return block;
}
template <class T, int N, int M>
FOURSCALE_D raw_block<bf16, N> transformed(raw_block<T, N> const& block, hadamard<M, bf16> const& transform) {
  float x[N];
  to_floats(block, x);
  hadamard<M, float>{transform.signs}(x);
  raw_block<bf16, N> y;
  FOURSCALE_UNROLL
  for (int i = 0; i < N; i += 2) y.w[i / 2] = ptx::cvt_rn_bf16x2_f32(x[i + 1], x[i]);
  return y;
}

/// The signs of eight 16-bit values, each at the highest bit of its nibble.
FOURSCALE_D inline u32 nibble_signs(u32 const* w) {
  const u32 a = __byte_perm(w[0], w[1], 0x7351), b = __byte_perm(w[2], w[3], 0x7351);
  const u32 even = __byte_perm(a, b, 0x5410), odd = __byte_perm(a, b, 0x7632);
  return (even >> 4 & 0x0f0f'0f0fu) | (odd & 0xf0f0'f0f0u);
}

/// Eight values and their signs under a multiplier, by either kind of policy.
FOURSCALE_D inline u32 round_quickly(nearest_even, float const (&x)[8], u32 signs, float multiplier,
                                     position) {
  const float to_units = ptx::mul_rn_f32(multiplier, fourscale::detail::e2m1_unit);  // exact
  float y[8];
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i) y[i] = ptx::mul_rn_f32(x[i], to_units);
  return fourscale::detail::nearest_e2m1x8(y, signs);
}
template <class Bits>
FOURSCALE_D u32 round_quickly(stochastic<Bits> const& round, float const (&x)[8], u32 signs, float multiplier,
                              position where) {
  const float to_units = ptx::mul_rn_f32(multiplier, fourscale::detail::stochastic_unit);  // exact
  float y[8];
  FOURSCALE_UNROLL
  for (int i = 0; i < 8; ++i)
    y[i] = ptx::mul_rn_f32(bit_cast<float>(bit_cast<u32>(x[i]) & 0x7fff'ffffu), to_units);
  return fourscale::detail::stochastic_e2m1x8(y, signs, round.bits(where), round.bits(where.right(4)));
}

/// The codes of a block under a known multiplier, if is_quick(amax, multiplier).
template <class F, class T, class Round>
FOURSCALE_D void round_block_quickly(raw_block<T, F::block_size> const& block, float multiplier,
                                     Round const& round, position where, u8 (&codes)[block_code_bytes<F>]) {
  FOURSCALE_UNROLL
  for (int i = 0; i < F::block_size; i += 8) {
    float x[8];
    FOURSCALE_UNROLL
    for (int j = 0; j < 8; ++j) x[j] = to_float(block.get(i + j));
    const u32 word = round_quickly(round, x, nibble_signs(block.w + i / 2), multiplier, where.right(i));
    FOURSCALE_UNROLL
    for (int j = 0; j < 4; ++j) codes[i / 2 + j] = static_cast<u8>(word >> (8 * j));
  }
}

/// `amax` NaN if any value is. From 7 on a value would round to 8; below 2^-112 the product with a unit would
/// not be exact.
FOURSCALE_D inline bool is_quick(float amax, float multiplier) {
  return ptx::mul_rn_f32(amax, multiplier) < 7.0f && multiplier >= 0x1p-112f;
}

#endif

/// quantize_raw(), where there is a quick way with the question whether it held.
template <class F, class T, class Quantizer>
FOURSCALE_D attempt<F> try_quantize_raw(raw_block<T, F::block_size> const& block, Quantizer const& recipe,
                                        tensor_scale<F> const& tensor, position where) {
#if FOURSCALE_HAS_CVT_FMA
  if constexpr (has_quick_way<F, T, Quantizer>()) {
    const auto y = transformed(block, recipe.transform);
    using value = decltype(y.get(0));
    const float amax = pair_amax<value, true>(block_magnitudes<value, true>(y));
    const block_scale<F> scaled = scale_for<F>(recipe.scale, amax, tensor, where);
    attempt<F> result{{scaled.scale, {}}, is_quick(amax, scaled.multiplier)};
    round_block_quickly<F>(y, scaled.multiplier, recipe.round, where, result.block.codes);
    return result;
  }
#endif
  return {quantize_raw<F>(block, recipe, tensor, where), true};
}

}  // namespace fourscale::device::detail
