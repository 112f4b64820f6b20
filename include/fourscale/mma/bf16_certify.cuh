// SPDX-License-Identifier: Apache-2.0
// Certificates of bf16_tile.cuh: what proves for a warp's 64 x 64 outputs that a step may be added to them as
// a sum of 64 products. By bounds of eight rows and eight columns, and where widths are not enough by their
// magnitudes.
#pragma once

#include "../ptx/mma_sync_f16.cuh"
#include "bf16_stages.cuh"
#include "exact_step.cuh"

namespace FOURSCALE_NAMESPACE::mma::bf16_tile {

/// Whether the sum of byte 0 of `one` and of a byte of `two`, 0 or 2, is `Sum` or more: both at once.
template <u32 Sum>
FOURSCALE_HD constexpr bool one_reaches(u32 two, u32 one) {
  constexpr u32 both = 0x1'0001u;
  return (((two & 0xff * both) + (one & 0xff) * both + (0x8000 - Sum) * both) & 0x8000 * both) != 0;
}
/// Of two times eight rows and of eight columns, the bounds of each in two bytes: not all sums are exact.
FOURSCALE_HD constexpr bool sums_may_round(u32 of_rows, u32 of_cols) {
  return one_reaches<8 * 24>(of_rows, of_cols);
}
/// Something may be dropped.
FOURSCALE_HD constexpr bool bits_may_drop(u32 of_rows, u32 of_cols) {
  return one_reaches<35 + 1>(of_rows >> 8, of_cols >> 8);
}

/// What is known of a step, a lane's share. Of the warp's eights, as rows and columns in eights are called
/// here: bounds of the rows 2 (lane / 8) and the next, in two bytes each, and of the columns lane % 8; and a
/// quarter, lane % 4, of the magnitudes of the rows lane / 4, and of columns.
struct step_facts {
  u32 two, one;
  uint4 of_rows, of_cols;
};

/// Which 64 rows of an operand a warp has from `row` on; behind the operand, the last ones.
FOURSCALE_D inline int chunk_of(decoded_operand const& x, int row) {
  return min(row, static_cast<int>(x.rows) - 1) / warp_rows;
}

/// Where that lies, for a warp whose first row and column are these.
struct facts_of_warp {
  uint4 const *bounds_a, *bounds_b;  ///< of all eights of the warp, step after step
  uint4 const *magnitudes_a, *magnitudes_b;
  int stride_a, stride_b;  ///< from step to step, in magnitudes of eight

