// SPDX-License-Identifier: Apache-2.0
// The numbers of a block-scaled tcgen05 GEMM: its tile, its stages in shared memory, the columns of tensor
// memory and the mbarriers. A stage is 128 bytes of codes along K, which four instructions multiply, with
// their scales.
#pragma once

#include "../ptx/smem_descriptor.hpp"
#include "../ptx/tmem_address.hpp"
#include "instruction_set.cuh"

namespace FOURSCALE_NAMESPACE::mma::tcgen05 {

/// Warps 0 to 3 are the epilogue: each reads its quarter of the lanes of tensor memory. Then come one load
/// warp and one issue warp.
inline constexpr int epilogue_warps = 4, load_warp = 4, issue_warp = 5, warps = 6;

/// A GEMM of block formats F by G, in tiles of 128 * CtaGroup x Columns. A cluster works on `Sharing` tiles,
/// one below the other, and loads their B once for all of them.
template <block_format F, block_format G, int CtaGroup, int Columns, int Sharing = 1>
struct tile {
  static_assert(CtaGroup == 1 || CtaGroup == 2, "A tile is worked on by one CTA or by a pair.");
  static_assert(Columns == 128 || Columns == 256, "A tile has 128 or 256 columns.");
  using format_a = F;
  using format_b = G;
  static constexpr int cta_group = CtaGroup, sharing = Sharing;
  static constexpr int rows_per_cta = 128, rows = rows_per_cta * CtaGroup, columns = Columns;
  /// Rows of B in the shared memory of a CTA: each CTA of a pair holds half of them.
  static constexpr int b_rows_per_cta = Columns / CtaGroup;
  /// The part of these rows that this CTA loads, for all tiles of the cluster.
  static constexpr int b_rows_loaded = b_rows_per_cta / Sharing;

  // --- Along K

  /// One instruction takes 32 bytes of codes: 64 elements of 4 bits or 32 of 8, under 4 scales (NVFP4), 2
  /// (MXFP4) or 1 (MXFP8) a row.
  static constexpr auto format = format_of<F, G>();
  static constexpr int step_elements = format.k(), step_scales = format.scales();
  static constexpr int stage_steps = 4, stage_bytes = 128, stage_elements = stage_steps * step_elements;
  /// Scales come in tiles of 128 rows x 4, 512 bytes: view/scale_layout.hpp. A stage has `scale_tiles` of
  /// them along K.
  static constexpr int scale_tile_bytes = 512, scale_tiles = stage_steps * step_scales / 4;
  /// Rows of scale tiles of B: each CTA, also of a pair, has the scales of all columns.
  static constexpr int b_scale_rows = Columns / 128;

  FOURSCALE_HD static constexpr i64 steps(i64 k) { return ceil_div<i64>(k, step_elements); }
  FOURSCALE_HD static constexpr i64 stages_along(i64 k) { return ceil_div<i64>(k, stage_elements); }

  /// The shape of the instruction, and its instruction descriptor. The scale ids in it change from step to
  /// step.
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
  /// A box is what TMA stores at a time: 128 bytes of the 32 rows of an epilogue warp, under the 128-byte
  /// swizzle. Each warp has two: it fills one while TMA reads the other.
  static constexpr int box_rows = 32, box_row_bytes = 128, box_bytes = box_rows * box_row_bytes, boxes = 2,
                       all_boxes = epilogue_warps * boxes * box_bytes;
  /// A thread block may have 227 KiB of shared memory; 2 KiB of it are for barriers and alignment. At most
  /// six stages: their 2 * 6 + 4 mbarriers are all that the model has for a CTA (model/knowledge.hpp).
  static constexpr int shared_limit = 232448 - 2048 - all_boxes, most_stages = 6;
  static constexpr int stages =
      shared_limit / stage_size < most_stages ? shared_limit / stage_size : most_stages;
  static constexpr int boxes_at = stages * stage_size, shared_bytes = boxes_at + all_boxes;

  // --- Tensor memory: two accumulators, and the scales of a stage behind them

  /// All columns: the shared memory of one CTA leaves no room for a second one on the SM anyway.
  static constexpr int tmem_columns = 512;
  /// `chunk`: the columns that one tcgen05.ld of the epilogue reads.
  static constexpr int chunk = 16, chunks = Columns / chunk;
  static constexpr int sfa_columns = scale_tiles * ptx::sfa_columns(instruction),
                       sfb_columns = scale_tiles * ptx::sfb_columns(instruction);
  /// Two accumulators of 256 columns leave no columns for scales. So the second accumulator begins in the
  /// last columns of the first. The epilogue reads these common columns first, and then frees them for the
  /// next tile.
  static constexpr int missing_columns = 2 * Columns + sfa_columns + sfb_columns - tmem_columns,
                       common_columns = missing_columns > 0 ? round_up(missing_columns, chunk) : 0;
  static constexpr int sfa_column = 2 * Columns - common_columns, sfb_column = sfa_column + sfa_columns;
  static_assert(sfb_column + sfb_columns <= tmem_columns);

  /// `turn` numbers the tiles of a CTA. Successive turns alternate between the two accumulators.
  FOURSCALE_HD static constexpr int accumulator_column(u32 turn) {
    return turn % 2 == 0 ? 0 : Columns - common_columns;
  }
  /// When the epilogue of a turn has read `release_chunks` chunks, it lets the MMA of turn + `lead` begin.
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
