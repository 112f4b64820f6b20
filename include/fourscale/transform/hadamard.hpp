// SPDX-License-Identifier: Apache-2.0
// The random Hadamard transform y = H * diag(signs) * x / sqrt(N), in the registers of one thread. H is
// Sylvester's matrix: H[i][j] = (-1)^popcount(i & j). arXiv 2509.25149 section 3.2 and Transformer Engine's
// RHT (N = 16).
#pragma once

#include "../formats/real.hpp"
#include "../ptx/arith.hpp"
#include "signs.hpp"

namespace FOURSCALE_NAMESPACE {

namespace detail {

/// 2^-floor(log2(N) / 2), the part of 1 / sqrt(N) that is a power of two. The product with it is exact and
/// comes first, so that no sum is larger than it must be. If N is an odd power of two, the rest of 1 /
/// sqrt(N) is one product at the end.
template <int N>
FOURSCALE_HD constexpr float hadamard_first_factor() {
  float f = 1.0f;
  for (int n = N; n >= 4; n /= 4) f *= 0.5f;
  return f;
}
template <int N>
inline constexpr bool is_odd_power_of_two = (N & 0x2aaa'aaaa) != 0;
inline constexpr float sqrt_half = 0x1.6a09e6p-1f;

/// The first step for each input: the product with the factor, and the sign.
FOURSCALE_HD constexpr float hadamard_input(float x, float factor, u32 sign) {
  return ptx::mul_rn_f32(x, bit_cast<float>(bit_cast<u32>(factor) ^ sign));
}

/// The butterflies of N values from x[first] on, at the distances From, 2 * From, ..., N / 2.
template <int N, int From, int Length>
FOURSCALE_HD constexpr void hadamard_additions(float (&x)[Length], int first) {
  FOURSCALE_UNROLL
  for (int half = From; half < N; half *= 2) {
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) {
      if (i & half) continue;
      const float a = x[first + i], b = x[first + i + half];
      x[first + i] = ptx::add_rn_f32(a, b);
      x[first + i + half] = ptx::add_rn_f32(a, -b);
    }
  }
}

/// The last step for each result: the rest of 1 / sqrt(N), and rounding to `Rounded`.
template <int N, real Rounded>
FOURSCALE_HD constexpr float hadamard_result(float y) {
  if constexpr (is_odd_power_of_two<N>) y = ptx::mul_rn_f32(y, sqrt_half);
  return to_float(from_float<Rounded>(y));
}

}  // namespace detail

template <int N>
struct prepared_hadamard;

/// Transforms N = 2, 4, ..., 128 consecutive values in place; longer arrays are transformed N by N. Before
/// the amax of the block is taken, each result is rounded to `Rounded`: bf16 as in TE, or float for no
/// rounding.
///
/// Exactness (N = 4, 16, 64; bf16 inputs): a butterfly of log2(N) additions, rounded to nearest. While the
/// exponents of the nonzero inputs spread over at most 16 - log2(N) binades (12 for N = 16), no addition
/// rounds, so the result is the correctly rounded sum, which every order of summation gives. Beyond that
/// spread the sum is within log2(N) * 2^-24 * sum |x| / sqrt(N) of the exact one: 2^-20 * max |x| for N = 16.
/// For N = 2, 8, 32, 128 the product with sqrt(1/2) adds one rounding.
template <int N, real Rounded = bf16>
struct hadamard {
  static_assert(N >= 2 && N <= 128 && (N & (N - 1)) == 0,
                "A Hadamard transform has 2, 4, 8, ..., 128 elements.");

  sign_vector signs;

  FOURSCALE_HD constexpr hadamard(sign_vector s = {}) : signs(s) {}

  template <int Length>
  FOURSCALE_HD constexpr void operator()(float (&x)[Length]) const {
    static_assert(
        Length % N == 0,
        "A Hadamard transform longer than the block must be applied to the matrix first: see transform() of "
        "host/ and device/.");
    FOURSCALE_UNROLL
    for (int first = 0; first < Length; first += N) tile(x, first);
  }

  /// The form that kernels take: see prepared_hadamard.
  FOURSCALE_H auto prepared() const {
    if constexpr (same_type<Rounded, bf16>)
      return prepared_hadamard<N>(*this);
    else
      return *this;
  }

  /// Fast form: see lane_transform_policy.
  template <int Length>
  FOURSCALE_HD constexpr void transform_lanes(float* x, int count) const {
    const int all = count * Length;
    u32 masks[N]{};
    for (int i = 0; i < N; ++i) masks[i] = signs.mask(i);
    constexpr float factor = detail::hadamard_first_factor<N>();
    for (int first = 0; first < all; first += N)
      for (int i = 0; i < N; ++i) x[first + i] = detail::hadamard_input(x[first + i], factor, masks[i]);
    add_lanes<1>(x, all);
    for (int i = 0; i < all; ++i) x[i] = detail::hadamard_result<N, Rounded>(x[i]);
  }

 private:
  /// hadamard_additions() for all tiles, one distance after the other.
  template <int Half>
  static FOURSCALE_HD constexpr void add_lanes(float* x, int all) {
    for (int first = 0; first < all; first += 2 * Half)
      for (int i = first; i < first + Half; ++i) {
        const float a = x[i], b = x[i + Half];
        x[i] = a + b;
        x[i + Half] = a - b;
      }
    if constexpr (2 * Half < N) add_lanes<2 * Half>(x, all);
  }

  template <int Length>
  FOURSCALE_HD constexpr void tile(float (&x)[Length], int first) const {
    constexpr float factor = detail::hadamard_first_factor<N>();
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) x[first + i] = detail::hadamard_input(x[first + i], factor, signs.mask(i));
    detail::hadamard_additions<N, 1>(x, first);
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) x[first + i] = detail::hadamard_result<N, Rounded>(x[first + i]);
  }
};

/// hadamard<N, bf16> with each sign folded into the first factor, on the host. The fast form, sums(), takes a
/// block of 16-bit values and gives its results before they are rounded to bf16.
template <int N>
struct prepared_hadamard {
  hadamard<N, bf16> transform;
  float factors[N];

  FOURSCALE_H explicit prepared_hadamard(hadamard<N, bf16> const& h) : transform(h) {
    constexpr float factor = detail::hadamard_first_factor<N>();
    for (int i = 0; i < N; ++i) factors[i] = h.signs.negative(i) ? -factor : factor;
  }
  template <int Length>
  FOURSCALE_HD constexpr void operator()(float (&x)[Length]) const {
    transform(x);
  }
  /// Products with the first factor are exact, so the first addition is fused with one of its products.
  template <class Block, int Length>
  FOURSCALE_D FOURSCALE_H void sums([[maybe_unused]] Block const& block,
                                    [[maybe_unused]] float (&x)[Length]) const {
#if FOURSCALE_DEVICE_PASS
    FOURSCALE_UNROLL
    for (int i = 0; i < Length; i += 2) {
      const float a = block.value(i), b = ptx::mul_rn_f32(block.value(i + 1), factors[(i + 1) % N]);
      x[i] = __fmaf_rn(a, factors[i % N], b);
      x[i + 1] = __fmaf_rn(a, factors[i % N], -b);
    }
    FOURSCALE_UNROLL
    for (int first = 0; first < Length; first += N) detail::hadamard_additions<N, 2>(x, first);
    FOURSCALE_UNROLL
    for (int i = 0; i < Length; ++i) x[i] = detail::hadamard_result<N, float>(x[i]);
#endif
  }
};

}  // namespace FOURSCALE_NAMESPACE
