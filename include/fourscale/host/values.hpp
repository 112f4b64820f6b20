// SPDX-License-Identifier: Apache-2.0
// Loads the values of some consecutive blocks of a matrix, and packs and unpacks their codes. The arrays are
// laid out for loops that compilers vectorize. segment.hpp and dequantize.hpp work on them.
#pragma once

#include "../block/quantize.hpp"
#include "../view/block_scaled_view.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {
namespace detail {

/// The number of values that are worked on at a time. With the arrays of all stages they take a few KiB, to
/// fit in the L1 cache.
inline constexpr int segment_size = 1024;

/// `count` consecutive blocks, counted row after row. The first is block `block` of row `row`.
struct block_range {
  i64 row, block;
  int count;
};

/// A range of up to `most` of the `all` blocks of a matrix, from block number `first` on.
constexpr block_range range_of(i64 first, i64 all, i64 blocks_in_row, int most) {
  const i64 left = all - first;
  return {first / blocks_in_row, first % blocks_in_row, left < most ? static_cast<int>(left) : most};
}

/// The blocks of a range in one row: `count` of them, from block `block` of row `row`, which is block `first`
/// of the range.
struct row_part {
  i64 row, block;
  int first, count;
};

/// Calls action(row_part) for each row in which the range has blocks.
template <class Action>
void for_each_row(block_range const& at, i64 blocks_in_row, Action action) {
  if (at.count <= blocks_in_row - at.block) return action(row_part{at.row, at.block, 0, at.count});
  row_part part{at.row, at.block, 0, 0};
  for (; part.first < at.count; part = {part.row + 1, 0, part.first + part.count, 0}) {
    const i64 in_row = blocks_in_row - part.block, left = at.count - part.first;
    part.count = static_cast<int>(in_row < left ? in_row : left);
    action(static_cast<row_part const&>(part));
  }
}

/// Whether the rows of x follow each other without a gap.
template <class M>
bool is_contiguous(M const& x) {
  if constexpr (requires { x.ld; })
    return x.ld == x.cols;
  else
    return false;
}

/// Calls action(row, col, first, count) for each stretch of the range's values that is contiguous in x: part
/// of one row, or of several rows without gaps. The `count` values of x from (row, col) on are values `first`
/// .. of the range. x begins at row x_row, block x_block of the matrix whose blocks `at` counts.
template <int BlockSize, class M, class Action>
void for_each_stretch(M const& x, i64 x_row, i64 x_block, block_range const& at, i64 blocks_in_row,
                      Action action) {
  for_each_row(at, is_contiguous(x) ? at.block + at.count : blocks_in_row, [&](row_part const& part) {
    action(part.row - x_row, (part.block - x_block) * BlockSize, part.first * BlockSize,
           part.count * BlockSize);
  });
}

/// The values of a range, as floats. Loops read them in pairs of neighbours, even and odd values from two
/// vectors, so that the codes and magnitudes of a pair meet without a shuffle.
struct float_values {
  alignas(64) float all[segment_size];

  template <int BlockSize, matrix_like M>
  void load(M const& x, i64 x_row, i64 x_block, block_range const& at, i64 blocks_in_row) {
    for_each_stretch<BlockSize>(x, x_row, x_block, at, blocks_in_row,
                                [&](i64 row, i64 col, int first, int count) {
                                  for (int i = 0; i < count; ++i)
                                    all[first + i] = to_float(x.at(row, col + i));
                                });
  }
  float even(int pair) const { return all[2 * pair]; }
  float odd(int pair) const { return all[2 * pair + 1]; }
};

/// The same for bf16, or a type with its bits. Values that lie side by side in x are not copied. A shift and
/// a mask turn a word of two values into floats; the first of the two must be its lower half.
template <class T>
struct bf16_values {
  T const* all;
  alignas(64) T copied[segment_size];

  template <int BlockSize, matrix_like M>
  void load(M const& x, i64 x_row, i64 x_block, block_range const& at, i64 blocks_in_row) {
    for_each_stretch<BlockSize>(x, x_row, x_block, at, blocks_in_row,
                                [&](i64 row, i64 col, int first, int count) {
                                  all = &x.at(row, col);
                                  if (count == at.count * BlockSize) return;
                                  __builtin_memcpy(copied + first, all, sizeof(T) * static_cast<u64>(count));
                                  all = copied;
                                });
  }
  u32 word(int pair) const {
    u32 both;
    __builtin_memcpy(&both, all + 2 * pair, sizeof both);
    return both;
  }
  float even(int pair) const { return bit_cast<float>(word(pair) << 16); }
  float odd(int pair) const { return bit_cast<float>(word(pair) & 0xffff'0000u); }
};

/// True if T has the bits of bf16, and the first of two values is the lower half of their word.
template <class T>
constexpr bool is_bf16() {
  struct two {
    bf16 first, second;
  };
  if constexpr (requires { typename real_traits<T>::same_bits; })
    return is_bf16<typename real_traits<T>::same_bits>();
  else
    return same_type<T, bf16> && bit_cast<u32>(two{{1}, {0}}) == 1;
}

/// True if the values that a segment loads lie in memory: those of M itself, or of a transpose, which are
/// gathered first.
template <class M>
constexpr bool lies_in_memory() {
  return M::is_transposed || requires(M const& m) { &m.at(0, 0); };
}

/// The type that holds the values of a matrix M: bf16_values for bf16 in memory, unless a policy of the
/// quantizer needs floats.
template <class F, class M, class Quantizer>
constexpr auto values_for() {
  using value = typename M::value_type;
  using round = decltype(Quantizer::round);
  using element = typename F::element;
  constexpr bool by_pairs =
      same_type<decltype(Quantizer::transform), identity> &&
      (lane_rounding_policy<round, element> ||
       drawing_lane_rounding_policy<round, element>)&&amax_scaling_policy<decltype(Quantizer::scale), F>;
  if constexpr (by_pairs && is_bf16<value>() && lies_in_memory<M>())
    return bf16_values<value>{};
  else
    return float_values{};
}

/// Packs `count` pairs of codes into bytes, in the order of packed<>.
template <int Width, class Pair>
void pack_pairs(Pair const* codes, int count, u8* to) {
  if constexpr (Width == 4) {
    __builtin_memcpy(to, codes, static_cast<u64>(count));
  } else if constexpr (Width == 8) {
    for (int i = 0; i < count; ++i)
      for (int j = 0; j < 2; ++j) to[2 * i + j] = static_cast<u8>(codes[i] >> (8 * j));
  } else {
    for (int i = 0; i < count / 2; ++i) {
      const u32 four = codes[2 * i] | u32{codes[2 * i + 1]} << 12;
      for (int j = 0; j < 3; ++j) to[3 * i + j] = static_cast<u8>(four >> (8 * j));
    }
  }
}

/// Unpacks `count` pairs of codes, each code into a word of its own.
template <int Width>
void unpack_pairs(u8 const* from, int count, u32* codes) {
  if constexpr (Width == 4) {
    for (int i = 0; i < count; ++i) {
      codes[2 * i] = from[i] & 15u;
      codes[2 * i + 1] = from[i] >> 4;
    }
  } else if constexpr (Width == 8) {
    for (int i = 0; i < 2 * count; ++i) codes[i] = from[i];
  } else {
    for (int i = 0; i < count / 2; ++i) {
      const u32 four = from[3 * i] | u32{from[3 * i + 1]} << 8 | u32{from[3 * i + 2]} << 16;
      for (int j = 0; j < 4; ++j) codes[4 * i + j] = four >> (6 * j) & 63u;
    }
  }
}

}  // namespace detail
}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
