// SPDX-License-Identifier: Apache-2.0
// The mainloop of the GEMM by block-scaled mma.sync: a CTA of four warps makes a 128 x 128 tile of A * B^T,
// 64 x 64 outputs a warp (warp_tile.cuh). Of two pipeline stages in shared memory (operand_stage.cuh) one is
// filled while the other is multiplied.
#pragma once

#include "warp_tile.cuh"

namespace FOURSCALE_NAMESPACE::mma {

inline constexpr int cta_warps = cta_threads / 32;

/// Two stages of both operands.
template <block_format F, block_format G>
struct operand_stages {
  operand_stage<F> a[2];
  operand_stage<G> b[2];
};
/// Shared memory of a CTA: 34 to 36 KiB, and 6 more for the instruction set `model`. The sums reuse the
/// memory of the operands: after the last stage has been multiplied, and a barrier of all warps.
template <class Set, block_format F, block_format G>
struct cta_memory {
  union {
    operand_stages<F, G> operands;
    sum_strip sums[cta_warps];
  };
  typename Set::memory of_warp[cta_warps];  ///< what the instruction set needs of shared memory
};

/// The first row and column of the warp's 64 x 64 outputs in the tile.
FOURSCALE_D inline int warp_row() { return static_cast<int>(threadIdx.x) / 32 / 2 * warp_rows; }
FOURSCALE_D inline int warp_col() { return static_cast<int>(threadIdx.x) / 32 % 2 * warp_cols; }

namespace detail {

/// Starts the copies of the codes of both operands to a stage. The scales go by registers, in multiply().
template <class F, class LA, class G, class LB>
FOURSCALE_D void start_stage(operand_rows<F, LA> const& a, operand_rows<G, LB> const& b, i64 stage,
                             operand_stages<F, G>& memory) {
  start_codes(a, stage, memory.a[stage % 2]);
  start_codes(b, stage, memory.b[stage % 2]);
}

}  // namespace detail

/// Multiplies 128 rows of A by 128 rows of B over all of K. All cta_threads threads call it; `tile` gets the
/// warp's accumulators. No barrier follows the last stage: see cta_memory.
template <class Set, class F, class LA, class G, class LB>
FOURSCALE_D void multiply(operand_rows<F, LA> const& a, operand_rows<G, LB> const& b,
                          cta_memory<Set, F, G>& cta, warp_tile<F, G>& tile) {
  const i64 steps = steps_along<F>(a.matrix.cols);
  u32 scales_a[scale_words<F>], scales_b[scale_words<G>];
  operand_stages<F, G>& memory = cta.operands;
  typename Set::memory& of_warp = cta.of_warp[threadIdx.x / 32];
  tile.clear();
  detail::start_stage(a, b, 0, memory);
  load_scales(a, 0, scales_a);
  load_scales(b, 0, scales_b);
  store_scales(scales_a, memory.a[0]);
  store_scales(scales_b, memory.b[0]);
#pragma unroll 1
  for (i64 stage = 0; stage * stage_steps < steps; ++stage) {
    ptx::cp_async_wait_all();
    __syncthreads();  // this stage has arrived, and no thread reads the previous one any more
    const bool more = (stage + 1) * stage_steps < steps;
    if (more) {
      detail::start_stage(a, b, stage + 1, memory);
      load_scales(a, stage + 1, scales_a);
      load_scales(b, stage + 1, scales_b);
    }
    const int first_scale = static_cast<int>(stage * stage_scales<F> % 4);
    FOURSCALE_UNROLL
    for (int step = 0; step < stage_steps; ++step)
      if (stage * stage_steps + step < steps)
        add_step<Set>(memory.a[stage % 2], warp_row(), memory.b[stage % 2], warp_col(), step, first_scale,
                      of_warp, tile);
    if (more) {
      store_scales(scales_a, memory.a[(stage + 1) % 2]);
      store_scales(scales_b, memory.b[(stage + 1) % 2]);
    }
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma
