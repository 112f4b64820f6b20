// SPDX-License-Identifier: Apache-2.0
// From the accumulators of a warp to rows of D by bulk copies, which go on while the warp works on its next
// tile: 16-bit outputs under one factor, D not read. What else there is goes by output_strip.cuh.
#pragma once

#include <cuda/ptx>

#include "../ptx/mbarrier.cuh"
#include "output_strip.cuh"

namespace FOURSCALE_NAMESPACE::mma {

/// A warp's outputs in shared memory, and how it stores them, which is found once and would take registers
/// and time in the inner loop.
template <int Cols>
struct output_rows_of_warp {
  static constexpr int row_values = Cols + 8;  ///< so that the stores of a warp touch each bank once
  union {
    output_strip strip;
    alignas(16) u16 rows[output_rows][row_values];
  };
  u32 by_copies;
  float factor;  ///< of all outputs, if they go by copies

  /// One warp. P: .d, .factor_of, .beta.
  template <class P>
  FOURSCALE_D void prepare(P const& p) {
    if (threadIdx.x % 32 == 0) {
      const output_store store(p);
      by_copies =
          sizeof(*p.d.data) == 2 && store.vectors && store.same && p.beta == 0.0f && p.d.cols % 8 == 0;
      factor = store.of_all;
    }
    __syncwarp();
  }

  /// The 16 x Cols outputs of the warp to D from (row, col) on, as output_store has them; `col` is a multiple
  /// of eight.
  template <class P>
  FOURSCALE_D void store(P const& p, i64 row, i64 col, float const (&sums)[Cols / 2]) {
    finish();
    if constexpr (sizeof(*p.d.data) == 2) {
      if (ptx::load_shared_u32(ptx::shared_address(&by_copies)) != 0) {
        copy(p.d, row, col, sums);
        return;
      }
    }
    output_store(p).template outputs<Cols>(p, row, col, sums, strip);
  }
  /// Waits until the copies have read what they copy.
  FOURSCALE_D static void finish() {
    cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>{});
    __syncwarp();
  }

 private:
  template <class T>
  FOURSCALE_D void copy(matrix_view<T> const& d, i64 row, i64 col, float const (&sums)[Cols / 2]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    FOURSCALE_UNROLL
    for (int i = 0; i < Cols / 2; i += 2)
      *reinterpret_cast<u32*>(&rows[lane / 4 + 8 * (i / 2 % 2)][8 * (i / 4) + 2 * (lane % 4)]) =
          bit_cast<u16>(gemm_output<T>(factor, sums[i])) |
          u32{bit_cast<u16>(gemm_output<T>(factor, sums[i + 1]))} << 16;
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncwarp();
    const i64 cols = d.cols - col < Cols ? d.cols - col : Cols;
    if (lane < output_rows && row + lane < d.rows && cols > 0)
      cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, &d.at(row + lane, col),
                               rows[lane], static_cast<u32>(cols) * u32{sizeof(T)});
    cuda::ptx::cp_async_bulk_commit_group();
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma
