// SPDX-License-Identifier: Apache-2.0
// Weights and activations on their way to shared memory: stages of W, each warp for itself and ahead of its
// arithmetic; and X, by all warps together, in the order of fragments.
#pragma once

#include "operand_stage.cuh"
#include "weight_only_plan.hpp"

namespace FOURSCALE_NAMESPACE::mma::weight_only {

namespace detail {

/// 16 bytes of codes.
FOURSCALE_D inline void start_line(u32 to, u8 const* from) {
  if constexpr (line_bytes_from_l2 == 128)
    ptx::cp_async_cg_16_l2_128(to, from);
  else if constexpr (line_bytes_from_l2 == 256)
    ptx::cp_async_cg_16_l2_256(to, from);
  else
    ptx::cp_async_cg_16(to, from);
}

}  // namespace detail

/// The stages that a warp takes, unit after unit.
template <class Layout>
struct weight_stream {
  block_scaled_view<nvfp4, Layout, u8 const> const& w;
  plan const& p;
  bool wide_codes;
  int first_stage, stages;   ///< of the CTA
  int whole_stages;          ///< of these: inside the matrix, and aligned
  int part, row, stride;     ///< of the warp; of the lane, its first row in a unit; to its next row
  int unit, stage;           ///< what is to be loaded next,
  u8 const *codes, *scales;  ///< and where the first row of the lane has it
  bool whole_unit;

  /// `codes_wide`: rows of codes begin at multiples of 16 bytes; `scales_wide`: scales are whole words.
  FOURSCALE_D weight_stream(block_scaled_view<nvfp4, Layout, u8 const> const& weights, plan const& the_plan,
                            bool codes_wide, bool scales_wide, int rank, int first_unit)
      : w(weights), p(the_plan), wide_codes(codes_wide) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    first_stage = rank * p.stages;
    stages = stages_of(static_cast<int>(ceil_div<i64>(w.cols, stage_values)));
    whole_stages = codes_wide && scales_wide ? stages_of(static_cast<int>(w.cols / stage_values)) : 0;
    part = warp / p.row_warps();
    stride = row_stride(p.unit_rows);
    row = row_of(warp % p.row_warps(), lane, 0, stride);
    enter(part < stages ? first_unit : p.units);
  }

  /// Starts the next stage, as two groups of copies, one for each half. The groups are empty after the last.
  FOURSCALE_D void start(warp_stage& to) {
    if (unit >= p.units) {
      ptx::cp_async_commit_group();
      ptx::cp_async_commit_group();
      return;
    }
    if (whole_unit && stage < whole_stages)
      start_whole(to);
    else
      start_at_edge(to);
    stage += p.parts;
    codes += p.parts * stage_bytes;
    scales += p.parts * scale_step;
    if (stage >= stages) enter(unit + p.clusters);
  }

 private:
  /// Bytes from the scales of a stage to those of the next: 16 in a row, or four tiles.
  static constexpr int scale_step = Layout::has_padding ? 512 * stage_scales / 4 : stage_scales;

  /// Of the first `all` stages along K, those of the CTA.
  FOURSCALE_D int stages_of(int all) const {
    const int left = all - first_stage;
    return left < 0 ? 0 : left < p.stages ? left : p.stages;
  }
  FOURSCALE_D i64 first_row() const { return i64{unit} * p.unit_rows + row; }
  FOURSCALE_D void enter(int next) {
    const int t = static_cast<int>(threadIdx.x) % 4;
    unit = next, stage = part;
    whole_unit = (i64{unit} + 1) * p.unit_rows <= w.rows;
    codes = w.codes + first_row() * (w.cols / 2) + i64{first_stage + stage} * stage_bytes + chunk_bytes * t;
    scales = w.scales + w.scale_offset(first_row(), i64{first_stage + stage} * stage_scales + 4 * t);
  }

