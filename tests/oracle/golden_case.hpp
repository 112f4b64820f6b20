// SPDX-License-Identifier: Apache-2.0
// What a golden case says, the input that it means and the digests that it holds. Inputs are made by integer
// arithmetic alone; oracle.py does the same and must be changed with this file.
#pragma once

#include "support/data.hpp"

namespace fourscale::test::golden {

// The names are those of the library, which they hide in here.
enum format_name { nvfp4, mxfp4, mxfp6_e2m3, mxfp6_e3m2, mxfp8_e4m3, mxfp8_e5m2 };
enum source_name { bf16, fp16, fp32 };
enum copy_name { rowwise, columnwise };
enum shape_name { blocks_1d, blocks_2d };
enum layout_name { linear, swizzled };
enum transform_name { identity, hadamard_16 };
enum rounding_name { nearest_even, stochastic };
enum amax_name { of_tensor, of_each_row };
enum rule_name {
  two_level,
  two_level_division,
  over_six_mae_256,
  over_six_mae_448,
  over_six_mse_256,
  over_six_mse_448,
  power_of_two_up,
  power_of_two_floor,
};

/// All that decides which functions are called: each form is compiled once.
struct form {
  format_name format;
  source_name source;
  copy_name copy;
  shape_name blocks;
  rule_name rule;
  layout_name layout;
  transform_name transform;
  rounding_name rounding;
  amax_name amaxes;
};

/// What the stored matrix is filled with; see pattern().
enum filling { plain, special, infinite, outlier, tiny, huge, overflow, zeros, nans, ties };

/// A form, a matrix of rows x cols as stored, and what the oracle says of it. The digests cover codes, scale
/// bytes with their padding, and the dequantized floats as a matrix of the same shape.
struct golden_case {
  form what;
  filling fill;
  i64 rows, cols, ld;
  u64 seed;
  u32 amax;
  u64 codes, scales, values;
};

/// A small case with its bytes in hexadecimal, in the order of memory; floats as their bits.
struct readable_case {
  golden_case as_digests;
  char const *codes, *scales, *values;
};

/// Depends on every value and its place.
struct digest {
  u64 sum = 0, count = 0;
  constexpr void add(u32 value) { sum += mix(count++ << 32 | value); }
};

struct field_widths {
  u32 exponent, mantissa;
};

/// Where a filling starts: the largest exponent field, for an 8-bit or a 5-bit exponent.
constexpr int top_exponent(filling fill, u32 exponent_bits) {
  if (fill == tiny) return exponent_bits == 8 ? 8 : 3;
  if (fill == huge || fill == overflow) return exponent_bits == 8 ? 254 : 30;
  return exponent_bits == 8 ? 130 : 21;
}

/// Zeros, NaNs, subnormals, the smallest normal number and infinities of either sign.
constexpr u32 special_magnitude(u32 which, field_widths w) {
  const u32 one = 1u << w.mantissa, inf = ((1u << w.exponent) - 1) << w.mantissa;
  const u32 magnitudes[] = {0, inf | one >> 1, 1, one >> 1, one, one - 1, inf | 1u, inf};
  return magnitudes[which];
}

/// For four over six, as floats: values that lie as far from the nearest code when 6 is mapped to 6 as when
/// it is mapped to 4, give or take some ulps. The order of summation then decides which error is smaller.
constexpr u32 tie_magnitude(u64 h, bool largest) {
  const u32 ulps = static_cast<u32>(h & 3) * 2 - 3;                  // -3, -1, 1, 3
  if (largest) return 0x40c0'0000;                                   // 6
  return h >> 32 & 1 ? 0x4088'0000 + ulps : 0x3f20'0000 + ulps * 8;  // 4.25 or 0.625
}

/// Bits of the element at (row, col) of a rows x cols matrix. Magnitudes fall off as in real tensors, over at
/// most 12 binades among 16 neighbours of a row or of a column, so that Hadamard sums are exact.
constexpr u32 pattern(field_widths w, golden_case const& c, i64 row, i64 col) {
  const u64 seed = c.seed << 40, r = static_cast<u64>(row), k = static_cast<u64>(col);
  const u64 h = mix(seed + (r << 20) + k), group = mix(~(seed + (r << 20) + (k >> 4)));
  const u64 tile = mix(~(seed + (u64{1} << 39) + (r >> 5 << 20) + (k >> 5))) & 7;
  const u32 sign = static_cast<u32>(h >> 63) << (w.exponent + w.mantissa);
  u32 mantissa = static_cast<u32>(h) & ((1u << w.mantissa) - 1);
  const u32 inf = ((1u << w.exponent) - 1) << w.mantissa;
  if (c.fill == zeros) return sign;
  if (c.fill == nans) return sign | inf | mantissa | 1u;
  if (c.fill == ties) return sign | tie_magnitude(h, row % 16 == 0 || col % 16 == 0);
  if (c.fill == outlier && row == c.rows / 2 && col == c.cols / 3) return sign | (inf - 1);
  constexpr int fall[16] = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 4, 6, 9};
  int exponent = top_exponent(c.fill, w.exponent) - fall[h >> 32 & 15] - static_cast<int>(group & 3);
  if (exponent == top_exponent(c.fill, w.exponent))  // so that the amax depends on the seed
    mantissa = static_cast<u32>(mantissa * (mix(~c.seed) >> 32) >> 32);
  if (c.fill == special || c.fill == infinite || c.fill == overflow) {
    const u32 which = static_cast<u32>(h >> 40 & 63);
    if (which < (c.fill == special ? 7u : 8u)) return sign | special_magnitude(which, w);
    if (tile == 0) return sign;
    if (tile == 1) exponent -= 12 + 4 * static_cast<int>(group & 3);  // scales are subnormal or underflow
  }
  return sign | static_cast<u32>(exponent > 0 ? exponent : 0) << w.mantissa | mantissa;
}

}  // namespace fourscale::test::golden
