// SPDX-License-Identifier: Apache-2.0
// From the accumulators of a warp to rows of D, under one factor for all outputs: 16-bit types by TMA, which
// goes on while the warp works on its next tile; FP32, to which D may be added, from the registers of each
// lane. What else there is goes by output_strip.cuh.
#pragma once

#include <cuda.h>

#include <cuda/ptx>

#include "../ptx/ldmatrix.cuh"
#include "../ptx/mbarrier.cuh"
#include "output_strip.cuh"

namespace FOURSCALE_NAMESPACE::mma {

/// What a TMA store takes: 16 rows of 64 16-bit values, under the swizzle of 128 bytes.
inline constexpr int box_cols = 64, box_bytes = output_rows * box_cols * 2;

enum class output_way : u32 { strips, boxes, pairs };

/// P: .d, .factor_of, .beta. TMA writes whole 16 bytes to rows that are less than 2^40 bytes apart; others
/// have another way.
template <class P>
FOURSCALE_HD output_way way_of_outputs(P const& p) {
  constexpr u64 bytes = sizeof(*p.d.data);
  const u64 offsets = reinterpret_cast<u64>(p.d.data) | static_cast<u64>(p.d.ld) * bytes |
                      static_cast<u64>(p.d.cols) * bytes;  // divisible by what divides all three
  if (!p.factor_of.same_for_all()) return output_way::strips;
  const bool near = static_cast<u64>(p.d.ld) * bytes < u64{1} << 40;
  if (bytes == 2 && p.beta == 0.0f && offsets % 16 == 0 && near) return output_way::boxes;
  if (bytes == 4 && offsets % 8 == 0) return output_way::pairs;
  return output_way::strips;
}

/// A warp's outputs in shared memory, and how it stores them, which is found once and would take registers
/// and time in the inner loop.
template <int Cols>
struct output_rows_of_warp {
  static_assert(Cols % box_cols == 0);
  union {
    alignas(1024) u8 boxes[Cols / box_cols][box_bytes];
    output_strip strip;
  };
  output_way way;
  float factor;  ///< of all outputs, unless they go by strips

  /// One warp. P: .d, .factor_of, .beta.
  template <class P>
  FOURSCALE_D void prepare(P const& p) {
    if (threadIdx.x % 32 == 0) {
      way = way_of_outputs(p);
      factor = output_store(p).of_all;
    }
    __syncwarp();
  }

  /// The 16 x Cols outputs of the warp to D from (row, col) on, as output_store has them. P: .map_d too.
  template <class P>
  FOURSCALE_D void store(P const& p, i64 row, i64 col, float const (&sums)[Cols / 2]) {
    using T = typename decltype(p.d)::value_type;
    finish();
    const auto by = static_cast<output_way>(ptx::load_shared_u32(ptx::shared_address(&way)));
    if constexpr (sizeof(T) == 2) {
      if (by == output_way::boxes) {
        store_boxes<T>(p.map_d, static_cast<i32>(row), static_cast<i32>(col), sums);
        return;
      }
    } else {
      if (by == output_way::pairs) {
        store_pairs(p.d, row, col, p.beta, sums);
        return;
      }
    }
    output_store(p).template outputs<Cols>(p, row, col, sums, strip);
  }
  /// Waits until TMA has read what it stores.
  FOURSCALE_D static void finish() {
    cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>{});
    __syncwarp();
  }

 private:
  /// Row r of a box is at 128 r, its 16 bytes number c at 16 (c ^ r % 8).
  template <class T>
  FOURSCALE_D void store_boxes(CUtensorMap const& map, i32 row, i32 col, float const (&sums)[Cols / 2]) {
    const u32 lane = threadIdx.x % 32;
    const u32 at = ptx::shared_address(boxes) + lane % 16 * 128 + 16 * (lane / 16 ^ lane % 8);
    const float by = factor;
    FOURSCALE_UNROLL
    for (u32 i = 0; i < Cols / 16; ++i) {
      float const* const x = sums + 8 * i;
      u32 words[4];
      FOURSCALE_UNROLL
      for (int k = 0; k < 4; ++k) words[k] = gemm_output_pair<T>(by, x[2 * k + 1], x[2 * k]);
      ptx::stmatrix_m8n8_x4_b16((at ^ 32 * (i % 4)) + i / 4 * box_bytes, words);
    }
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncwarp();
    if (lane == 0) {
      FOURSCALE_UNROLL
      for (int i = 0; i < Cols / box_cols; ++i)
        cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_global, cuda::ptx::space_shared, &map,
                                        {col + i * box_cols, row}, boxes[i]);
      cuda::ptx::cp_async_bulk_commit_group();
    }
  }

  /// Four lanes have 32 bytes of a row, a whole sector. A quarter of what D has is asked for before the first
  /// value of it is used.
  FOURSCALE_D void store_pairs(matrix_view<float> const& d, i64 row, i64 col, float beta,
                               float const (&sums)[Cols / 2]) {
    const i64 lane = threadIdx.x % 32, r = row + lane / 4, c = col + lane % 4 * 2;
    const int cols = static_cast<int>(min(d.cols - c, i64{Cols}));  // from the lane's first on
    float2* const to = reinterpret_cast<float2*>(d.data + r * d.ld + c);
    const i64 eight_rows = 4 * d.ld;  // in pairs
    const bool inside[2] = {r < d.rows, r + 8 < d.rows};
    const float by = factor;
    constexpr int pairs = Cols / 16;  // of a quarter: columns in eights, rows and those eight below
    FOURSCALE_UNROLL
    for (int first = 0; first < Cols / 4; first += pairs) {
      float2 old[pairs];
      if (beta != 0.0f) {
        FOURSCALE_UNROLL
        for (int i = 0; i < pairs; ++i) {
          const int at = (first + i) / 2 * 4;
          if (inside[i % 2] && 2 * at < cols) old[i] = to[i % 2 * eight_rows + at];
        }
      }
      FOURSCALE_UNROLL
      for (int i = 0; i < pairs; ++i) {
        const int at = (first + i) / 2 * 4;
        const float x = sums[2 * (first + i)], y = sums[2 * (first + i) + 1];
        const float2 value = beta != 0.0f ? float2{gemm_output<float>(by, x, beta, old[i].x),
                                                   gemm_output<float>(by, y, beta, old[i].y)}
                                          : float2{gemm_output<float>(by, x), gemm_output<float>(by, y)};
        if (inside[i % 2] && 2 * at < cols) to[i % 2 * eight_rows + at] = value;
      }
    }
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma
