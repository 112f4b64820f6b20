// SPDX-License-Identifier: Apache-2.0
// A recipe as its kernel gets it: what every thread would make of its parameters is made before the launch,
// and read from constant memory.
#pragma once

#include "../block/quantizer.hpp"
#include "../rounding/stochastic.hpp"
#include "../transform/hadamard.hpp"
#include "raw.cuh"

namespace fourscale::device::detail {

/// hadamard<N, bf16> with its signs as bits, and joined with its first factor.
template <int N>
struct scheduled_hadamard {
  static constexpr float factor = fourscale::detail::hadamard_first_factor<N>();

  hadamard<N, bf16> transform;
  float factors[N];
  alignas(16) u32 signs[N];
  u32 upper = 0xffff'0000u;  ///< read from here, not known to the compiler: see half_as_float()

  explicit scheduled_hadamard(hadamard<N, bf16> const& h) : transform(h) {
    for (int i = 0; i < N; ++i) {
      factors[i] = h.signs.negative(i) ? -factor : factor;
      signs[i] = h.signs.mask(i);
    }
  }
  template <int Length>
  FOURSCALE_HD constexpr void operator()(float (&x)[Length]) const {
    transform(x);
  }
  /// The transform of 16-bit values, not yet rounded. Their products with the first factor are exact, so that
  /// the first addition may be fused with one.
  template <class Block, int Length>
  FOURSCALE_D void sums(Block const& block, float (&x)[Length]) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < Length; i += 2) {
      const float a = to_float(block.get(i)),
                  b = ptx::mul_rn_f32(to_float(block.get(i + 1)), factors[(i + 1) % N]);
      x[i] = __fmaf_rn(a, factors[i % N], b);
      x[i + 1] = __fmaf_rn(a, factors[i % N], -b);
    }
    add<2>(x);
  }
  /// The same over the first factor, a power of two, in fewer instructions. Every rounding is the same but
  /// where a sum is infinite only without the factor, or a result not normal with it.
  template <class Block, int Length>
  FOURSCALE_D void sums_over_factor(Block const& block, float (&x)[Length]) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < Length; ++i) x[i] = signed_value(block, i, signs[i % N], upper);
    add<1>(x);
  }

 private:
  template <int From, int Length>
  static FOURSCALE_D void add(float (&x)[Length]) {
    FOURSCALE_UNROLL
    for (int first = 0; first < Length; first += N) fourscale::detail::hadamard_additions<N, From>(x, first);
    FOURSCALE_UNROLL
    for (int i = 0; i < Length; ++i) x[i] = fourscale::detail::hadamard_result<N, float>(x[i]);
  }
};

template <class Transform>
inline constexpr bool is_scheduled = false;
template <int N>
inline constexpr bool is_scheduled<scheduled_hadamard<N>> = true;

template <class Policy>
Policy scheduled(Policy const& policy) {
  return policy;
}
template <int Rounds>
auto scheduled(stochastic<philox<Rounds>> const& round) {
  return stochastic{scheduled_philox<Rounds>(round.bits)};
}
template <int N>
auto scheduled(hadamard<N, bf16> const& transform) {
  return scheduled_hadamard<N>(transform);
}
template <class Round, class Scale, class Transform>
auto scheduled(quantizer<Round, Scale, Transform> const& recipe) {
  return quantizer{scheduled(recipe.round), recipe.scale, scheduled(recipe.transform)};
}

}  // namespace fourscale::device::detail
