// SPDX-License-Identifier: Apache-2.0
// The concepts of rounding policies, and the default policy, nearest_even. A rounding policy turns scaled
// values into codes, four at a time, because cvt.rs takes 32 random bits for four values.
#pragma once

#include "../formats/convert_lanes.hpp"
#include "../position.hpp"

namespace FOURSCALE_NAMESPACE {

/// A rounding policy for elements F. `round(F{}, x, where)` gives the codes of four consecutive values;
/// `where` is the position of the first. For speed, it may also take eight values. A policy is a trivially
/// copyable value, and the same arguments must give the same codes on every machine.
template <class R, class F>
concept rounding_policy = requires(R const round, float const (&x)[4], position where) {
  packed<F, 4>{round(F{}, x, where)};
};

namespace detail {
/// The values that a fast form is given, as the concept below sees them.
struct any_sixteen_values {
  FOURSCALE_H float value(int) const;
  FOURSCALE_H float magnitude(int) const;
  FOURSCALE_H float saturated(int) const;
  FOURSCALE_H u32 signs(int) const;
};
}  // namespace detail

/// A rounding policy may offer, in addition to its definition, a fast form for E2M1, which kernels then call
/// for sixteen values at a time: `round.fast(v, where, codes)`. It writes eight codes to a word, the first in
/// the lowest nibble. `v.value(i)` is value i times the multiplier of its block, and `v.magnitude(i)` is its
/// magnitude. Both are in units of `R::fast_unit()`, a power of two from 2^-16 to 1: a scaled value of 1 is
/// that float. `v.saturated(i)` is the smaller of `v.magnitude(i)` and the float 1. `v.signs(i)` has the
/// signs of values i to i + 7 in the highest bits of its nibbles. No value is NaN. If `R::fast_limited()`,
/// magnitudes too large for the grid have been lowered to less than 7 and more than 6.5 units. The codes must
/// be those of the definition.
template <class R>
concept fast_rounding_policy = rounding_policy<R, e2m1> &&
    requires(R const round, detail::any_sixteen_values v, position where, u32 (&codes)[2]) {
  float{R::fast_unit()};
  bool{R::fast_limited()};
  round.fast(v, where, codes);
};

/// A fast form that a rounding policy may offer in addition to its definition, for whole matrices on a CPU.
/// `round.encode_lane(F{}, x)` is the code of one value, in the top bits of a word and nothing below. Write
/// it as straight-line arithmetic (see lanes:: in formats/convert_lanes.hpp), so that compilers vectorize it.
template <class R, class F>
concept lane_rounding_policy = rounding_policy<R, F> && requires(R const round, float x) {
  u32{round.encode_lane(F{}, x)};
};

/// The same for a policy that depends on the position of a value. `round.draw_lanes(F{}, where, count,
/// drawn)` writes 16 bits for each of 4 * `count` consecutive values of a row. Each word has the bits of two
/// values, those of the first in its low half; `where` is the position of the first value.
/// `round.encode_lane(F{}, x, bits)` uses the 16 bits of one value.
template <class R, class F>
concept drawing_lane_rounding_policy = rounding_policy<R, F> &&
    requires(R const round, float x, u32 bits, u32* drawn, position where) {
  round.draw_lanes(F{}, where, 1, drawn);
  u32{round.encode_lane(F{}, x, bits)};
};

/// Rounds to the nearest code, ties to the even one, saturating: `cvt.rn.satfinite`.
struct nearest_even {
  template <element_format F>
  FOURSCALE_HD constexpr packed<F, 4> operator()(F, float const (&x)[4], position) const {
    return encode<F>(x);
  }
  template <element_format F>
  FOURSCALE_HD constexpr packed<F, 8> operator()(F, float const (&x)[8], position) const {
    return encode<F>(x);
  }

  FOURSCALE_HD static constexpr float fast_unit() { return arch::has_cvt_narrow ? 1.0f : detail::e2m1_unit; }
  FOURSCALE_HD static constexpr bool fast_limited() { return !arch::has_cvt_narrow; }
  template <class Values>
  FOURSCALE_D FOURSCALE_H void fast([[maybe_unused]] Values const& v, position,
                                    [[maybe_unused]] u32 (&codes)[2]) const {
#if FOURSCALE_DEVICE_PASS
    FOURSCALE_UNROLL
    for (int half = 0; half < 2; ++half) {
      float y[8];
      FOURSCALE_UNROLL
      for (int i = 0; i < 8; ++i)
        y[i] = arch::has_cvt_narrow ? v.value(8 * half + i) : v.magnitude(8 * half + i);
      if constexpr (arch::has_cvt_narrow)
        codes[half] = encode<e2m1>(y).bits;
      else
        codes[half] = detail::nearest_e2m1x8(y, v.signs(8 * half));
    }
#endif
  }

  template <element_format F>
  FOURSCALE_HD constexpr u32 encode_lane(F, float x) const {
    return lanes::encode_nearest<F>(x);
  }
};

}  // namespace FOURSCALE_NAMESPACE
