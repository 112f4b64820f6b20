// SPDX-License-Identifier: Apache-2.0
// Some consecutive blocks of one row, quantized in stages. Each stage is a plain loop over the whole run, so
// that the compiler vectorizes it for whatever CPU it is told to build for; quantize_block() says what the
// result must be.
#pragma once

#include "../block/quantize.hpp"
#include "../view/block_scaled_view.hpp"

namespace fourscale::host::detail {

/// As functions, which g++ takes for minima and maxima at once; a choice in the midst of others becomes a
/// branch to it first, and masks of a vector in the end.
constexpr i32 smaller(i32 a, i32 b) { return a < b ? a : b; }
constexpr i32 larger(i32 a, i32 b) { return a > b ? a : b; }

/// Values that a run can hold: a few KiB with all its stages, for the first cache.
inline constexpr int run_size = 1024;

/// Added to the bits of a magnitude, this sets the sign bit of a NaN, and of nothing else.
inline constexpr u32 above_infinity = 0x7fff'ffffu - float_inf_bits;

/// The sign bit of a float, cleared for NaN: there the sum carries out of it, or was positive before.
constexpr u32 sign_of_number(u32 u) { return u & (u + above_infinity) & 0x8000'0000u; }

/// A code to nearest even, in the top bits of a word, and what it stands for.
struct nearest_code {
  u32 top;
  float value;  ///< no sign of zero; NaN, where E has one, is that of the largest code
};

/// encode<E>(x), as straight arithmetic: a table, a branch or a shift by a variable would cost the vectors.
/// 2^(23 - M) times the power of two below |x| leaves a float as many bits below it as a code has: the sum is
/// rounded as the code is, and holds the mantissa in its low bits and the exponent in its own.
template <element_format E>
inline nearest_code encode_by_anchor(float x) {
  constexpr u32 spare = 23 - E::mantissa_bits, least_exponent = 128 - E::bias, unused = 32 - E::width;
  constexpr u32 up =
      (spare << 23) | ((0u - ((least_exponent + spare) << E::mantissa_bits)) & magnitude_mask<E>);
  constexpr i32 largest = bit_cast<i32>(decode(E{E::max_bits})), least = least_exponent << 23;
  const u32 u = bit_cast<u32>(x), magnitude = u & 0x7fff'ffffu;
  const i32 clamped = smaller(static_cast<i32>(magnitude), largest);
  const i32 above_least = larger(clamped, least);
  const float anchor = bit_cast<float>((static_cast<u32>(above_least) & float_inf_bits) + up);
  const float sum = bit_cast<float>(clamped) + anchor;
  const u32 code = bit_cast<u32>(sum) + (bit_cast<u32>(sum) >> spare);
  u32 top = ((code << unused) & 0x7fff'ffffu) | sign_of_number(u);
  if constexpr (E::has_nan) {  // its code has all bits of the largest one
    const u32 if_nan = static_cast<u32>(static_cast<i32>(magnitude + above_infinity) >> 31);
    top |= (u32{E::nan_bits} << unused) & if_nan;
  }
  return {top, sum - anchor};
}

/// The same code for a format of few binades and no NaN. Magnitude as a function of the code is a convex
/// chain of lines, one a binade, so the code is the least of what the lines give: |x| in units of binade e,
/// and the codes below them. The sums round it, and hold it in their low bits.
template <element_format E>
requires(E::exponent_bits <= 2 && !E::has_nan) inline u32 encode_by_lines(float x) {
  constexpr float whole = 0x1p23f, units = 1.0f / decode(E{1});
  const u32 u = bit_cast<u32>(x);
  const float magnitude = bit_cast<float>(u & 0x7fff'ffffu);
  i32 code = bit_cast<i32>(whole + E::max_bits);  // below the bits of infinity and of a NaN
  FOURSCALE_UNROLL_ON_HOST
  for (u32 e = 0; e < (1u << E::exponent_bits) - 1; ++e) {
    const float below = whole + static_cast<float>(e << E::mantissa_bits);
    const float line = magnitude * (units / static_cast<float>(1 << e)) + below;  // an exact product
    code = smaller(code, bit_cast<i32>(line));
  }
  return (static_cast<u32>(code) << (32 - E::width)) | sign_of_number(u);
}

/// encode<E>(x), in the top bits of a word and nothing below.
template <element_format E>
inline u32 encode_nearest(float x) {
  if constexpr (E::exponent_bits <= 2 && !E::has_nan)
    return encode_by_lines<E>(x);
  else
    return encode_by_anchor<E>(x).top;
}

/// The values of a run, as floats. Loops take neighbours together, from two vectors, so that their codes and
/// magnitudes meet without a shuffle.
struct float_values {
  float all[run_size];

  template <matrix_like M>
  void load(M const& x, i64 row, i64 col, int count) {
    for (int i = 0; i < count; ++i) all[i] = to_float(x.at(row, col + i));
  }
  float even(int pair) const { return all[2 * pair]; }
  float odd(int pair) const { return all[2 * pair + 1]; }
};

/// The same for bf16 side by side, left where they are: a word of two becomes floats by a shift and a mask,
/// where the first of them is its lower half.
struct bf16_values {
  struct two {
    bf16 first, second;
  };
  static constexpr bool fits = bit_cast<u32>(two{{1}, {0}}) == 1;
  bf16 const* all;

  template <matrix_like M>
  void load(M const& x, i64 row, i64 col, int) {
    all = &x.at(row, col);
  }
  u32 word(int pair) const {
    u32 both;
    __builtin_memcpy(&both, all + 2 * pair, sizeof both);
    return both;
  }
  float even(int pair) const { return bit_cast<float>(word(pair) << 16); }
  float odd(int pair) const { return bit_cast<float>(word(pair) & 0xffff'0000u); }
};

/// Up to run_size values of a row: 64 blocks of 16, or 32 of 32.
template <block_format F, class Values = float_values>
struct run {
  static constexpr int block_size = F::block_size, pairs = block_size / 2, capacity = run_size / block_size;
  using element = typename F::element;

  Values values;
  i32 amax[capacity];  ///< as amax_bits() gives it
  typename F::scale scales[capacity];
  float multipliers[capacity];
  int blocks = 0;

  block_scale<F> candidates[capacity][2];
  float errors[capacity][block_size][2];

  /// Reads `count` blocks from block `first` of a row on, and transforms them.
  template <matrix_like M, class Transform>
  void load(M const& x, i64 row, i64 first, int count, Transform const& transform) {
    blocks = count;
    values.load(x, row, first * block_size, count * block_size);
    if constexpr (!__is_same(Transform, identity))
      for (int b = 0; b < count; ++b) with_block(b, [&](float(&block)[block_size]) { transform(block); });
  }

  void clear_amax(int count) {
    for (int b = 0; b < count; ++b) amax[b] = 0;
  }

  /// Raises each block's amax to that of the loaded values: once for 1-D blocks, once a row for 2-D ones.
  void raise_amax() {
    i32 keys[run_size / 2];
    for (int i = 0; i < blocks * pairs; ++i) {
      const i32 p = key(values.even(i)), q = key(values.odd(i));
      keys[i] = larger(p, q);
    }
    raise_amax(keys);
  }

  /// The scale of each loaded block: from its amax, or by weighing its values.
  template <class Scale>
  void choose_scales(Scale const& scale, tensor_scale<F> const& tensor, position first) {
    if constexpr (is_two_level<Scale>)
      choose_two_level_scales(tensor);
    else
      for (int b = 0; b < blocks; ++b) {
        const position where = first.right(b * block_size);
        block_scale<F> s;
        if constexpr (amax_scaling_policy<Scale, F>)
          s = scale_for<F>(scale, bit_cast<float>(amax[b]), tensor, where);
        else
          with_block(b, [&](float(&block)[block_size]) { s = choose_scale<F>(block, scale, tensor, where); });
        scales[b] = s.scale;
        multipliers[b] = s.multiplier;
      }
  }

  /// For 2-D blocks under a weighing policy: both candidates, then each row's errors, then the lighter
  /// candidate.
  template <class Scale>
  void clear_errors(Scale const& scale, tensor_scale<F> const& tensor) {
    for (int b = 0; b < blocks; ++b) {
      scale.candidates(F{}, bit_cast<float>(amax[b]), tensor, candidates[b]);
      for (auto& of_row : errors[b]) of_row[0] = of_row[1] = 0.0f;
    }
  }
  template <class Scale>
  void weigh_row(Scale const& scale, int row, tensor_scale<F> const& tensor) {
    for (int b = 0; b < blocks; ++b)
      with_block(b, [&](float(&block)[block_size]) {
        for (int k = 0; k < 2; ++k) errors[b][row][k] = scale.error(F{}, block, candidates[b][k], tensor);
      });
  }
  void choose_lighter() {
    for (int b = 0; b < blocks; ++b) {
      for (int distance = block_size / 2; distance >= 1; distance /= 2)
        for (int row = 0; row < distance; ++row)
          for (int k = 0; k < 2; ++k) errors[b][row][k] += errors[b][row + distance][k];
      const block_scale<F> s = candidates[b][less_magnitude(errors[b][0][1], errors[b][0][0])];
      scales[b] = s.scale;
      multipliers[b] = s.multiplier;
    }
  }

  /// Codes of the loaded values under the chosen scales, written where block `first` of the row begins, which
  /// rounding sees at `where`.
  template <class Layout, class Round>
  void store(block_scaled_view<F, Layout, u8> const& q, i64 row, i64 first, Round const& round,
             [[maybe_unused]] position where) {
    store_scales(q, row, first);
    u8* to = q.codes + q.code_offset(row, first);
    if constexpr (__is_same(Round, nearest_even)) {
      float of_pairs[run_size / 2];
      for (int b = 0; b < blocks; ++b)
        for (int i = 0; i < pairs; ++i) of_pairs[b * pairs + i] = multipliers[b];
      constexpr int width = element::width;
      uint_t<2 * width> codes[run_size / 2];
      for (int i = 0; i < blocks * pairs; ++i) {
        const u32 even = encode_nearest<element>(values.even(i) * of_pairs[i]);
        const u32 odd = encode_nearest<element>(values.odd(i) * of_pairs[i]);
        codes[i] = static_cast<uint_t<2 * width>>((odd | even >> width) >> (32 - 2 * width));
      }
      pack(codes, to);
    } else {
      for (int b = 0; b < blocks; ++b, to += block_code_bytes<F>)
        with_block(b, [&](float(&block)[block_size]) {
          u8 codes[block_code_bytes<F>];
          round_block<F>(block, multipliers[b], round, where.right(b * block_size), codes);
          __builtin_memcpy(to, codes, sizeof codes);
        });
    }
  }

 private:
  /// |x| as amax_bits() has it, raised by above_infinity: a NaN is negative, and any maximum drops it.
  static i32 key(float x) { return static_cast<i32>((bit_cast<u32>(x) & 0x7fff'ffffu) + above_infinity); }

  /// From the keys of pairs to the magnitudes of blocks.
  template <int N>
  void raise_amax(i32 const (&keys)[N]) {
    if constexpr (N == capacity) {
      constexpr i32 zero = above_infinity;
      for (int b = 0; b < blocks; ++b) amax[b] = larger(amax[b] + zero, keys[b]) - zero;
    } else {
      i32 of_pairs[N / 2];
      for (int i = 0; i < blocks * (N / 2 / capacity); ++i) {
        const i32 p = keys[2 * i], q = keys[2 * i + 1];
        of_pairs[i] = larger(p, q);
      }
      raise_amax(of_pairs);
    }
  }

  /// Policies that choose_two_level_scales() is a shortcut for.
  template <class Scale>
  static constexpr bool is_two_level = (__is_same(Scale, amax_scale) || __is_same(Scale, two_level)) &&
                                       F::has_tensor_scale&& __is_same(typename F::scale, e4m3);

  /// two_level, the same bits: an inverse that overflows becomes FLT_MAX, compared as bits.
  void choose_two_level_scales(tensor_scale<F> const& tensor) {
    const float factor = ptx::mul_rn_f32(tensor.encode, 1.0f / largest_element<element>);
    for (int b = 0; b < blocks; ++b) {
      const nearest_code s = encode_by_anchor<e4m3>(bit_cast<float>(amax[b]) * factor);
      const i32 inverse = bit_cast<i32>(1.0f / (s.value * tensor.decode));
      scales[b].bits = static_cast<u8>(s.top >> 24);
      multipliers[b] = bit_cast<float>(smaller(inverse, float_max_bits));
    }
  }

  template <class Layout>
  void store_scales(block_scaled_view<F, Layout, u8> const& q, i64 row, i64 first) const {
    if constexpr (__is_same(Layout, linear) && block_scale_bytes<F> == 1)
      __builtin_memcpy(q.scales + q.scale_offset(row, first), scales, static_cast<u64>(blocks));
    else
      for (int b = 0; b < blocks; ++b) q.store_scale(row, first + b, scales[b]);
  }

  template <class Action>
  void with_block(int b, Action action) {
    float block[block_size];
    __builtin_memcpy(block, values.all + b * block_size, sizeof block);
    action(block);
    __builtin_memcpy(values.all + b * block_size, block, sizeof block);
  }

  /// From pairs of codes to bytes, in the order of packed<>.
  template <class Pair>
  void pack(Pair const* codes, u8* to) const {
    const int count = blocks * pairs;
    if constexpr (element::width == 4) {
      __builtin_memcpy(to, codes, static_cast<u64>(count));
    } else if constexpr (element::width == 8) {
      for (int i = 0; i < count; ++i)
        for (int j = 0; j < 2; ++j) to[2 * i + j] = static_cast<u8>(codes[i] >> (8 * j));
    } else {
      for (int i = 0; i < count / 2; ++i) {
        const u32 four = codes[2 * i] | u32{codes[2 * i + 1]} << 12;
        for (int j = 0; j < 3; ++j) to[3 * i + j] = static_cast<u8>(four >> (8 * j));
      }
    }
  }
};

}  // namespace fourscale::host::detail
