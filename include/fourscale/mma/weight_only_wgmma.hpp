// SPDX-License-Identifier: Apache-2.0
// The weight-only GEMM by wgmma, D^T = W * X^T for few rows of X on Hopper: its sizes, which lane holds what,
// and how the work is shared out. The kernel is in weight_only_wgmma.cuh. Weights are decoded in registers to
// 16 bits and are the 64-row operand of wgmma. Rows of X are its columns, which wgmma reads from shared
// memory. All of this is pure arithmetic, so that tests can check it on a CPU.
//
// As in weight_only.hpp, a lane loads a chunk at a time: 16 bytes of codes, which are 32 values of a row
// under two scales and become its own fragments for eight instructions. This sets the order of k. wgmma takes
// X in the order of shared memory, so warps of their own bring X there to that order, in place.
#pragma once

#include <cstdint>

#include "weight_only.hpp"
#include "weight_only_plan.hpp"

namespace FOURSCALE_NAMESPACE::mma::weight_only::by_wgmma {

inline constexpr int tile_rows = 64, most_tiles = 2;  ///< rows of W, as of one wgmma; tiles of a stage
inline constexpr int tile_bytes = tile_rows * stage_bytes, tile_scales = tile_rows * stage_scales;

/// Stages of the ring in shared memory: each has codes and scales of two tiles, and X, of 256 values along K.
FOURSCALE_HD constexpr int depth(int n_tiles) { return n_tiles <= 2 ? 8 : n_tiles == 4 ? 5 : 3; }
/// Warpgroups that multiply; they take stages in turn. The threads behind them are one warp that loads, three
/// that store, and four that bring X to order.
FOURSCALE_HD constexpr int warpgroups(int n_tiles) { return n_tiles <= 4 ? 4 : 2; }
inline constexpr int store_warps = 3, order_warps = 4;
FOURSCALE_HD constexpr int first_loader(int n_tiles) { return 128 * warpgroups(n_tiles); }
FOURSCALE_HD constexpr int first_storer(int n_tiles) { return first_loader(n_tiles) + 32; }
FOURSCALE_HD constexpr int first_orderer(int n_tiles) { return first_storer(n_tiles) + 32 * store_warps; }
FOURSCALE_HD constexpr int threads(int n_tiles) { return first_orderer(n_tiles) + 32 * order_warps; }
/// Registers of a thread. The warpgroups that multiply have what the two others leave to them.
inline constexpr int other_registers = 48;
FOURSCALE_HD constexpr int multiply_registers(int n_tiles) { return n_tiles <= 4 ? 96 : 208; }

inline constexpr int pair_rows = most_tiles * tile_rows;  ///< rows of W in a pair of tiles

/// The shared memory of a CTA. The barriers are explained in weight_only_wgmma.cuh.
template <int NTiles>
struct memory {
  static constexpr int depth = by_wgmma::depth(NTiles);
  alignas(1024) u8 codes[depth][most_tiles][tile_bytes];
  alignas(1024) u8 x[depth][x_stage_bytes(NTiles)];
  alignas(128) u8 scales[depth][most_tiles][tile_scales];
  alignas(16) float sums[pair_rows * 8 * NTiles];          ///< of this CTA's warpgroups, at sums_offset()
  alignas(16) float inbox[pair_rows * 8 * NTiles];         ///< of all CTAs, of the rows this CTA stores
  std::uint64_t x_full[depth], full[depth], empty[depth];  ///< barriers of stages,
  std::uint64_t sums_free, inbox_full, inbox_free;         ///< and of sums
};
static_assert(sizeof(memory<1>) <= 226 << 10 && sizeof(memory<2>) <= 226 << 10 &&
                  sizeof(memory<4>) <= 226 << 10 && sizeof(memory<8>) <= 226 << 10,
              "Hopper has 227 KB.");

/// The row of a tile that is row j (of two) of a lane of warp `warp` (of four). With swizzled scales, a tile
/// is 16 rows of each of four neighbouring groups of 32.
FOURSCALE_HD constexpr int local_row(bool swizzled, int warp, int lane, int j) {
  return swizzled ? (2 * (warp % 2) + j) * 16 + 8 * (warp / 2) + lane_row(lane)
                  : 16 * warp + 8 * j + lane_row(lane);
}
/// The row of W that is row `row` of a tile. Each 16 rows of a tile are neighbours in W.
FOURSCALE_HD constexpr i64 row_of_tile(bool swizzled, i64 tile, int row) {
  return swizzled ? tile / 2 * 128 + row / 16 * 32 + tile % 2 * 16 + row % 16 : tile * tile_rows + row;
}
/// How many tiles cover `rows` rows of W.
FOURSCALE_HD constexpr i64 tiles_of(bool swizzled, i64 rows) {
  return swizzled ? 2 * ceil_div<i64>(rows, 128) : ceil_div<i64>(rows, tile_rows);
}

/// The byte offset of a lane's chunk in the codes of a tile, under TMA's 128-byte swizzle.
FOURSCALE_HD constexpr int code_offset(int local_row, int lane, int half) {
  return local_row * stage_bytes + ((half * 4 + lane % 4) ^ local_row % 8) * chunk_bytes;
}
/// The byte offset of a word of four scales of a row in the scales of a tile, as TMA writes them: 16 bytes
/// are the scales of one row or, in the layout swizzled_128x4, one word of each of four rows.
FOURSCALE_HD constexpr int scale_offset(bool swizzled, int local_row, int word) {
  return swizzled ? word * 256 + local_row % 16 * 16 + local_row / 16 * 4 : local_row * 16 + word * 4;
}

// The order of X. A stage of X is four slices of 64 values, 128 bytes a row, swizzled. Instruction i (0 to 7)
// of a half takes registers 2 (i % 2) and 2 (i % 2) + 1 of word i / 2. Its k = 2 (lane % 4) + 8 h + e, with h
// and e 0 or 1, is the value value_of(lane, half, i / 2, 2 (i % 2) + h, e) of the stage. So for each h, eight
// rows of X by the eight values of these lanes are brought to where wgmma reads k = 8 h to 8 h + 7.

/// The byte offset at which TMA writes eight values of row lane / 4 of eight rows of X, those from
/// value_of(lane, half, word, 0, 0) on.
FOURSCALE_HD constexpr int raw_x_offset(int n_tiles, int lane, int half, int word) {
  const int row = lane / 4, t = lane % 4;
  return (2 * half + t / 2) * slice_bytes(n_tiles) + row * 128 + ((t % 2 * 4 + word) ^ row) * 16;
}
/// The byte offset of row `row` of an ordered matrix of 8 x 8 values: matrix 2 (i % 2) + h of a word.
FOURSCALE_HD constexpr int ordered_x_offset(int n_tiles, int row, int half, int word, int matrix) {
  return (2 * half + word / 2) * slice_bytes(n_tiles) + row * 128 + ((word % 2 * 4 + matrix) ^ row) * 16;
}
/// What to add to the descriptor of a stage of X for instruction i of a half, in 16 bytes.
FOURSCALE_HD constexpr u32 x_descriptor_step(int n_tiles, int half, int i) {
  return static_cast<u32>((2 * half + i / 4) * slice_bytes(n_tiles) + i % 4 * 32) / 16;
}

// In shared memory, the sums of a row of W are chunks of four floats. A chunk is what a lane has of the row
// in two of the instruction's tiles of eight columns or, where there is one tile, what two lanes have.

/// The row of X to which element `i` of a chunk belongs.
FOURSCALE_HD constexpr int row_of_x_at(int n_tiles, int chunk, int i) {
  return n_tiles == 1 ? chunk * 4 + i : (chunk / 4 * 2 + i / 2) * 8 + chunk % 4 * 2 + i % 2;
}
/// Where a chunk of a row of W begins, in floats. Rows have their chunks in different orders. So one chunk of
/// eight rows takes different banks, and so do the eight lanes that write together, except for 16 rows of X.
FOURSCALE_HD constexpr int sums_offset(int n_tiles, int row, int chunk) {
  const int chunks = 2 * n_tiles, order = chunks >= 8 ? row % 8 : row / (8 / chunks) % chunks;
  return (row * chunks + (chunk ^ order)) * 4;
}
/// A lane's sums of a row are parts_of_lane() parts of part_floats() floats. Part k begins at part_offset().
FOURSCALE_HD constexpr int part_floats(int n_tiles) { return n_tiles == 1 ? 2 : 4; }
FOURSCALE_HD constexpr int parts_of_lane(int n_tiles) { return n_tiles == 1 ? 1 : n_tiles / 2; }
FOURSCALE_HD constexpr int part_offset(int n_tiles, int row, int lane, int k) {
  const int t = lane % 4;
  return n_tiles == 1 ? sums_offset(1, row, t / 2) + t % 2 * 2 : sums_offset(n_tiles, row, 4 * k + t);
}
/// Which of a lane's elements of wgmma's D is element i of part k of its row j.
FOURSCALE_HD constexpr int element_of_part(int j, int k, int i) {
  return (2 * k + i / 2) * 4 + 2 * j + i % 2;
}

/// `all` items for `by` owners, in order; the first owners have one more than the others. The host divides:
/// otherwise the first load of the kernel would wait for a division.
struct divided_shares {
  int all = 1, by = 1, each = 1, more = 0;

