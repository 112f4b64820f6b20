// SPDX-License-Identifier: Apache-2.0
// What matrices may be full of. A function of row, column and copy: Philox4x32-10, and Box-Muller.
#pragma once

#include "harness.cuh"

namespace bench {

struct data {
  enum kind_of {
    usual,      ///< activations{}: rows of size 1 to 2^-7, one value in 500 a hundred times larger
    gaussian,   ///< N(0, 1), as all below before what is said of them
    rows_2,     ///< each row times exp(2 N(0, 1))
    rows_3_5,   ///< each row times exp(3.5 N(0, 1))
    pairs,      ///< each two neighbours times 2^u, u one of -40, ..., 23
    student,    ///< Student's t of two degrees of freedom
    half_zero,  ///< every other row is zero, by chance
    channels,   ///< one column in 64 times 50, by chance
    sparse,     ///< one value in 100, the others zero
    student_3,  ///< Student's t of three degrees of freedom
    cols,       ///< each column times exp(spread N(0, 1)): tokens of a weight gradient
    blocks      ///< each 16 values of a row times exp(spread N(0, 1))
  } kind = usual;
  float spread = 1.5f;  ///< of columns and blocks

  __device__ float operator()(u64 row, u64 col, u64 i) const {
    if (kind == usual) return f4::test::activation(row, i);
    const f4::u32 r = static_cast<f4::u32>(row), c = static_cast<f4::u32>(col);
    const f4::u32 copy = static_cast<f4::u32>(i >> 40);
    const f4::philox_words own = words(c, r, copy, 0);
    const float x = normal(own.words[0], own.words[1]);
    switch (kind) {
      case rows_2:
        return x * expf(2.0f * of_row(r, copy));
      case rows_3_5:
        return x * expf(3.5f * of_row(r, copy));
      case pairs:
        return ldexpf(x, static_cast<int>(words(c / 2, r, copy, 1).words[0] % 64) - 40);
      case student:  // chi-squared of two degrees of freedom is -2 log(uniform)
        return x / sqrtf(-logf(uniform(own.words[2])));
      case student_3: {  // chi-squared of one degree more is the square of a normal
        const float more = normal(own.words[2], own.words[3]);
        const float two = -2.0f * logf(uniform(words(c, r, copy, 4).words[0]));
        return x / sqrtf((two + more * more) / 3.0f);
      }
      case cols:
        return x * expf(spread * of_row(c, copy + 1000));
      case blocks:
        return x * expf(spread * of_row(r, copy + 2000 + c / 16 * 4096));
      case half_zero:
        return words(0, r, copy, 2).words[2] % 2 == 0 ? 0.0f : x;
      case channels:
        return words(c, 0, 0, 3).words[0] % 64 == 0 ? 50.0f * x : x;
      case sparse:
        return uniform(own.words[2]) < 0.01f ? x : 0.0f;
      default:
        return x;
    }
  }

 private:
  static __device__ f4::philox_words words(f4::u32 c0, f4::u32 c1, f4::u32 c2, f4::u32 c3) {
    return f4::philox4x32<10>(c0, c1, c2, c3, u64{20261122});
  }
  /// Above 0, below 1.
  static __device__ float uniform(f4::u32 word) { return (static_cast<float>(word >> 9) + 0.5f) * 0x1p-23f; }
  static __device__ float normal(f4::u32 a, f4::u32 b) {
    return sqrtf(-2.0f * logf(uniform(a))) * cospif(2.0f * uniform(b));
  }
  static __device__ float of_row(f4::u32 row, f4::u32 copy) {
    const f4::philox_words w = words(0, row, copy, 2);
    return normal(w.words[0], w.words[1]);
  }
};

}  // namespace bench
