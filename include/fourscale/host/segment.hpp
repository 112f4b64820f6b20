// SPDX-License-Identifier: Apache-2.0
// A segment: some consecutive blocks of a matrix, which the CPU quantizes in stages (load, amax, scales,
// codes). Each stage is a plain loop over all blocks, so that the compiler vectorizes it for the CPU that it
// builds for. A stage uses the lane form of a policy where the policy has one. The result must be that of
// quantize_block(). host/quantize.hpp calls the stages.
#pragma once

#include "values.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {
namespace detail {

/// An amax_scaling_policy that takes the position of a block, because it draws random bits.
template <class Scale, class F>
concept scales_by_position = amax_scaling_policy<Scale, F> &&
    requires(Scale const scale, tensor_scale<F> tensor, position where) {
  scale(F{}, 0.0f, tensor, where);
};

/// Quantizes the blocks `at` into `q`: at most `capacity` of them, 64 of 16 values or 32 of 32. They may
/// continue in the next row. `above` is added to the row numbers that policies see.
template <block_format F, class Layout, class Quantizer, class Values>
struct segment {
  static constexpr int block_size = F::block_size, pairs = block_size / 2,
                       capacity = segment_size / block_size;
  using format = F;
  using element = typename F::element;
  using round_policy = decltype(Quantizer::round);
  using scale_policy = decltype(Quantizer::scale);

  block_scaled_view<F, Layout, u8> const& q;
  Quantizer const& recipe;
  i64 above;

  block_range at{};
  Values values;
  alignas(64) i32 amax[capacity];  ///< as amax_bits() gives it
  typename F::scale scales[capacity];
  float multipliers[capacity];

  /// For a weighing policy: one candidate scale of each block, the value that it decodes to, and its
  /// multiplier.
  struct candidate_scales {
    typename F::scale scales[capacity];
    float values[capacity], multipliers[capacity];
  };
  candidate_scales candidates[2];
  float errors[block_size][2][capacity];  ///< [row of a 2-D block; else 0][candidate][block]

  segment(block_scaled_view<F, Layout, u8> const& to, Quantizer const& r, i64 rows_above)
      : q(to), recipe(r), above(rows_above) {}

  /// Reads the blocks `where` and transforms them. Row x_row and block x_block of the matrix are where x
  /// begins.
  template <matrix_like M>
  void load(M const& x, i64 x_row, i64 x_block, block_range const& where) {
    at = where;
    values.template load<block_size>(x, x_row, x_block, at, q.blocks());
    using transform_type = decltype(recipe.transform);
    if constexpr (same_type<transform_type, identity>) {
    } else if constexpr (lane_transform_policy<transform_type, block_size>) {
      recipe.transform.template transform_lanes<block_size>(values.all, at.count);
    } else {
      for (int b = 0; b < at.count; ++b)
        with_block(b, [&](float(&block)[block_size]) { recipe.transform(block); });
    }
  }

  void clear_amax(int count) {
    for (int b = 0; b < count; ++b) amax[b] = 0;
  }

  /// Raises each block's amax to that of the loaded values. Call it once for 1-D blocks, once a row for 2-D
  /// blocks. It does nothing for a format without block scales.
  void raise_amax() {
    if constexpr (block_scale_bytes<F> != 0) {
      alignas(64) i32 keys[segment_size / 2];
      for (int i = 0; i < at.count * pairs; ++i) {
        const i32 p = key(values.even(i)), r = key(values.odd(i));
        keys[i] = lanes::larger(p, r);
      }
      raise_amax(keys);
    }
  }

  /// Chooses the scale of each loaded block: from its amax, or by weighing two candidates on its values.
  void choose_scales() {
    const bool at_once = !q.amax.by_row() && !scales_by_position<scale_policy, F>;
    const i64 blocks_in_row = at_once ? at.block + at.count : q.blocks();
    for_each_row(at, blocks_in_row, [&](row_part const& part) {
      const tensor_scale<F> tensor = q.amax.scale_of_row(part.row);
      if constexpr (amax_scaling_policy<scale_policy, F>) {
        choose_by_amax(tensor, part);
      } else {
        find_candidates(tensor, part);
        weigh(tensor, part, 0);
      }
    });
    if constexpr (!amax_scaling_policy<scale_policy, F>) choose_lighter(1);
  }

