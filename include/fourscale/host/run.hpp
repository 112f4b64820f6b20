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

/// A code to nearest even, and what it stands for.
struct nearest_code {
  u32 bits;
  float value;  ///< no sign of zero; NaN, where E has one, is that of the largest code
};

/// encode<E>(x), as straight arithmetic: a table, a branch or a shift by a variable would cost the vectors.
/// 2^(23 - M) times the power of two below |x| leaves a float as many bits below it as a code has: the sum is
/// rounded as the code is, and holds the mantissa in its low bits and the exponent in its own.
template <element_format E>
inline nearest_code encode_nearest(float x) {
  constexpr u32 spare = 23 - E::mantissa_bits, least_exponent = 128 - E::bias;
  constexpr u32 up =
      (spare << 23) | ((0u - ((least_exponent + spare) << E::mantissa_bits)) & magnitude_mask<E>);
  constexpr i32 largest = bit_cast<i32>(decode(E{E::max_bits})), least = least_exponent << 23;
  const u32 u = bit_cast<u32>(x);
  const i32 magnitude = static_cast<i32>(u & 0x7fff'ffffu);
  const i32 clamped = smaller(magnitude, largest);
  const i32 above_least = larger(clamped, least);
  const float anchor = bit_cast<float>((static_cast<u32>(above_least) & float_inf_bits) + up);
  const float sum = bit_cast<float>(clamped) + anchor;
  const u32 code = bit_cast<u32>(sum) + (bit_cast<u32>(sum) >> spare);
  const u32 not_nan = static_cast<u32>(magnitude) - (float_inf_bits + 1);  // its sign bit
  const u32 sign = (u & not_nan) >> (32 - E::width);
  u32 bits = (code & magnitude_mask<E>) | (sign & ~u32{magnitude_mask<E>});
  if constexpr (E::has_nan) bits = magnitude > static_cast<i32>(float_inf_bits) ? u32{E::nan_bits} : bits;
  return {bits, sum - anchor};
}

/// Up to 512 values of a row: 32 blocks of 16, or 16 of 32. Small enough to stay in the first cache.
template <block_format F>
struct run {
  static constexpr int block_size = F::block_size, capacity = 512 / block_size;
  using element = typename F::element;

  float values[512];
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
    for (int i = 0; i < count * block_size; ++i) values[i] = to_float(x.at(row, first * block_size + i));
    if constexpr (!__is_same(Transform, identity))
      for (int b = 0; b < count; ++b) with_block(b, [&](float(&block)[block_size]) { transform(block); });
  }

  void clear_amax(int count) {
    for (int b = 0; b < count; ++b) amax[b] = 0;
  }

  /// Raises each block's amax to that of the loaded values: once for 1-D blocks, once a row for 2-D ones.
  void raise_amax() {
    i32 magnitudes[512];
    for (int i = 0; i < blocks * block_size; ++i) magnitudes[i] = amax_bits(values[i]);
    raise_amax(magnitudes);
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

  /// Codes of the loaded values under the chosen scales, written where block `first` of the row begins.
  template <class Layout, class Round>
  void store(block_scaled_view<F, Layout, u8> const& q, i64 row, i64 first, Round const& round) {
    store_scales(q, row, first);
    u8* to = q.codes + q.code_offset(row, first);
    if constexpr (__is_same(Round, nearest_even)) {
      u32 codes[512];
      for (int b = 0; b < blocks; ++b) {
        const float multiplier = multipliers[b];
        for (int i = 0; i < block_size; ++i)
          codes[b * block_size + i] = encode_nearest<element>(values[b * block_size + i] * multiplier).bits;
      }
      pack(codes, to);
    } else {
      for (int b = 0; b < blocks; ++b, to += block_code_bytes<F>)
        with_block(b, [&](float(&block)[block_size]) {
          u8 codes[block_code_bytes<F>];
          round_block<F>(block, multipliers[b], round, position{row, (first + b) * block_size}, codes);
          __builtin_memcpy(to, codes, sizeof codes);
        });
    }
  }

 private:
  /// From the magnitudes of pairs to those of blocks.
  template <int N>
  void raise_amax(i32 const (&magnitudes)[N]) {
    if constexpr (N == capacity) {
      for (int b = 0; b < blocks; ++b) amax[b] = larger(amax[b], magnitudes[b]);
    } else {
      i32 of_pairs[N / 2];
      for (int i = 0; i < blocks * (N / 2 / capacity); ++i) {
        const i32 p = magnitudes[2 * i], q = magnitudes[2 * i + 1];
        of_pairs[i] = larger(p, q);
      }
      raise_amax(of_pairs);
    }
  }

  /// Policies that choose_two_level_scales() is a shortcut for.
  template <class Scale>
  static constexpr bool is_two_level = (__is_same(Scale, amax_scale) || __is_same(Scale, two_level)) &&
                                       F::has_tensor_scale&& __is_same(typename F::scale, e4m3);

  /// two_level, the same bits: an inverse that overflows, at 2^-128 and below, becomes FLT_MAX.
  void choose_two_level_scales(tensor_scale<F> const& tensor) {
    const float factor = ptx::mul_rn_f32(tensor.encode, 1.0f / largest_element<element>);
    for (int b = 0; b < blocks; ++b) {
      const nearest_code s = encode_nearest<e4m3>(bit_cast<float>(amax[b]) * factor);
      const float stored = s.value * tensor.decode;
      const bool overflows = bit_cast<u32>(stored) <= 0x0020'0000u;
      const float inverse = 1.0f / (overflows ? 1.0f : stored);
      scales[b].bits = static_cast<u8>(s.bits);
      multipliers[b] = overflows ? float_max : inverse;
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
    __builtin_memcpy(block, values + b * block_size, sizeof block);
    action(block);
    __builtin_memcpy(values + b * block_size, block, sizeof block);
  }

  /// From one code a byte to packed codes, in the order of packed<>.
  void pack(u32 const* codes, u8* to) const {
    const int count = blocks * block_size;
    if constexpr (element::width == 8) {
      for (int i = 0; i < count; ++i) to[i] = static_cast<u8>(codes[i]);
    } else if constexpr (element::width == 4) {
      for (int i = 0; i < count / 2; ++i) to[i] = static_cast<u8>(codes[2 * i] | codes[2 * i + 1] << 4);
    } else {
      for (int i = 0; i < count / 4; ++i) {
        const u32 four =
            codes[4 * i] | (codes[4 * i + 1]) << 6 | (codes[4 * i + 2]) << 12 | (codes[4 * i + 3]) << 18;
        for (int j = 0; j < 3; ++j) to[3 * i + j] = static_cast<u8>(four >> (8 * j));
      }
    }
  }
};

}  // namespace fourscale::host::detail
