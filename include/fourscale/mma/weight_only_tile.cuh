// SPDX-License-Identifier: Apache-2.0
// What a warp does with a stage in the weight-only GEMM by mma.sync: it decodes codes and scales to fragments
// in registers, and multiplies them by X. weight_only.hpp says what lies where. The wgmma kernel
// (weight_only_wgmma.cuh) decodes in the same way.
#pragma once

#include "../formats/convert.hpp"
#include "../formats/e2m1.hpp"
#include "../formats/e4m3.hpp"
#include "../formats/real.hpp"
#include "../ptx/mma_sync_f16.cuh"
#include "weight_only.hpp"

namespace FOURSCALE_NAMESPACE::mma::weight_only {

/// The accumulators of a warp: 32 rows of D^T (two instructions) by 8 NTiles columns (NTiles instructions).
template <int NTiles>
struct sums {
  float d[2][NTiles][4];

  FOURSCALE_D void clear() {
    FOURSCALE_UNROLL
    for (int i = 0; i < 8 * NTiles; ++i) d[i / (4 * NTiles)][i / 4 % NTiles][i % 4] = 0.0f;
  }
};

/// Decodes codes and scales to type T. codes() times factors() is exactly 2^-7 of the weights (sum_factor).
template <class T>
struct weight_type;

template <>
struct weight_type<bf16> {
  /// Two scales times 2^119, for codes() are 2^126 times too small.
  FOURSCALE_D static u32 factors([[maybe_unused]] float a, [[maybe_unused]] float b) {
#if FOURSCALE_DEVICE_PASS
    return mul(ptx::cvt_rn_bf16x2_f32(b, a), 0x7b00'7b00u);
#else
    return 0;
#endif
  }
  FOURSCALE_D static void codes(u32 word, u32 (&r)[4]) { codes_to_bf16(word, r); }
  FOURSCALE_D static u32 mul(u32 a, u32 b) { return ptx::mul_rn_bf16x2(a, b); }
  FOURSCALE_D static void mma(float (&d)[4], u32 const (&a)[4], u32 b0, u32 b1) {
    ptx::mma_sync_m16n8k16_bf16(d, a, b0, b1);
  }
};

template <>
struct weight_type<fp16> {
  /// Two scales times 2^7, for codes() are 2^14 times too small.
  FOURSCALE_D static u32 factors([[maybe_unused]] float a, [[maybe_unused]] float b) {
#if FOURSCALE_DEVICE_PASS
    return mul(ptx::cvt_rn_f16x2_f32(b, a), 0x5800'5800u);
#else
    return 0;
#endif
  }
  /// In the order of codes_to_bf16(). A code becomes the upper byte of an fp16.
  FOURSCALE_D static void codes(u32 word, u32 (&r)[4]) {
    const u32 even = byte_of_codes(word << 4), odd = byte_of_codes(word);
    r[0] = __byte_perm(even, 0, 0x2404), r[1] = __byte_perm(odd, 0, 0x2404);
    r[2] = __byte_perm(even, 0, 0x3414), r[3] = __byte_perm(odd, 0, 0x3414);
  }
  FOURSCALE_D static u32 mul(u32 a, u32 b) { return ptx::mul_rn_f16x2(a, b); }
  FOURSCALE_D static void mma(float (&d)[4], u32 const (&a)[4], u32 b0, u32 b1) {
    ptx::mma_sync_m16n8k16_f16(d, a, b0, b1);
  }

 private:
  FOURSCALE_D static u32 byte_of_codes(u32 x) { return (x & 0x8080'8080u) | (x >> 3 & 0x0e0e'0e0eu); }
};

/// The factors of the two E4M3 scales in the lower half of `pair`, each in both halves of a register. A NaN
/// scale makes its weights NaN.
template <class T>
FOURSCALE_D void factors_of([[maybe_unused]] u32 pair, [[maybe_unused]] u32 (&factors)[2]) {
#if FOURSCALE_DEVICE_PASS
  float scale[2];
  if constexpr (arch::has_cvt_fp8) {
    const u32 both = ptx::cvt_rn_f16x2_e4m3x2(static_cast<u16>(pair));
    scale[0] = ptx::cvt_f32_f16(static_cast<u16>(both));
    scale[1] = ptx::cvt_f32_f16(static_cast<u16>(both >> 16));
  } else {
    scale[0] = decode(e4m3{static_cast<u8>(pair)});
    scale[1] = decode(e4m3{static_cast<u8>(pair >> 8)});
  }
  ptx::twice_each(weight_type<T>::factors(scale[0], scale[1]), factors[0], factors[1]);
#endif
}

/// A lane's part of half a stage of W: for each of its four rows, a chunk and the factors of its two blocks.
template <class T>
struct lane_weights {
  u32 words[lane_rows][4];
  u32 factors[lane_rows][2];

  /// Loads them from where weight_stream copied them. `codes` is half a stage, `scales` a whole one.
  FOURSCALE_D void load(u8 const* codes, u8 const* scales, int half, bool swizzled) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    FOURSCALE_UNROLL
    for (int j = 0; j < lane_rows; ++j)
      set_words(j, *reinterpret_cast<uint4 const*>(codes + (j * 32 + lane) * chunk_bytes));
    load_factors(scales, half, swizzled, scale_pair(lane) == 0 ? 0x10u : 0x32u);
  }
  /// Loads them from where TMA wrote them, in the order of word_of(). `codes` and `scales` are whole stages.
  FOURSCALE_D void load_tma(u8 const* codes, u8 const* scales, int half, bool swizzled) {
    const int lane = static_cast<int>(threadIdx.x) % 32, at = tma_code_offset(lane, half);
    FOURSCALE_UNROLL
    for (int j = 0; j < lane_rows; ++j) {
      u8 const* const row = codes + j * 8 * stage_bytes;
      const uint2 a = *reinterpret_cast<uint2 const*>(row + at),
                  b = *reinterpret_cast<uint2 const*>(row + (at ^ 8));
      set_words(j, {a.x, a.y, b.x, b.y});
    }
    load_factors(scales, half, swizzled, scale_bytes_of(lane));
  }
  /// Decodes a word of row j to four registers of two weights each.
  FOURSCALE_D void fragments(int j, int word, u32 (&r)[4]) const {
    weight_type<T>::codes(words[j][word], r);
    FOURSCALE_UNROLL
    for (int i = 0; i < 4; ++i) r[i] = weight_type<T>::mul(r[i], factors[j][word / 2]);
  }

 private:
  FOURSCALE_D void set_words(int j, uint4 v) {
    words[j][0] = v.x, words[j][1] = v.y, words[j][2] = v.z, words[j][3] = v.w;
  }
  /// `two`: the selector with which prmt takes the two scales from a word of four.
  FOURSCALE_D void load_factors(u8 const* scales, int half, bool swizzled, u32 two) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    FOURSCALE_UNROLL
    for (int j = 0; j < lane_rows; ++j) {
      const int at = scale_offset(swizzled, 8 * j + lane_row(lane), scale_word(lane, half));
      factors_of<T>(ptx::prmt_b32(*reinterpret_cast<u32 const*>(scales + at), 0, two), factors[j]);
    }
  }
};

/// Brings eight values of X from the order of memory to the order of registers, 0 4 1 5 2 6 3 7.
FOURSCALE_D inline uint4 in_order_of_registers(uint4 v) {
  return {__byte_perm(v.x, v.z, 0x5410), __byte_perm(v.x, v.z, 0x7632), __byte_perm(v.y, v.w, 0x5410),
          __byte_perm(v.y, v.w, 0x7632)};
}

/// Reads a lane's fragments from a stage of X, as fill_x() leaves it: those of two instructions at a time.
template <int NTiles>
struct filled_x {
  u8 const* stage;

  FOURSCALE_D uint4 operator()(int half, int word, int tile) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return *reinterpret_cast<uint4 const*>(stage + x_offset(NTiles, half, word, tile, lane));
  }
};

/// The same from a stage of X that TMA wrote.
template <int NTiles>
struct tma_x {
  u8 const* stage;

  FOURSCALE_D uint4 operator()(int half, int word, int tile) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // The offsets of a lane's four words differ in two bits only, which half and tile do not change.
    const int at = tma_x_offset(NTiles, lane, 0, 0) ^ 16 * word;
    return in_order_of_registers(*reinterpret_cast<uint4 const*>(
        stage + at + half * (slices / halves) * slice_bytes(NTiles) + tile * 8 * slice_values * 2));
  }
};

/// Adds half a stage of W times the same half of a stage of X (filled_x or tma_x). A whole warp calls it.
template <class T, int NTiles, class X>
FOURSCALE_D void add_half(lane_weights<T> const& w, X const& x, int half, sums<NTiles>& to) {
  FOURSCALE_UNROLL
  for (int word = 0; word < 4; ++word) {
    uint4 b[NTiles];
    FOURSCALE_UNROLL
    for (int n = 0; n < NTiles; ++n) b[n] = x(half, word, n);
    FOURSCALE_UNROLL
    for (int m = 0; m < 2; ++m) {
      u32 upper[4], lower[4];  // rows g and g + 8 of the instruction
      w.fragments(2 * m, word, upper);
      w.fragments(2 * m + 1, word, lower);
      FOURSCALE_UNROLL
      for (int n = 0; n < NTiles; ++n)
        weight_type<T>::mma(to.d[m][n], {upper[0], lower[0], upper[1], lower[1]}, b[n].x, b[n].y);
      FOURSCALE_UNROLL
      for (int n = 0; n < NTiles; ++n)
        weight_type<T>::mma(to.d[m][n], {upper[2], lower[2], upper[3], lower[3]}, b[n].z, b[n].w);
    }
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma::weight_only
