// SPDX-License-Identifier: Apache-2.0
// Certificates of bf16_tile.cuh. A certificate proves that a step may be added to 16 x 8 outputs of a warp as
// an ordinary f32 sum of 64 products. It compares the step_bounds (width, span) of eight rows with those of
// eight columns. Where widths prove too little, it looks at step_magnitudes. See docs/exact_gemm.md.
#pragma once

#include "../ptx/mma_sync_f16.cuh"
#include "bf16_stages.cuh"
#include "exact_step.cuh"

namespace FOURSCALE_NAMESPACE::mma::bf16_tile {

/// Whether byte 0 of `one` plus byte 0 or byte 2 of `two` is `Sum` or more. One addition tests both sums.
template <u32 Sum>
FOURSCALE_HD constexpr bool one_reaches(u32 two, u32 one) {
  constexpr u32 both = 0x1'0001u;
  return (((two & 0xff * both) + (one & 0xff) * both + (0x8000 - Sum) * both) & 0x8000 * both) != 0;
}
/// By widths, some sum may not be exact. Arguments: step_bounds, two bytes each, of 8 + 8 rows; of 8 columns.
FOURSCALE_HD constexpr bool sums_may_round(u32 of_rows, u32 of_cols) {
  return one_reaches<8 * 24>(of_rows, of_cols);
}
/// By spans, the adder may drop some bit. The same arguments.
FOURSCALE_HD constexpr bool bits_may_drop(u32 of_rows, u32 of_cols) {
  return one_reaches<35 + 1>(of_rows >> 8, of_cols >> 8);
}

/// A lane's share of what is known of a step. An "eight" is eight rows or eight columns; a warp has eight of
/// each. Bounds are for the certificates' bit `lane`: those of the eights 2 (lane / 8) and the next of rows,
/// and of the eight lane % 8 of columns. Magnitudes are for mma.sync: quarter lane % 4 of those of the eight
/// lane / 4 of rows, and of an eight of columns.
struct step_facts {
  u32 two, one;            ///< bounds, two bytes an eight: of two eights of rows, of one of columns
  uint4 of_rows, of_cols;  ///< magnitudes
};

/// Index of the 64 rows of an operand from `row` on; that of its last ones if `row` is behind the operand.
FOURSCALE_D inline int chunk_of(decoded_operand const& x, int row) {
  return min(row, static_cast<int>(x.rows) - 1) / warp_rows;
}

/// Where a lane reads its step_facts. `row`, `col`: the warp's first row and column.
struct facts_of_warp {
  uint4 const *bounds_a, *bounds_b;  ///< [step]: bounds of all eights of the warp
  uint4 const *magnitudes_a, *magnitudes_b;
  int stride_a, stride_b;  ///< of magnitudes from step to step, in step_magnitudes

  template <class P>
  FOURSCALE_D facts_of_warp(P const& p, int row, int col) {
    const i64 lane = threadIdx.x % 32;
    const i64 rows = chunk_of(p.a, row), cols = chunk_of(p.b, col);
    bounds_a = reinterpret_cast<uint4 const*>(p.a.bounds) + rows * p.a.steps;
    bounds_b = reinterpret_cast<uint4 const*>(p.b.bounds) + cols * p.b.steps;
    // Column n of the MMA is the eight n / 2 + 4 (n % 2), so that a lane gets sums of two eights 4 apart.
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

/// Whether bounds a and b certify all 64 x 64 outputs, by their largest. Each lane may test its own step.
FOURSCALE_D inline bool all_certified(uint4 a, uint4 b) {
  const auto rows = largest_bounds({a.x, a.y, a.z, a.w}), cols = largest_bounds({b.x, b.y, b.z, b.w});
  return sums_are_exact(rows, cols) && nothing_is_dropped(rows, cols);
}

/// Which sums are exact by magnitudes, in the bits of certificates::exact. For each pair of eights, mma.sync
/// sums the products of magnitudes over all 64 places; the sum must be below its limit. Rows 0 to 7 of the
/// MMA are the warp's eights of rows, the others are zeros. Called by a whole warp.
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
  exact &= __shfl_xor_sync(~0u, exact, 4);  // both eights of 16 rows must be exact
  constexpr u32 low = 0x0f0f'0f0fu;
  return (__ballot_sync(~0u, (exact & 1) != 0) & low) | (__ballot_sync(~0u, (exact & 2) != 0) & low) << 4;
}

/// The certificates of a step: by bounds, then by magnitudes for sums that bounds leave open. A whole warp.
FOURSCALE_D inline certificates certify(step_facts const& x) {
  certificates c{__ballot_sync(~0u, !sums_may_round(x.two, x.one)),
                 __ballot_sync(~0u, !bits_may_drop(x.two, x.one))};
  if (c.exact != ~0u) c.exact |= exact_by_magnitudes(x);
  return c;
}

/// How many steps of a tile come before the first that is not certified for all of the warp's outputs. Each
/// lane tests a step of its own by the largest bounds; the whole warp certifies a step that fails there.
/// `batch` loads are in flight at once. Not inlined: it takes no registers from the caller's loop.
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
