// SPDX-License-Identifier: Apache-2.0
// D = A * B^T of FP8 on any GPU from sm_80 on, by one warp for 16 x 64 outputs. Codes are converted in
// registers to f16, which holds them exactly. As in fp8_roles.cuh, a group of 128 products along K is summed
// by mma.sync, from zero, and then added in f32. Of a row of either operand, each of four lanes takes 32
// consecutive values of a group, since products may be added in any order.
#pragma once

#include "../ptx/cvt.hpp"
#include "../ptx/mma_sync_f16.cuh"
#include "output_strip.cuh"

namespace FOURSCALE_NAMESPACE::mma::fp8 {

inline constexpr int warp_cols = 64, warps = 4, lane_bytes = 32;

/// Converts the two codes in the lower half of `codes` to two f16, exactly.
template <class E>
FOURSCALE_D u32 to_f16x2(u32 codes) {
  const u16 pair = static_cast<u16>(codes);
  if constexpr (same_type<E, e5m2>) {
    return u32{pair & 0xffu} << 8 | u32{pair & 0xff00u} << 16;
  } else if constexpr (arch::has_cvt_fp8) {
    return ptx::cvt_rn_f16x2_e4m3x2(pair);
  } else {
    const auto f16 = [](u32 code) {
      return u32{bit_cast<u16>(from_float<fp16>(decode(E{static_cast<u8>(code)})))};
    };
    return f16(pair & 0xff) | f16(pair >> 8) << 16;
  }
}

/// Loads a lane's 32 codes of a row, from column `first` on; zeros beyond K and beyond the last row.
template <class View>
FOURSCALE_D void load_lane(View const& q, i64 row, i64 first, bool wide, u32 (&codes)[lane_bytes / 4]) {
  u8 const* const from = q.codes + row * q.cols + first;
  FOURSCALE_UNROLL
  for (int i = 0; i < lane_bytes; i += 16) {
    uint4 x{};
    if (row < q.rows && first + i < q.cols) {
      if (wide) {
        x = *reinterpret_cast<uint4 const*>(from + i);
      } else {
        u32 words[4] = {};
        for (int j = 0; j < 16; ++j) words[j / 4] |= u32{from[i + j]} << (j % 4 * 8);
        x = {words[0], words[1], words[2], words[3]};
      }
    }
    codes[i / 4] = x.x, codes[i / 4 + 1] = x.y, codes[i / 4 + 2] = x.z, codes[i / 4 + 3] = x.w;
  }
}

/// The scale of a row in a group; 0 beyond the last row.
template <class View>
FOURSCALE_D float scale_of(View const& q, i64 row, i64 group) {
  return row < q.rows ? bit_cast<float>(q.load_scale(row, group).bits) : 0.0f;
}

/// Computes and stores 16 x 64 outputs of D from (row, col) on. A whole warp calls it. P: the problem of
/// fp8_roles.cuh. `wide_a`, `wide_b`: the codes of A, of B begin at a multiple of 16 bytes.
template <class P>
FOURSCALE_D void multiply_warp(P const& p, i64 row, i64 col, bool wide_a, bool wide_b, output_strip& strip) {
  const int lane = static_cast<int>(threadIdx.x) % 32, of_lane = lane % 4 * lane_bytes;
  const i64 row_a = row + lane / 4;
  float sums[warp_cols / 2] = {};
  for (i64 group = 0; group < p.groups(); ++group) {
    u32 a[2][lane_bytes / 4];
    FOURSCALE_UNROLL
    for (int i = 0; i < 2; ++i) load_lane(p.a, row_a + 8 * i, group * group_values + of_lane, wide_a, a[i]);
    FOURSCALE_UNROLL
    for (int n = 0; n < warp_cols / 8; ++n) {
      u32 b[lane_bytes / 4];
      load_lane(p.b, col + 8 * n + lane / 4, group * group_values + of_lane, wide_b, b);
      float part[4] = {};
      FOURSCALE_UNROLL
      for (int k = 0; k < lane_bytes / 4; ++k) {
        using E = typename P::a_element;
        using F = typename P::b_element;
        const u32 of_a[4] = {to_f16x2<E>(a[0][k]), to_f16x2<E>(a[1][k]), to_f16x2<E>(a[0][k] >> 16),
                             to_f16x2<E>(a[1][k] >> 16)};
        ptx::mma_sync_m16n8k16_f16(part, of_a, to_f16x2<F>(b[k]), to_f16x2<F>(b[k] >> 16));
      }
      FOURSCALE_UNROLL
      for (int j = 0; j < 4; ++j) {
        float& sum = sums[4 * n + j];
        if constexpr (P::scaled)
          sum = ptx::fma_rn_f32(ptx::mul_rn_f32(part[j], scale_of(p.a, row_a + j / 2 * 8, group)),
                                scale_of(p.b, col + 8 * n + lane % 4 * 2 + j % 2, group), sum);
        else
          sum += part[j];
      }
    }
  }
  output_store(p).template outputs<warp_cols>(p, row, col, sums, strip);
}

}  // namespace FOURSCALE_NAMESPACE::mma::fp8
