// SPDX-License-Identifier: Apache-2.0
// A warp's 64 x 64 part of D in the GEMM by block-scaled mma.sync (cta_tile.cuh): its accumulators in
// registers, its fragments from an operand_stage, and add_step(), which adds one step along K by 4 x 8
// instructions. Its device functions are called by a whole warp.
#pragma once

#include "../ptx/ldmatrix.cuh"
#include "instruction_set.cuh"
#include "operand_stage.cuh"

namespace FOURSCALE_NAMESPACE::mma {

inline constexpr int warp_rows = 64, warp_cols = 64;
inline constexpr int instruction_rows = 16, instruction_cols = 8;

/// Row and column of a lane's accumulator i in the 16 x 8 outputs of an instruction.
FOURSCALE_HD constexpr int accumulator_row(int lane, int i) { return lane / 4 + 8 * (i / 2); }
FOURSCALE_HD constexpr int accumulator_col(int lane, int i) { return 2 * (lane % 4) + i % 2; }

/// The accumulators of a lane: [instruction down][instruction across][i].
template <block_format F, block_format G>
struct warp_tile {
  static constexpr int m_tiles = warp_rows / instruction_rows, n_tiles = warp_cols / instruction_cols;

  float d[m_tiles][n_tiles][4];

  FOURSCALE_D void clear() {
    FOURSCALE_UNROLL
    for (int i = 0; i < m_tiles * n_tiles * 4; ++i) d[i / (4 * n_tiles)][i / 4 % n_tiles][i % 4] = 0.0f;
  }
};

/// 16 rows of a warp's sums in shared memory, on their way from accumulators to rows of D. Eight unused
/// columns make the stores of a half warp touch each bank once.
struct sum_strip {
  alignas(8) float sums[instruction_rows][warp_cols + 8];
};
/// Stores the accumulators of N instructions side by side to a strip.
template <int N>
FOURSCALE_D void store_sums(float const (&d)[N][4], sum_strip& to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  FOURSCALE_UNROLL
  for (int pair = 0; pair < 2 * N; ++pair) {
    const int n = pair / 2, i = pair % 2 * 2;
    float* const place = &to.sums[accumulator_row(lane, i)][n * instruction_cols + accumulator_col(lane, i)];
    *reinterpret_cast<float2*>(place) = {d[n][i], d[n][i + 1]};
  }
}

/// Loads the fragment of A of 16 rows from `row` on: the 32 bytes of step `step` of the stage.
template <class F>
FOURSCALE_D void load_a(operand_stage<F> const& from, int row, int step, u32 (&a)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, r = row + lane % 16;
  ptx::ldmatrix_m8n8_x4_b16(a, ptx::shared_address(&from.codes[r][place_of(r, 2 * step + lane / 16)]));
}
/// Loads the fragments of B of 16 rows, for two instructions.
template <class F>
FOURSCALE_D void load_b(operand_stage<F> const& from, int row, int step, u32 (&b)[2][2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, r = row + lane / 16 * 8 + lane % 8;
  u32 both[4];
  ptx::ldmatrix_m8n8_x4_b16(both, ptx::shared_address(&from.codes[r][place_of(r, 2 * step + lane / 8 % 2)]));
  FOURSCALE_UNROLL
  for (int i = 0; i < 4; ++i) b[i / 2][i % 2] = both[i];
}

/// The scale register for two instructions of A, 32 rows from `row` on; thread_id selects one of the two: see
/// ptx::scale_selector.
template <class F>
FOURSCALE_D u32 load_scales_a(operand_stage<F> const& from, int row, int word) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return from.scales[word][row + lane % 4 / 2 * instruction_rows + lane % 2 * 8 + lane / 4];
}
/// The scale register for four instructions of B; thread_id selects one of the four.
template <class F>
FOURSCALE_D u32 load_scales_b(operand_stage<F> const& from, int row, int word) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return from.scales[word][row + lane % 4 * instruction_cols + lane / 4];
}

/// Adds step `step` of a stage. `row`, `col`: the warp's first rows of a and b. `first_scale`: the byte where
/// the stage's scales begin in their first word: 0, but 2 in every other stage of MXFP8. Each accumulator
/// takes its steps in order along K.
template <class Set, class F, class G>
FOURSCALE_D void add_step(operand_stage<F> const& a, int row, operand_stage<G> const& b, int col, int step,
                          int first_scale, typename Set::memory& memory, warp_tile<F, G>& tile) {
  using shape = warp_tile<F, G>;
  const int word = step * step_scales<F> / 4;
  const u16 byte_id = static_cast<u16>(first_scale + step * step_scales<F> % 4);
  u32 codes_a[shape::m_tiles][4], scales_a[shape::m_tiles / 2];
  FOURSCALE_UNROLL
  for (int m = 0; m < shape::m_tiles; ++m) load_a(a, row + m * instruction_rows, step, codes_a[m]);
  FOURSCALE_UNROLL
  for (int m = 0; m < shape::m_tiles; m += 2)
    scales_a[m / 2] = load_scales_a(a, row + m * instruction_rows, word);
  u32 scales_b = 0, codes_b[2][2];
  FOURSCALE_UNROLL
  for (int n = 0; n < shape::n_tiles; ++n) {
    if (n % 4 == 0) scales_b = load_scales_b(b, col + n * instruction_cols, word);
    if (n % 2 == 0) load_b(b, col + n * instruction_cols, step, codes_b);
    const scale_operand scale_b{scales_b, byte_id, static_cast<u16>(n % 4)};
    FOURSCALE_UNROLL
    for (int m = 0; m < shape::m_tiles; ++m)
      Set::template mma<F, G>(memory, tile.d[m][n], codes_a[m], codes_b[n % 2],
                              {scales_a[m / 2], byte_id, static_cast<u16>(m % 2)}, scale_b);
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma
