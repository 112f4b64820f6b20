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

/// Halves of the stages that a warp takes, in order.
template <class Layout>
struct weight_stream {
  static constexpr bool swizzled = Layout::has_padding;
  static constexpr int stride = row_stride(swizzled);

  block_scaled_view<nvfp4, Layout, u8 const> const& w;
  plan const& p;
  bool wide, wide_scales;   ///< may be read 16 bytes at a time
  int cluster;              ///< whose
  int first_stage, stages;  ///< of the CTA
  // What is to be loaded next: item `item` of a pass, which is stage `stage` of the pass and of tile `tile`,
  int unit = 0, pass = 0, item = 0, stage = 0, pass_count = 0, half = 0;
  span_of tiles{}, items{};
  int tile = 0;
  u8 const *codes = nullptr, *scales = nullptr;  ///< and where this lane begins to read
  int whole = 0;                                 ///< stages of the tile that are inside, and aligned
  int scale_slot = 0;

  /// `wide_codes`: rows of codes begin at multiples of 16 bytes; `wide_scale_stages`: so do scales of stages.
  FOURSCALE_D weight_stream(block_scaled_view<nvfp4, Layout, u8 const> const& weights, plan const& the_plan,
                            bool wide_codes, bool wide_scale_stages, int rank, int the_cluster)
      : w(weights), p(the_plan), wide(wide_codes), wide_scales(wide_scale_stages), cluster(the_cluster) {
    first_stage = rank * p.stages;
    stages = stages_of(static_cast<int>(ceil_div<i64>(w.cols, stage_values)));
    enter_unit();
    seek();
  }

  FOURSCALE_D static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  /// Stages of a pass that the CTA has.
  FOURSCALE_D int count_of(int of_pass) const {
    const int left = stages - of_pass * p.pass_stages;
    return left < 0 ? 0 : left < p.pass_stages ? left : p.pass_stages;
  }

  /// Starts the next half, as a group of copies, to slot `slot` of the warp's ring. The group is empty after
  /// the last.
  FOURSCALE_D void start(u8* ring, int slot) {
    if (unit < p.units) {
      u8* const to = ring + slot * half_bytes;
      u8* const scales_to = ring + p.depth * half_bytes + scale_slot * scales_bytes;
      if (pass * p.pass_stages + stage < whole)
        start_whole(to, scales_to);
      else
        start_at_edge(to, scales_to);
      half ^= 1;
      if (half == 0) next_stage();
    }
    ptx::cp_async_commit_group();
  }

 private:
  /// Bytes from the scales of a stage to those of the next: 16 in a row, or four tiles.
  static constexpr int scale_step = swizzled ? 512 * stage_scales / 4 : stage_scales;

  /// Of the first `all` stages along K, those of the CTA.
  FOURSCALE_D int stages_of(int all) const {
    const int left = all - first_stage;
    return left < 0 ? 0 : left < p.stages ? left : p.stages;
  }
  FOURSCALE_D i64 stage_of_matrix() const { return i64{first_stage} + pass * p.pass_stages + stage; }

  FOURSCALE_D void enter_unit() {
    for (; unit < p.units; ++unit) {
      tiles = p.tiles_of(cluster, unit);
      items = p.items_of(warp(), tiles.end - tiles.begin);
      pass = 0, item = items.begin;
      if (items.begin < items.end) return;
    }
  }
  FOURSCALE_D void next_stage() {
    scale_slot = scale_slot + 1 == scale_depth(p.depth) ? 0 : scale_slot + 1;
    ++item, ++stage;
    codes += stage_bytes, scales += scale_step;
    if (item >= items.end || stage >= pass_count) seek();
  }
  /// From `item` to the first that exists, and what belongs to it.
  FOURSCALE_D void seek() {
    while (unit < p.units) {
      pass_count = count_of(pass);
      const int of_unit = item / p.pass_stages;
      stage = item - of_unit * p.pass_stages;
      if (item >= items.end) {
        item = items.begin;
        if (++pass >= p.passes()) ++unit, enter_unit();
      } else if (stage >= pass_count) {
        item += p.pass_stages - stage;
      } else {
        tile = tiles.begin + of_unit;
        place();
        return;
      }
    }
  }
  FOURSCALE_D void place() {
    const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
    const bool inside = row_of(tile, 31, lane_rows - 1, stride) < w.rows;
    whole = inside && wide && wide_scales ? stages_of(static_cast<int>(w.cols / stage_values)) : 0;
    codes = w.codes + row_of(tile, lane, 0, stride) * (w.cols / 2) + stage_of_matrix() * stage_bytes +
            chunk_bytes * t;
    const i64 scale = stage_of_matrix() * stage_scales;
    if constexpr (swizzled)
      scales = w.scales + w.scale_offset(row_of(tile, lane, 0, stride), scale + 4 * t);
    else
      scales = w.scales + w.scale_offset(row_of(tile, 0, 0, stride) + lane, scale);
  }

  FOURSCALE_D void start_whole(u8* to, u8* scales_to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int at = swizzled ? lane % 4 * 8 + lane / 4 : lane;
    if (half == 0) ptx::cp_async_cg_16(ptx::shared_address(scales_to + at * 16), scales);
    const i64 step = w.cols / 2 * stride;
    const u32 code_to = ptx::shared_address(to + lane * chunk_bytes);
    FOURSCALE_UNROLL
    for (int j = 0; j < lane_rows; ++j)
      detail::start_line(code_to + static_cast<u32>(j * 32 * chunk_bytes),
                         codes + j * step + half * 4 * chunk_bytes);
  }

  /// The same at the ends of the matrix, and for unaligned ones: what is outside is zero.
  FOURSCALE_D void start_at_edge(u8* to, u8* scales_to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
    const i64 row_bytes = w.cols / 2;
#pragma unroll 1
    for (int j = 0; j < lane_rows; ++j) {
      const i64 r = row_of(tile, lane, j, stride);
      if (half == 0)
        *reinterpret_cast<u32*>(scales_to + scale_offset(swizzled, 8 * j + lane / 4, t)) =
            mma::detail::load_scale_word(w, r, stage_of_matrix() * stage_scales + 4 * t);
      const i64 at = stage_of_matrix() * stage_bytes + (half * 4 + t) * chunk_bytes;
      const i64 left = r < w.rows ? row_bytes - at : 0;
      const int bytes = left <= 0 ? 0 : left < chunk_bytes ? static_cast<int>(left) : chunk_bytes;
      mma::detail::start_copy(bytes > 0 ? w.codes + r * row_bytes + at : w.codes, bytes, wide,
                              to + (j * 32 + lane) * chunk_bytes);
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
#pragma unroll 8
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
