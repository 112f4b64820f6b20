// SPDX-License-Identifier: Apache-2.0
// The numbers of a block-scaled tcgen05 GEMM: its tile, a stage of it in shared memory, the columns of tensor
// memory and the mbarriers. A stage is 128 bytes of codes along K, four instructions, with their scales.
#pragma once

#include "../ptx/smem_descriptor.hpp"
#include "../ptx/tmem_address.hpp"
#include "instruction_set.cuh"

namespace FOURSCALE_NAMESPACE::mma::tcgen05 {

/// Warps 0 to 3 read results from tensor memory, each its quarter of the lanes; then one warp of each kind.
inline constexpr int epilogue_warps = 4, load_warp = 4, issue_warp = 5, warps = 6;

/// A GEMM of block formats F by G, in tiles of 128 * CtaGroup x Columns. `Sharing` tiles, one below the
/// other, are worked on in a cluster, and B comes to all of them once.
template <block_format F, block_format G, int CtaGroup, int Columns, int Sharing = 1>
struct tile {
  static_assert(CtaGroup == 1 || CtaGroup == 2, "A tile is worked on by one CTA or by a pair.");
  static_assert(Columns == 128 || Columns == 256, "A tile has 128 or 256 columns.");
  using format_a = F;
  using format_b = G;
  static constexpr int cta_group = CtaGroup, sharing = Sharing;
  static constexpr int rows_per_cta = 128, rows = rows_per_cta * CtaGroup, columns = Columns;
  /// Rows of B that lie in the shared memory of a CTA: a pair shares them.
  static constexpr int b_rows_per_cta = Columns / CtaGroup;
  /// Those of them that it loads, for all tiles of the cluster.
  static constexpr int b_rows_loaded = b_rows_per_cta / Sharing;

  // --- Along K

  /// One instruction takes 32 bytes of codes: 64 elements of 4 bits or 32 of 8, under 4 scales (NVFP4), 2
  /// (MXFP4) or 1 (MXFP8) a row.
  static constexpr auto format = format_of<F, G>();
  static constexpr int step_elements = format.k(), step_scales = format.scales();
  static constexpr int stage_steps = 4, stage_bytes = 128, stage_elements = stage_steps * step_elements;
  /// Scales come in tiles of 128 rows x 4, 512 bytes: view/scale_layout.hpp. So many of them along a stage.
  static constexpr int scale_tile_bytes = 512, scale_tiles = stage_steps * step_scales / 4;
  static constexpr int b_scale_rows = Columns / 128;  ///< of tiles: each CTA has the scales of all columns

  FOURSCALE_HD static constexpr i64 steps(i64 k) { return ceil_div<i64>(k, step_elements); }
  FOURSCALE_HD static constexpr i64 stages_along(i64 k) { return ceil_div<i64>(k, stage_elements); }

  /// The shape of the instruction, and the word that says it. The scale ids change from step to step.
  static constexpr ptx::block_scaled_mma instruction = {.kind = format.kind,
                                                        .cta_group = CtaGroup,
                                                        .m = rows,
                                                        .n = Columns,
                                                        .k = step_elements,
                                                        .block_size = format.block,
                                                        .scale = format.scale,
                                                        .a = format.a,
                                                        .b = format.b};
  static constexpr u32 instruction_word = ptx::instruction_descriptor<instruction>();

  // --- Shared memory: stages of [codes of A][codes of B][scales of A][scales of B], then boxes of D

  static constexpr ptx::k_major_tile
      codes_a = {.rows = rows_per_cta, .k = stage_elements, .bits = F::element::width},
      codes_b = {.rows = b_rows_per_cta, .k = stage_elements, .bits = G::element::width},
      codes_b_loaded = {.rows = b_rows_loaded, .k = stage_elements, .bits = G::element::width};
  static constexpr int a_at = 0, b_at = a_at + codes_a.size_bytes(), sfa_at = b_at + codes_b.size_bytes(),
                       sfb_at = sfa_at + scale_tile_bytes * scale_tiles,
                       stage_end = sfb_at + scale_tile_bytes * scale_tiles * b_scale_rows;
  /// The swizzle repeats every 1024 bytes, so stages begin there.
  static constexpr int stage_size = round_up(stage_end, codes_a.alignment());
  /// What TMA stores at a time: 128 bytes of the 32 rows of a warp of the epilogue, under the swizzle of 128
  /// bytes. A warp fills one while the other one is read.
  static constexpr int box_rows = 32, box_row_bytes = 128, box_bytes = box_rows * box_row_bytes, boxes = 2,
                       all_boxes = epilogue_warps * boxes * box_bytes;
  /// What a block may have, 227 KiB, less 2 KiB for barriers and alignment; and what one barrier each allows.
  static constexpr int shared_limit = 232448 - 2048 - all_boxes, most_stages = 6;
  static constexpr int stages =
      shared_limit / stage_size < most_stages ? shared_limit / stage_size : most_stages;
  static constexpr int boxes_at = stages * stage_size, shared_bytes = boxes_at + all_boxes;

  // --- Tensor memory: two accumulators, and the scales of a stage behind them

  /// All of it: the shared memory of a CTA leaves no room for a second one on the SM anyway.
  static constexpr int tmem_columns = 512;
  /// One tcgen05.ld of the epilogue.
  static constexpr int chunk = 16, chunks = Columns / chunk;
  static constexpr int sfa_columns = scale_tiles * ptx::sfa_columns(instruction),
                       sfb_columns = scale_tiles * ptx::sfb_columns(instruction);
  /// Two accumulators of 256 columns leave none for scales. So the second begins in the last columns of the
  /// first: the epilogue empties the common columns first, and then gives them to the next tile.
  static constexpr int missing_columns = 2 * Columns + sfa_columns + sfb_columns - tmem_columns,
                       common_columns = missing_columns > 0 ? round_up(missing_columns, chunk) : 0;
  static constexpr int sfa_column = 2 * Columns - common_columns, sfb_column = sfa_column + sfa_columns;
  static_assert(sfb_column + sfb_columns <= tmem_columns);

  /// Tiles of a CTA are numbered by `turn`; they take the accumulators in turn.
  FOURSCALE_HD static constexpr int accumulator_column(u32 turn) {
    return turn % 2 == 0 ? 0 : Columns - common_columns;
  }
  /// The epilogue of a turn, having read `release_chunks` chunks, lets the MMA of turn + `lead` begin.
  static constexpr u32 lead = common_columns > 0 ? 1 : 2;
  static constexpr int release_chunks = common_columns > 0 ? common_columns / chunk : chunks;

  // --- mbarriers, by number

  FOURSCALE_HD static constexpr u32 full(u32 stage) { return stage; }
  FOURSCALE_HD static constexpr u32 empty(u32 stage) { return static_cast<u32>(stages) + stage; }
  FOURSCALE_HD static constexpr u32 accumulator_full(u32 turn) {
    return 2 * static_cast<u32>(stages) + turn % 2;
  }
  FOURSCALE_HD static constexpr u32 accumulator_free(u32 turn) {
    return 2 * static_cast<u32>(stages) + 2 + turn % 2;
  }
  static constexpr u32 barriers = 2 * stages + 4;
};

}  // namespace FOURSCALE_NAMESPACE::mma::tcgen05
