// SPDX-License-Identifier: Apache-2.0
// Stochastic rounding policies, for gradients: a value is rounded up or down with such a probability that the
// mean is the value.
#pragma once

#include "../formats/convert_lanes.hpp"
#include "../ptx/arith.hpp"
#include "philox.hpp"

namespace FOURSCALE_NAMESPACE {

namespace detail {

/// Writes the random words of 4 * `count` elements from `where` on, one word for each four. Takes the fast
/// form of `bits` if there is one and `where` is in a column that is a multiple of 16.
template <random_bits Bits>
FOURSCALE_HD constexpr void draw_words(Bits const& bits, position where, int count, u32* words) {
  int done = 0;
  if constexpr (lane_random_bits<Bits>)
    if (where.col % 16 == 0) {
      bits.draw_lanes(where, count / 4, words);
      done = count / 4 * 4;
    }
  for (; done < count; ++done) words[done] = bits(where.right(4 * done));
}

/// Draws as draw_words() does and writes two words for each random word, one for each pair of its four
/// elements: of_pair(word, 0) and of_pair(word, 1).
template <random_bits Bits, class OfPair>
FOURSCALE_HD constexpr void draw_pairs(Bits const& bits, position where, int count, u32* drawn,
                                       OfPair of_pair) {
  constexpr int most = 64;
  for (int done = 0; done < count; done += most) {
    const int left = count - done, n = left < most ? left : most;
    u32 words[most];
    draw_words(bits, where.right(4 * done), n, words);
    for (int i = 0; i < n; ++i) {
      drawn[2 * (done + i)] = of_pair(words[i], 0);
      drawn[2 * (done + i) + 1] = of_pair(words[i], 1);
    }
  }
}

}  // namespace detail

/// Rounds as the instruction cvt.rs does, with 16 random bits for each element. `bits` is any random_bits: a
/// philox, or your own. Over all random words, the mean of the magnitude is |x| minus less than 2^-16 of the
/// step between codes. Values beyond the largest code saturate.
template <random_bits Bits = philox<>>
struct stochastic {
  Bits bits;

  FOURSCALE_HD constexpr stochastic(Bits b = {}) : bits(b) {}

  template <element_format F>
  FOURSCALE_HD constexpr packed<F, 4> operator()(F, float const (&x)[4], position where) const {
    return encode_stochastic<F>(x, bits(where));
  }
  template <element_format F>
  FOURSCALE_HD constexpr packed<F, 8> operator()(F, float const (&x)[8], position where) const {
    return encode_stochastic<F>(x, bits(where), bits(where.right(4)));
  }

  /// The form that kernels take: what every thread would compute from the parameters of `bits` is computed
  /// once.
  FOURSCALE_H auto prepared() const {
    if constexpr (requires { bits.prepared(); })
      return stochastic<decltype(bits.prepared())>{bits.prepared()};
    else
      return *this;
  }

  FOURSCALE_HD static constexpr float fast_unit() {
    return arch::has_cvt_rs ? 1.0f : detail::stochastic_unit;
  }
  FOURSCALE_HD static constexpr bool fast_limited() { return false; }
  template <class Values>
  FOURSCALE_D FOURSCALE_H void fast([[maybe_unused]] Values const& v, [[maybe_unused]] position where,
                                    [[maybe_unused]] u32 (&codes)[2]) const {
#if FOURSCALE_DEVICE_PASS
    u32 words[4];
    if constexpr (requires { bits.of_sixteen(where); }) {
      const philox_words four = bits.of_sixteen(where);
      FOURSCALE_UNROLL
      for (int i = 0; i < 4; ++i) words[i] = four.words[i];
    } else {
      FOURSCALE_UNROLL
      for (int i = 0; i < 4; ++i) words[i] = bits(where.right(4 * i));
    }
    FOURSCALE_UNROLL
    for (int half = 0; half < 2; ++half) {
      float y[8];
      FOURSCALE_UNROLL
      for (int i = 0; i < 8; ++i) y[i] = arch::has_cvt_rs ? v.value(8 * half + i) : v.saturated(8 * half + i);
      if constexpr (arch::has_cvt_rs)
        codes[half] = encode_stochastic<e2m1>(y, words[2 * half], words[2 * half + 1]).bits;
      else
        codes[half] = detail::stochastic_e2m1x8(y, v.signs(8 * half), words[2 * half], words[2 * half + 1]);
    }
#endif
  }