  FOURSCALE_HD constexpr divided_shares() {}
  FOURSCALE_HD constexpr divided_shares(int items, int owners)
      : all(items), by(owners), each(items / owners), more(items % owners) {}

  FOURSCALE_HD constexpr int begin(int i) const { return each * i + (i < more ? i : more); }
  FOURSCALE_HD constexpr span_of of(int i) const { return {begin(i), begin(i + 1)}; }
};

/// A cluster takes consecutive tiles, two at a time, and each of its CTAs a part of the stages along K.
struct plan {
  int ctas_log2 = 1;             ///< of a cluster
  divided_shares tiles, stages;  ///< tiles for clusters; stages for the CTAs of a cluster

  FOURSCALE_HD constexpr int ctas() const { return 1 << ctas_log2; }
  FOURSCALE_HD constexpr int clusters() const { return tiles.by; }
  FOURSCALE_HD constexpr span_of tiles_of(int cta) const { return tiles.of(cta >> ctas_log2); }
  FOURSCALE_HD constexpr span_of stages_of(int rank) const { return stages.of(rank); }
  /// A rough estimate of the time, as bytes that the CTA with most to do reads. A stage of X counts half,
  /// because it comes from L2. The sums of two tiles take as long as 30 KB, and more with CTAs and rows of X.
  FOURSCALE_HD constexpr i64 cost(int n_tiles) const {
    const i64 mine = ceil_div(tiles.all, tiles.by), along_k = ceil_div(stages.all, stages.by),
              pairs = ceil_div<i64>(mine, most_tiles);
    return along_k * (mine * (tile_bytes + tile_scales) + pairs * x_stage_bytes(n_tiles) / 2) +
           pairs * (30000 + 1000 * ctas() * n_tiles);
  }
};

/// Whether there is a plan. Sums are sent from CTA to CTA, so a cluster has at least two CTAs, each with a
/// stage. (A cluster of one could send to itself, but compute-sanitizer takes that for an error.) `ctas`: the
/// CTAs that a cluster should have, or 0.
FOURSCALE_HD constexpr bool has_plan(i64 k, machine const& m, int ctas = 0) {
  return m.most_ctas >= 2 && k > stage_values && ctas != 1;
}

/// The cheapest plan for 8 `n_tiles` rows of X and `tiles` tiles of W; only if has_plan(). `ctas`: CTAs of a
/// cluster, at least 2; 0 leaves the choice to this function.
FOURSCALE_HD constexpr plan make_plan(int n_tiles, i64 tiles, i64 k, machine const& m, int ctas = 0) {
  plan best, p;
  const int all = static_cast<int>(tiles), stages = static_cast<int>(ceil_div<i64>(k, stage_values));
  for (int size = 1; 1 << size <= m.most_ctas && 1 << size <= stages; ++size) {
    p.ctas_log2 = size;
    if (ctas > 0 && p.ctas() > ctas) break;
    const int at_once = m.clusters_of(size);
    p.tiles = {all, all < at_once ? all : at_once};
    p.stages = {stages, p.ctas()};
    if (size == 1 || p.ctas() == ctas || p.cost(n_tiles) < best.cost(n_tiles)) best = p;
  }
  return best;
}

}  // namespace FOURSCALE_NAMESPACE::mma::weight_only::by_wgmma
