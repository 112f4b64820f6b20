// SPDX-License-Identifier: Apache-2.0
// The Hadamard transform of values that are spread over the lanes of a warp, with the bits of
// transform/hadamard.hpp, which needs all values in one thread.
#pragma once

#include "../transform/hadamard.hpp"

namespace FOURSCALE_NAMESPACE::warp {

/// Transforms N values that N / PerLane neighbouring lanes hold: lane l of such a group has elements l *
/// PerLane .. l * PerLane + PerLane - 1. All lanes of the warp call it together; `lane` is 0..31. Result,
/// order and exactness are those of fourscale::hadamard<N, Rounded>, bit for bit: it is the same butterfly,
/// with shuffles for its far stages.
template <int N, int PerLane, real Rounded = bf16>
FOURSCALE_D void hadamard(float (&x)[PerLane], sign_vector signs, int lane) {
  static_assert(N >= 2 && N <= 128 && (N & (N - 1)) == 0,
                "A Hadamard transform has 2, 4, 8, ..., 128 elements.");
  static_assert(N % PerLane == 0 && N / PerLane <= 32, "The lanes of one warp must hold the elements.");
  constexpr float factor = ::fourscale::detail::hadamard_first_factor<N>();
  const int first = lane % (N / PerLane) * PerLane;
  static_assert(PerLane <= 32, "A lane has at most 32 elements.");
  const u64 from_first = (first < 64 ? signs.words[0] : signs.words[1]) >> (first % 64);
  FOURSCALE_UNROLL
  for (int i = 0; i < PerLane; ++i)
    x[i] = ::fourscale::detail::hadamard_input(x[i], factor,
                                               static_cast<u32>(from_first) << (31 - i) & 0x8000'0000u);
  ::fourscale::detail::hadamard_additions<PerLane, 1>(x, 0);
  FOURSCALE_UNROLL
  for (int half = PerLane; half < N; half *= 2) {
    const float sign = first & half ? -1.0f : 1.0f;  // an exact product: rounds as an addition does
    FOURSCALE_UNROLL
    for (int i = 0; i < PerLane; ++i)
      x[i] = __fmaf_rn(x[i], sign, __shfl_xor_sync(0xffff'ffffu, x[i], half / PerLane));
  }
  FOURSCALE_UNROLL
  for (int i = 0; i < PerLane; ++i) x[i] = ::fourscale::detail::hadamard_result<N, Rounded>(x[i]);
}

}  // namespace FOURSCALE_NAMESPACE::warp