  /// Fast form: see drawing_lane_rounding_policy.
  template <element_format F>
  FOURSCALE_HD constexpr void draw_lanes(F, position where, int count, u32* drawn) const {
    detail::draw_pairs(bits, where, count, drawn, [](u32 word, int pair) {
      return dither_bits<F>(word, 2 * pair) | dither_bits<F>(word, 2 * pair + 1) << 16;
    });
  }
  template <element_format F>
  FOURSCALE_HD constexpr u32 encode_lane(F, float x, u32 dither) const {
    return lanes::encode_stochastic<F>(x, dither);
  }
};

/// Transformer Engine's software rounding for GPUs without cvt.rs (2026-08, stochastic_round_fp4_e2m1).
/// Element k of four takes byte k of the random word, so 8 random bits, and the sum is in float instead of
/// integers. E2M1 only. It is a different function from `stochastic`: for the same word the two may give
/// different codes.
template <random_bits Bits = philox<>>
struct stochastic_te_software {
  Bits bits;

  FOURSCALE_HD constexpr stochastic_te_software(Bits b = {}) : bits(b) {}

  FOURSCALE_HD constexpr e2m1x4 operator()(e2m1, float const (&x)[4], position where) const {
    const u32 word = bits(where);
    e2m1x4 codes{};
    FOURSCALE_UNROLL
    for (int i = 0; i < 4; ++i) codes.set(i, round_one(x[i], word >> (8 * i) & 0xffu));
    return codes;
  }

  /// Fast form: see drawing_lane_rounding_policy.
  FOURSCALE_HD constexpr void draw_lanes(e2m1, position where, int count, u32* drawn) const {
    detail::draw_pairs(bits, where, count, drawn, [](u32 word, int pair) {
      return (word >> (16 * pair) & 0xffu) | (word >> (16 * pair + 8) & 0xffu) << 16;
    });
  }
  /// The grid's step at t is half the power of two below t, where t counts as at least 1. |x| beyond 6 is
  /// rounded as 6, which stays 6 for all random bits.
  FOURSCALE_HD constexpr u32 encode_lane(e2m1, float x, u32 random) const {
    constexpr i32 one = 0x3f80'0000, six = bit_cast<i32>(6.0f);
    const auto power = [](float t) {
      return static_cast<u32>(lanes::larger(bit_cast<i32>(t), one)) & float_inf_bits;
    };
    const u32 u = bit_cast<u32>(x);
    const float a = bit_cast<float>(lanes::smaller(static_cast<i32>(u & 0x7fff'ffffu), six));
    const float t = a + static_cast<float>(static_cast<i32>(random)) * 0x1p-9f * bit_cast<float>(power(a));
    const float steps = t * bit_cast<float>((255u << 23) - power(t)),
                whole = static_cast<float>(static_cast<i32>(steps));
    return lanes::encode_nearest<e2m1>(whole * 0.5f * bit_cast<float>(power(t))) | lanes::sign_of_number(u);
  }

 private:
  static FOURSCALE_HD constexpr float step(float a) { return a < 2.0f ? 0.5f : a < 4.0f ? 1.0f : 2.0f; }

  static FOURSCALE_HD constexpr e2m1 round_one(float x, u32 random) {
    const u32 u = bit_cast<u32>(x);
    const float a = bit_cast<float>(u & 0x7fff'ffffu);
    if (a != a) return {e2m1::nan_bits};
    if (a >= 6.0f) return {static_cast<u8>(e2m1::max_bits | u >> 31 << 3)};
    // t = a + random / 256 * step. The product is exact, so TE's fmaf and this sum round alike.
    const float t = ptx::add_rn_f32(a, static_cast<float>(random) * 0x1p-8f * step(a));
    const float grid = static_cast<float>(static_cast<i32>(t / step(t))) * step(t);
    const e2m1 magnitude = portable::encode<e2m1>(grid < 6.0f ? grid : 6.0f);
    return {static_cast<u8>(magnitude.bits | u >> 31 << 3)};
  }
};

}  // namespace FOURSCALE_NAMESPACE