  /// For 2-D blocks under a weighing policy, in this order: begin_weighing() finds both candidates,
  /// weigh_row() adds each row's errors, choose_lighter() takes the candidate with the smaller error.
  void begin_weighing() {
    find_candidates(q.amax.scale_of_row(at.row), whole());
    for (auto& of_row : errors)
      for (auto& of_candidate : of_row)
        for (int b = 0; b < at.count; ++b) of_candidate[b] = 0.0f;
  }
  void weigh_row(int row) { weigh(q.amax.scale_of_row(at.row), whole(), row); }

  /// Chooses between the candidates by their errors in `rows` rows, a power of two. The errors are added in
  /// pairs at distance rows / 2, ..., 1.
  void choose_lighter(int rows) {
    for (int distance = rows / 2; distance >= 1; distance /= 2)
      for (int row = 0; row < distance; ++row)
        for (int k = 0; k < 2; ++k)
          for (int b = 0; b < at.count; ++b) errors[row][k][b] += errors[row + distance][k][b];
    for (int b = 0; b < at.count; ++b) {
      candidate_scales const& c = candidates[less_magnitude(errors[0][1][b], errors[0][0][b])];
      scales[b] = c.scales[b];
      multipliers[b] = c.multipliers[b];
    }
  }

  /// Stores the scales, and the codes of the loaded values under them.
  void store() {
    store_scales();
    u8* const to = q.codes + q.code_offset(at.row, at.block);
    if constexpr (lane_rounding_policy<round_policy, element>) {
      store_lanes(to, [&](float x, u32) { return recipe.round.encode_lane(element{}, x); });
    } else if constexpr (drawing_lane_rounding_policy<round_policy, element>) {
      for_each_row(at, q.blocks(), [&](row_part const& part) {
        recipe.round.draw_lanes(element{}, where(part), part.count * block_size / 4,
                                drawn + part.first * pairs);
      });
      store_lanes(to, [&](float x, u32 bits) { return recipe.round.encode_lane(element{}, x, bits); });
    } else {
      for_each_row(at, q.blocks(), [&](row_part const& part) { store_blocks(to, part); });
    }
  }

 private:
  alignas(64) u32 drawn[segment_size / 2];

  row_part whole() const { return {at.row, at.block, 0, at.count}; }
  position where(row_part const& part) const { return {above + part.row, part.block * block_size}; }

