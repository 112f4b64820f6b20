// SPDX-License-Identifier: Apache-2.0
// Policies as a user writes them: definitions, unknown to the kernels of the library.
#pragma once

#include <fourscale/fourscale.cuh>

namespace user {

namespace f4 = fourscale;

/// To the nearest code, by the definition of a conversion.
struct round_nearest {
  template <f4::element_format F>
  FOURSCALE_HD constexpr f4::packed<F, 4> operator()(F, float const (&x)[4], f4::position) const {
    f4::packed<F, 4> codes{};
    FOURSCALE_UNROLL
    for (int i = 0; i < 4; ++i) codes.set(i, f4::encode<F>(x[i]));
    return codes;
  }
};

/// The same with a fast form, which asks the library's for the codes.
struct round_nearest_fast : round_nearest {
  FOURSCALE_HD static constexpr float fast_unit() { return f4::nearest_even::fast_unit(); }
  FOURSCALE_HD static constexpr bool fast_limited() { return f4::nearest_even::fast_limited(); }
  template <class Values>
  FOURSCALE_D void fast(Values const& v, f4::position where, f4::u32 (&codes)[2]) const {
    f4::nearest_even{}.fast(v, where, codes);
  }
};

/// Random words of four elements by a hash of their place, for stochastic{}.
struct hashed_bits {
  f4::u64 seed = 0;

  FOURSCALE_HD constexpr f4::u32 operator()(f4::position where) const {
    f4::u64 z =
        seed ^ static_cast<f4::u64>(where.row) * 0x9e37'79b9'7f4a'7c15u ^ static_cast<f4::u64>(where.col);
    z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9u;
    z = (z ^ z >> 27) * 0x94d0'49bb'1331'11ebu;
    return static_cast<f4::u32>(z >> 32);
  }
};

/// Scales of NVFP4 that are powers of two: those of two_level, rounded up.
struct power_of_two_scale {
  template <f4::block_format F>
  FOURSCALE_HD constexpr f4::block_scale<F> operator()(F, float amax,
                                                       f4::tensor_scale<F> const& tensor) const {
    const f4::block_scale<F> rounded = f4::two_level{}(F{}, amax, tensor);
    const f4::u32 code = rounded.scale.bits, up = (code & 7u) != 0 ? (code & 0x78u) + 8 : code;
    const typename F::scale scale{static_cast<f4::u8>(up < 0x78u ? up : 0x78u)};
    const float value = f4::decode(scale);
    return {scale, value > 0.0f ? 1.0f / (value * tensor.decode) : 0.0f};
  }
};

/// A transform of neighbouring pairs: sum and difference, halved.
struct half_sums {
  template <int N>
  FOURSCALE_HD constexpr void operator()(float (&x)[N]) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < N; i += 2) {
      const float a = 0.5f * x[i], b = 0.5f * x[i + 1];
      x[i] = a + b;
      x[i + 1] = a - b;
    }
  }
};

}  // namespace user
