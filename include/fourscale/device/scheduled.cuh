// SPDX-License-Identifier: Apache-2.0
// A recipe as its kernel gets it: what every thread would make of its parameters is made before the launch,
// and read from constant memory.
#pragma once

#include "../block/quantizer.hpp"
#include "../rounding/stochastic.hpp"
#include "../transform/hadamard.hpp"

namespace fourscale::device::detail {

/// hadamard<N, bf16> with its first factors and signs joined.
template <int N>
struct scheduled_hadamard {
  hadamard<N, bf16> transform;
  float factors[N];

  explicit scheduled_hadamard(hadamard<N, bf16> const& h) : transform(h) {
    constexpr float factor = fourscale::detail::hadamard_first_factor<N>();
    for (int i = 0; i < N; ++i) factors[i] = h.signs.negative(i) ? -factor : factor;
  }
  template <int Length>
  FOURSCALE_HD constexpr void operator()(float (&x)[Length]) const {
    transform(x);
  }
};

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