  /// |x| as amax_bits() has it, plus above_infinity: a NaN becomes negative, so that any maximum drops it.
  static i32 key(float x) {
    return static_cast<i32>((bit_cast<u32>(x) & 0x7fff'ffffu) + lanes::above_infinity);
  }

  /// Reduces the keys of pairs to one for each block, and raises the blocks' amax by them.
  template <int N>
  void raise_amax(i32 const (&keys)[N]) {
    if constexpr (N == capacity) {
      constexpr i32 zero = lanes::above_infinity;
      for (int b = 0; b < at.count; ++b) amax[b] = lanes::larger(amax[b] + zero, keys[b]) - zero;
    } else {
      alignas(64) i32 of_pairs[N / 2];
      for (int i = 0; i < at.count * (N / 2 / capacity); ++i) {
        const i32 p = keys[2 * i], r = keys[2 * i + 1];
        of_pairs[i] = lanes::larger(p, r);
      }
      raise_amax(of_pairs);
    }
  }

  void choose_by_amax(tensor_scale<F> const& tensor, row_part const& part) {
    for (int b = part.first; b < part.first + part.count; ++b) {
      block_scale<F> s;
      if constexpr (lane_scaling_policy<scale_policy, F>)
        s = recipe.scale.scale_lane(F{}, bit_cast<float>(amax[b]), tensor);
      else
        s = scale_for<F>(recipe.scale, bit_cast<float>(amax[b]), tensor,
                         where(part).right((b - part.first) * block_size));
      scales[b] = s.scale;
      multipliers[b] = s.multiplier;
    }
  }

  void find_candidates(tensor_scale<F> const& tensor, row_part const& part) {
    for (int b = part.first; b < part.first + part.count; ++b) {
      block_scale<F> c[2];
      if constexpr (lane_weighing_policy<scale_policy, F>)
        recipe.scale.candidates_lane(F{}, bit_cast<float>(amax[b]), tensor, c);
      else
        recipe.scale.candidates(F{}, bit_cast<float>(amax[b]), tensor, c);
      for (int k = 0; k < 2; ++k) {
        candidates[k].scales[b] = c[k].scale;
        candidates[k].values[b] = lanes::decode_scale(c[k].scale);
        candidates[k].multipliers[b] = c[k].multiplier;
      }
    }
  }

  /// Finds the errors of both candidates for one row of some blocks.
  void weigh(tensor_scale<F> const& tensor, row_part const& part, int row) {
    for (int k = 0; k < 2; ++k)
      if constexpr (lane_weighing_policy<scale_policy, F>)
        weigh_lanes(tensor, part, candidates[k], errors[row][k]);
      else
        for (int b = part.first; b < part.first + part.count; ++b)
          with_block(b, [&](float(&block)[block_size]) {
            const block_scale<F> c{candidates[k].scales[b], candidates[k].multipliers[b]};
            errors[row][k][b] = recipe.scale.error(F{}, block, c, tensor);
          });
  }
  void weigh_lanes(tensor_scale<F> const& tensor, row_part const& part, candidate_scales const& c,
                   float (&to)[capacity]) {
    alignas(64) float each[segment_size];
    for (int b = part.first; b < part.first + part.count; ++b)
      for (int i = 0; i < block_size; ++i)
        each[b * block_size + i] = recipe.scale.error_lane(F{}, values.all[b * block_size + i], c.values[b],
                                                           c.multipliers[b], tensor);
    for (int b = part.first; b < part.first + part.count; ++b) {
      float sum = 0.0f;
      for (int i = 0; i < block_size; ++i) sum += each[b * block_size + i];
      to[b] = sum;
    }
  }

  void store_scales() const {
    if constexpr (same_type<Layout, linear> && block_scale_bytes<F> == 1)
      __builtin_memcpy(q.scales + q.scale_offset(at.row, at.block), scales, static_cast<u64>(at.count));
    else
      for_each_row(at, q.blocks(), [&](row_part const& part) {
        for (int b = 0; b < part.count; ++b) q.store_scale(part.row, part.block + b, scales[part.first + b]);
      });
  }

  /// Stores the codes that `encode` gives, in pairs. encode(x, bits) takes a scaled value and the random bits
  /// drawn for it (0 if none) and returns its code in the top bits of a word.
  template <class Encode>
  void store_lanes(u8* to, Encode encode) {
    alignas(64) float of_pairs[segment_size / 2];
    for (int b = 0; b < at.count; ++b)
      for (int i = 0; i < pairs; ++i) of_pairs[b * pairs + i] = multipliers[b];
    constexpr int width = element::width;
    constexpr bool draws = !lane_rounding_policy<round_policy, element>;
    alignas(64) uint_t<2 * width> codes[segment_size / 2];
    for (int i = 0; i < at.count * pairs; ++i) {
      const u32 bits = draws ? drawn[i] : 0u;
      const u32 even = encode(values.even(i) * of_pairs[i], bits & 0xffffu);
      const u32 odd = encode(values.odd(i) * of_pairs[i], bits >> 16);
      codes[i] = static_cast<uint_t<2 * width>>((odd | even >> width) >> (32 - 2 * width));
    }
    pack_pairs<width>(codes, at.count * pairs, to);
  }

  /// Stores blocks by the definition, round_block(), for policies without a lane form.
  void store_blocks(u8* to, row_part const& part) {
    for (int b = part.first; b < part.first + part.count; ++b)
      with_block(b, [&](float(&block)[block_size]) {
        u8 codes[block_code_bytes<F>];
        round_block<F>(block, multipliers[b], recipe.round, where(part).right((b - part.first) * block_size),
                       codes);
        __builtin_memcpy(to + b * block_code_bytes<F>, codes, sizeof codes);
      });
  }

  template <class Action>
  void with_block(int b, Action action) {
    float block[block_size];
    __builtin_memcpy(block, values.all + b * block_size, sizeof block);
    action(block);
    __builtin_memcpy(values.all + b * block_size, block, sizeof block);
  }
};

}  // namespace detail
}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