  FOURSCALE_D void start_whole(warp_stage& to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
    const u32 scale_to = ptx::shared_address(to.scales[t][lane / 4]);
    if (Layout::has_padding && stride == warp_rows) {
      ptx::cp_async_cg_16(scale_to, scales);
    } else {
      FOURSCALE_UNROLL
      for (int j = 0; j < lane_rows; ++j)
        ptx::cp_async_ca_4(scale_to + 4u * static_cast<u32>(j), scales_of(j, t));
    }
    const i64 step = w.cols / 2 * stride;
    const u32 code_to = ptx::shared_address(to.codes[0][0][lane]);
    FOURSCALE_UNROLL
    for (int half = 0; half < halves; ++half) {
      FOURSCALE_UNROLL
      for (int j = 0; j < lane_rows; ++j)
        detail::start_line(code_to + static_cast<u32>((half * lane_rows + j) * 32 * chunk_bytes),
                           codes + j * step + half * 4 * chunk_bytes);
      ptx::cp_async_commit_group();
    }
  }
  FOURSCALE_D u8 const* scales_of(int j, [[maybe_unused]] int t) const {
    if constexpr (Layout::has_padding)
      return w.scales +
             w.scale_offset(first_row() + j * stride, i64{first_stage + stage} * stage_scales + 4 * t);
    else
      return scales + j * (w.blocks() * stride);
  }

  /// The same at the ends of the matrix, and for unaligned ones: what is outside is zero.
  FOURSCALE_D void start_at_edge(warp_stage& to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
    const i64 row_bytes = w.cols / 2;
#pragma unroll 1
    for (int i = 0; i < halves * lane_rows; ++i) {
      const int half = i / lane_rows, j = i % lane_rows;
      const i64 r = first_row() + j * stride;
      if (half == 0)
        to.scales[t][lane / 4][j] =
            mma::detail::load_scale_word(w, r, i64{first_stage + stage} * stage_scales + 4 * t);
      const i64 at = i64{first_stage + stage} * stage_bytes + (half * 4 + t) * chunk_bytes;
      const i64 left = r < w.rows ? row_bytes - at : 0;
      const int bytes = left <= 0 ? 0 : left < chunk_bytes ? static_cast<int>(left) : chunk_bytes;
      mma::detail::start_copy(bytes > 0 ? w.codes + r * row_bytes + at : w.codes, bytes, wide_codes,
                              to.codes[half][j][lane]);
      if (j == lane_rows - 1) ptx::cp_async_commit_group();
    }
  }
};

/// Eight values of a row of X; what is outside is zero. `wide`: rows begin at multiples of 16 bytes.
template <class T>
FOURSCALE_D uint4 load_x(matrix_view<T const> const& x, i64 row, i64 col, bool wide) {
  if (row >= x.rows || col >= x.cols) return {0, 0, 0, 0};
  if (wide) return __ldg(reinterpret_cast<uint4 const*>(&x.at(row, col)));
  u32 v[4];
  FOURSCALE_UNROLL
  for (int i = 0; i < 4; ++i) v[i] = x.at(row, col + 2 * i).bits | u32{x.at(row, col + 2 * i + 1).bits} << 16;
  return {v[0], v[1], v[2], v[3]};
}

/// `stages` stages of X from `first` on, by all threads of the CTA, which is to synchronise before and after.
template <int NTiles, class T>
FOURSCALE_D void fill_x(matrix_view<T const> const& x, int first, int stages, bool wide, u8* to) {
  const int pieces = stages * (x_stage_bytes(NTiles) / 16);
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < pieces; i += static_cast<int>(blockDim.x)) {
    const x_piece piece = piece_of(NTiles, i);
    const i64 col = i64{first + piece.stage} * stage_values + 8 * piece.chunk;
    const uint4 v = load_x(x, piece.row, col, wide);
    *reinterpret_cast<uint4*>(to + x_offset(NTiles, piece)) = {
        __byte_perm(v.x, v.z, 0x5410), __byte_perm(v.x, v.z, 0x7632), __byte_perm(v.y, v.w, 0x5410),
        __byte_perm(v.y, v.w, 0x7632)};
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma::weight_only
