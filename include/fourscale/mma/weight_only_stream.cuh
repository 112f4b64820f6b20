// SPDX-License-Identifier: Apache-2.0
// The loads of the weight-only GEMM by mma.sync, without TMA. Each warp loads its own stages of W by
// cp.async, ahead of its arithmetic (weight_stream). All warps together copy X, in the order of fragments
// (fill_x). weight_walk, the order of a warp's stages, is that of weight_only_tma.cuh, too.
#pragma once

#include "operand_stage.cuh"
#include "weight_only_plan.hpp"
#include "weight_only_tile.cuh"

namespace FOURSCALE_NAMESPACE::mma::weight_only {

/// A stage that a warp takes. Item `item` of pass `pass` is stage `stage` of that pass, of tile `tile` of W.
struct weight_place {
  int unit = -1, pass = 0, item = 0, stage = 0, tile = 0;
  int pass_stages = 0;                                      ///< of this pass, that the CTA has
  int begin = 0, end = 0, begin_tile = 0, begin_stage = 0;  ///< the warp's items; where the first one is
};

/// How many of the `stages` stages of a CTA are in a pass.
FOURSCALE_HD constexpr int stages_of_pass(plan const& p, int stages, int pass) {
  const int left = stages - pass * p.pass_stages;
  return left < 0 ? 0 : left < p.pass_stages ? left : p.pass_stages;
}

/// The first item from `at` on whose stage exists: K may end before a pass does. Divides once a unit.
FOURSCALE_D inline weight_place seek(plan const& p, weight_place at, int stages, int cluster, int warp) {
#pragma unroll 1
  while (at.unit < p.units) {
    if (at.item < at.end) {
      if (at.stage < at.pass_stages) break;
      at.item += p.pass_stages - at.stage, at.stage = 0, ++at.tile;
      continue;
    }
    if (at.unit < 0 || ++at.pass * p.pass_stages >= p.stages) {
      at.pass = 0;
      if (++at.unit >= p.units) break;
      const span_of tiles = p.tiles_of(cluster, at.unit), items = p.items_of(warp, tiles.end - tiles.begin);
      at.begin = items.begin, at.end = items.end;
      at.begin_tile = tiles.begin + items.begin / p.pass_stages;
      at.begin_stage = items.begin % p.pass_stages;
    }
    at.item = at.begin, at.stage = at.begin_stage, at.tile = at.begin_tile;
    at.pass_stages = stages_of_pass(p, stages, at.pass);
  }
  return at;
}

/// The stages that a warp takes, in order. `at` is the current one.
struct weight_walk {
  plan const& p;
  int rank, cluster, stages;  ///< of the CTA: in its cluster; its cluster; its stages along K
  weight_place at;

  FOURSCALE_D weight_walk(plan const& the_plan, i64 k, int the_rank, int the_cluster)
      : p(the_plan), rank(the_rank), cluster(the_cluster) {
    stages = stages_of(static_cast<int>(ceil_div<i64>(k, stage_values)));
    at = seek(p, at, stages, cluster, warp());
  }

  FOURSCALE_D static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  FOURSCALE_D bool more() const { return at.unit < p.units; }
  /// How many of the first `all` stages along K are this CTA's.
  FOURSCALE_D int stages_of(int all) const {
    const int left = all - first_stage();
    return left < 0 ? 0 : left < p.stages ? left : p.stages;
  }
  FOURSCALE_D int first_stage() const { return rank * p.stages; }
  FOURSCALE_D int count_of(int pass) const { return stages_of_pass(p, stages, pass); }
  FOURSCALE_D int stage_of_cta() const { return at.pass * p.pass_stages + at.stage; }
  FOURSCALE_D int stage_of_matrix() const { return first_stage() + stage_of_cta(); }

  /// Goes to the next stage. False if that is the following stage of the same tile; else it may be anywhere.
  FOURSCALE_D bool next() {
    ++at.item, ++at.stage;
    if (at.item < at.end && at.stage < at.pass_stages) return false;
    at = seek(p, at, stages, cluster, warp());
    return true;
  }
};

/// Loads the stages of a warp half by half: all its lanes copy, 16 bytes at a time.
template <class Layout>
struct weight_stream {
  static constexpr bool swizzled = Layout::has_padding;
  static constexpr int stride = row_stride(swizzled);

  block_scaled_view<nvfp4, Layout, u8 const> const& w;
  bool wide, wide_scales;  ///< whether codes, and scales, may be read 16 bytes at a time
  weight_walk walk;        ///< at the stage to load next
  int half = 0;            ///< the half to load next
  u8 const *codes = nullptr, *scales = nullptr;  ///< where this lane reads next
  int whole = 0;                                 ///< stages of the tile inside W, and aligned
  int scale_slot = 0;

  /// `wide_codes`: rows of codes begin at multiples of 16 bytes; `wide_scales`: so do scales of a stage.
  FOURSCALE_D weight_stream(block_scaled_view<nvfp4, Layout, u8 const> const& weights, plan const& p,
                            bool wide_codes, bool wide_scales, int rank, int cluster)
      : w(weights), wide(wide_codes), wide_scales(wide_scales), walk(p, w.cols, rank, cluster) {
    if (walk.more()) place();
  }

