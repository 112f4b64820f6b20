// SPDX-License-Identifier: Apache-2.0
// Some consecutive blocks of one row, quantized in stages. Each stage is a plain loop over the whole run, so
// that the compiler vectorizes it for whatever CPU it is told to build for; quantize_block() says what the
// result must be.
#pragma once

#include "../block/quantize.hpp"
#include "../view/block_scaled_view.hpp"

namespace fourscale::host::detail {

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
    for (int b = 0; b < blocks; ++b) {
      constexpr int half = block_size / 2;
      i32 larger[half];
      for (int i = 0; i < half; ++i) {
        const i32 p = amax_bits(values[b * block_size + i]), q = amax_bits(values[b * block_size + half + i]);
        larger[i] = p > q ? p : q;
      }
      i32 largest = amax[b];
      for (int i = 0; i < half; ++i) largest = larger[i] > largest ? larger[i] : largest;
      amax[b] = largest;
    }
  }

  /// The scale of each loaded block: from its amax, or by weighing its values.
  template <class Scale>
  void choose_scales(Scale const& scale, tensor_scale<F> const& tensor, position first) {
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
    for (int b = 0; b < blocks; ++b) q.store_scale(row, first + b, scales[b]);
    u8* to = q.codes + q.code_offset(row, first);
    if constexpr (__is_same(Round, nearest_even)) {
      for (int b = 0; b < blocks; ++b)
        for (int i = 0; i < block_size; ++i) values[b * block_size + i] *= multipliers[b];
      u8 codes[512];
      for (int i = 0; i < blocks * block_size; ++i) codes[i] = encode<element>(values[i]).bits;
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
  template <class Action>
  void with_block(int b, Action action) {
    float block[block_size];
    __builtin_memcpy(block, values + b * block_size, sizeof block);
    action(block);
    __builtin_memcpy(values + b * block_size, block, sizeof block);
  }

  /// From one code a byte to packed codes, in the order of packed<>.
  void pack(u8 const* codes, u8* to) const {
    const int count = blocks * block_size;
    if constexpr (element::width == 8) {
      __builtin_memcpy(to, codes, static_cast<u64>(count));
    } else if constexpr (element::width == 4) {
      for (int i = 0; i < count / 2; ++i) to[i] = static_cast<u8>(codes[2 * i] | codes[2 * i + 1] << 4);
    } else {
      for (int i = 0; i < count / 4; ++i) {
        const u32 four = codes[4 * i] | u32{codes[4 * i + 1]} << 6 | u32{codes[4 * i + 2]} << 12 |
                         u32{codes[4 * i + 3]} << 18;
        for (int j = 0; j < 3; ++j) to[3 * i + j] = static_cast<u8>(four >> (8 * j));
      }
    }
  }
};

}  // namespace fourscale::host::detail