  template <class P>
  FOURSCALE_D facts_of_warp(P const& p, int row, int col) {
    const i64 lane = threadIdx.x % 32;
    const i64 rows = chunk_of(p.a, row), cols = chunk_of(p.b, col);
    bounds_a = reinterpret_cast<uint4 const*>(p.a.bounds) + rows * p.a.steps;
    bounds_b = reinterpret_cast<uint4 const*>(p.b.bounds) + cols * p.b.steps;
    // Column n of an MMA is the eight n / 2 + 4 (n % 2): the two that a lane gets sums of are four apart.
    const i64 eight = lane / 8 + 4 * (lane / 4 % 2);
    magnitudes_a = reinterpret_cast<uint4 const*>(p.a.magnitudes + rows * bounds_chunk + lane / 4) + lane % 4;
    magnitudes_b = reinterpret_cast<uint4 const*>(p.b.magnitudes + cols * bounds_chunk + eight) + lane % 4;
    stride_a = static_cast<int>(p.a.row_groups()), stride_b = static_cast<int>(p.b.row_groups());
  }
  FOURSCALE_D step_facts load(int step) const {
    const u32 lane = threadIdx.x % 32;
    return {reinterpret_cast<u32 const*>(bounds_a + step)[lane / col_blocks],
            reinterpret_cast<u16 const*>(bounds_b + step)[lane % col_blocks],
            magnitudes_a[i64{step} * stride_a * 4], magnitudes_b[i64{step} * stride_b * 4]};
  }
};

/// Of all 64 x 64 outputs, by the largest of their bounds alone: a lane asks for a step of its own.
FOURSCALE_D inline bool all_certified(uint4 a, uint4 b) {
  const auto rows = largest_bounds({a.x, a.y, a.z, a.w}), cols = largest_bounds({b.x, b.y, b.z, b.w});
  return sums_are_exact(rows, cols) && nothing_is_dropped(rows, cols);
}

/// Whose sums are exact by magnitudes, as certificates have it: sums over places of products of magnitudes,
/// by mma.sync, against their limit. Only rows 0 to 7 of an MMA are used, the warp's eights.
FOURSCALE_D inline u32 exact_by_magnitudes(step_facts const& x) {
  using fourscale::model::magnitude_exponent, fourscale::model::exact_below;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  i32 sums[4]{};
  u32 const first[4] = {x.of_rows.x, 0, x.of_rows.y, 0}, last[4] = {x.of_rows.z, 0, x.of_rows.w, 0};
  ptx::mma_sync_m16n8k32_u8(sums, first, x.of_cols.x, x.of_cols.y);
  ptx::mma_sync_m16n8k32_u8(sums, last, x.of_cols.z, x.of_cols.w);
  const u32 width_a = __shfl_sync(~0u, x.two, lane / 8 * 8) >> (lane / 4 % 2 * 16) & 0xffu,
            width_low = __shfl_sync(~0u, x.one, lane % 4) & 0xffu,
            width_high = __shfl_sync(~0u, x.one, lane % 4 + 4) & 0xffu;
  const u32 of_rows = exact_below(magnitude_exponent(width_a), 0);
  u32 exact = (static_cast<u32>(sums[0]) < of_rows >> magnitude_exponent(width_low) ? 1u : 0u) |
              (static_cast<u32>(sums[1]) < of_rows >> magnitude_exponent(width_high) ? 2u : 0u);
  exact &= __shfl_xor_sync(~0u, exact, 4);  // of both eights of 16 rows
  constexpr u32 low = 0x0f0f'0f0fu;
  return (__ballot_sync(~0u, (exact & 1) != 0) & low) | (__ballot_sync(~0u, (exact & 2) != 0) & low) << 4;
}

/// The certificates of a step: bounds say most, and magnitudes of sums what bounds leave open.
FOURSCALE_D inline certificates certify(step_facts const& x) {
  certificates c{__ballot_sync(~0u, !sums_may_round(x.two, x.one)),
                 __ballot_sync(~0u, !bits_may_drop(x.two, x.one))};
  if (c.exact != ~0u) c.exact |= exact_by_magnitudes(x);
  return c;
}

/// How many steps of a tile are certified for all of a warp's outputs, up to the first that is not. Lanes ask
/// the largest bounds, a step each; where these say too little, all lanes ask the step together. Loads of
/// `batch` are on their way at once. In a function, so that it takes no registers from the loop behind it.
template <class P>
__noinline__ FOURSCALE_D int certified_steps(P const& p, int row, int col) {
  constexpr int batch = 4;
  const facts_of_warp facts(p, row, col);
  const int lane = static_cast<int>(threadIdx.x) % 32, steps = static_cast<int>(p.a.steps);
#pragma unroll 1
  for (int first = 0; first < steps; first += 32 * batch) {
    uint4 a[batch], b[batch];
    FOURSCALE_UNROLL
    for (int i = 0; i < batch; ++i) {
      const int step = min(first + 32 * i + lane, steps - 1);
      a[i] = facts.bounds_a[step], b[i] = facts.bounds_b[step];
    }
    FOURSCALE_UNROLL
    for (int i = 0; i < batch; ++i) {
      u32 left = __ballot_sync(~0u, !all_certified(a[i], b[i]));
#pragma unroll 1
      while (left != 0) {
        int which[batch];
        step_facts of[batch];
        FOURSCALE_UNROLL
        for (int k = 0; k < batch; ++k) {
          which[k] = min(first + 32 * i + (left != 0 ? __ffs(static_cast<int>(left)) - 1 : 31), steps - 1);
          left &= left - 1;
          of[k] = facts.load(which[k]);
        }
        FOURSCALE_UNROLL
        for (int k = 0; k < batch; ++k) {
          const certificates c = certify(of[k]);
          if ((c.exact & c.kept) != ~0u) return which[k];
        }
      }
    }
  }
  return steps;
}

}  // namespace FOURSCALE_NAMESPACE::mma::bf16_tile