  /// Starts the copies of the next half to slot `slot` of the warp's ring, as one group of cp.async. After
  /// the last half the group is empty. A whole warp calls it.
  FOURSCALE_D void start(u8* ring, u8* scale_ring, int slot) {
    if (walk.more()) {
      u8* const to = ring + slot * half_bytes;
      u8* const scales_to = scale_ring + scale_slot * scales_bytes;
      if (walk.stage_of_cta() < whole)
        start_whole(to, scales_to);
      else
        start_at_edge(to, scales_to);
      half ^= 1;
      if (half == 0) next_stage();
    }
    ptx::cp_async_commit_group();
  }

 private:
  /// Bytes from the scales of a stage to those of the next: 16 in a row, or four swizzled tiles.
  static constexpr int scale_step = swizzled ? 512 * stage_scales / 4 : stage_scales;

  FOURSCALE_D void next_stage() {
    scale_slot = scale_slot + 1 == scale_depth(walk.p.depth) ? 0 : scale_slot + 1;
    codes += stage_bytes, scales += scale_step;
    if (walk.next() && walk.more()) place();
  }
  /// Finds where this lane reads, where that is not simply the next stage.
  FOURSCALE_D void place() {
    const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
    const i64 stage = walk.stage_of_matrix();
    const bool inside = row_of(walk.at.tile, 31, lane_rows - 1, stride) < w.rows;
    whole = inside && wide && wide_scales ? walk.stages_of(static_cast<int>(w.cols / stage_values)) : 0;
    codes = w.codes + row_of(walk.at.tile, lane, 0, stride) * (w.cols / 2) + stage * stage_bytes +
            chunk_bytes * t;
    if constexpr (swizzled)
      scales = w.scales + w.scale_offset(row_of(walk.at.tile, lane, 0, stride), stage * stage_scales + 4 * t);
    else
      scales = w.scales + w.scale_offset(row_at(walk.at.tile, lane, stride), stage * stage_scales);
  }

  FOURSCALE_D void start_whole(u8* to, u8* scales_to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int at = swizzled ? lane % 4 * 8 + lane_row(lane) : lane;
    if (half == 0) ptx::cp_async_cg_16(ptx::shared_address(scales_to + at * 16), scales);
    const i64 step = w.cols / 2 * stride;
    const u32 code_to = ptx::shared_address(to + lane * chunk_bytes);
    FOURSCALE_UNROLL
    for (int j = 0; j < lane_rows; ++j)
      ptx::cp_async_cg_16_l2_128(code_to + static_cast<u32>(j * 32 * chunk_bytes),
                                 codes + j * step + half * 4 * chunk_bytes);
  }

  /// The same at the ends of W, and where W is not aligned. Places outside of W become zero.
  FOURSCALE_D void start_at_edge(u8* to, u8* scales_to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
    const i64 row_bytes = w.cols / 2, stage = walk.stage_of_matrix();
#pragma unroll 1
    for (int j = 0; j < lane_rows; ++j) {
      const i64 r = row_of(walk.at.tile, lane, j, stride);
      if (half == 0)
        *reinterpret_cast<u32*>(scales_to + scale_offset(swizzled, 8 * j + lane_row(lane), t)) =
            mma::detail::load_scale_word(w, r, stage * stage_scales + 4 * t);
      const i64 at = stage * stage_bytes + (half * 4 + t) * chunk_bytes;
      const i64 left = r < w.rows ? row_bytes - at : 0;
      const int bytes = left <= 0 ? 0 : left < chunk_bytes ? static_cast<int>(left) : chunk_bytes;
      mma::detail::start_copy(bytes > 0 ? w.codes + r * row_bytes + at : w.codes, bytes, wide,
                              to + (j * 32 + lane) * chunk_bytes);
    }
  }
};

/// Loads eight values of a row of X; outside of X they are zero. `wide`: rows begin at multiples of 16 bytes.
template <class T>
FOURSCALE_D uint4 load_x(matrix_view<T const> const& x, i64 row, i64 col, bool wide) {
  if (row >= x.rows || col >= x.cols) return {0, 0, 0, 0};
  if (wide) return __ldg(reinterpret_cast<uint4 const*>(&x.at(row, col)));
  u32 v[4];
  FOURSCALE_UNROLL
  for (int i = 0; i < 4; ++i) v[i] = x.at(row, col + 2 * i).bits | u32{x.at(row, col + 2 * i + 1).bits} << 16;
  return {v[0], v[1], v[2], v[3]};
}

/// Copies `stages` stages of X from stage `first` on, in the order of fragments. All threads of the CTA call
/// it; the caller synchronises them before and after.
template <int NTiles, class T>
FOURSCALE_D void fill_x(matrix_view<T const> const& x, int first, int stages, bool wide, u8* to) {
  const int pieces = stages * (x_stage_bytes(NTiles) / 16);
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x); i < pieces; i += static_cast<int>(blockDim.x)) {
    const x_piece piece = piece_of(NTiles, i);
    const i64 col = i64{first + piece.stage} * stage_values + 8 * piece.chunk;
    const uint4 v = load_x(x, piece.row, col, wide);
    *reinterpret_cast<uint4*>(to + x_offset(NTiles, piece)) = in_order_of_registers(v);
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma::weight_only
