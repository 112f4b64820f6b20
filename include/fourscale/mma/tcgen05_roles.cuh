// SPDX-License-Identifier: Apache-2.0
// The roles of the warps of a tcgen05 GEMM. They run concurrently and synchronize through mbarriers only; the
// arrow shows which barrier a role completes:
//
//   load  (warp 4)      waits for `empty`; has TMA fill a stage of shared memory     -> `full`
//   issue (warp 5)      waits for `accumulator_free` before each tile, for `full` before each stage;
//                       has the tensor core multiply the stage                       -> `empty`
//                       and after the last stage of a tile                           -> `accumulator_full`
//   store (warps 0-3)   wait for `accumulator_full`, read tensor memory, write D     -> `accumulator_free`
//                       (tcgen05_store.cuh)
//
// All roles walk over the same tiles, load and issue also over the same ring of stages. In a pair of CTAs,
// each CTA loads its half of A and of B and stores its half of D; one thread of the leader issues for both.
// Where two CTAs or pairs share B, each loads half of B's rows for both: `full` counts the bytes of both, and
// `empty` the MMA of both.
#pragma once

#include "ring.cuh"
#include "tcgen05_problem.cuh"
#include "tcgen05_store.cuh"

namespace FOURSCALE_NAMESPACE::mma::tcgen05 {

// ---------------------------------------------------------------- load

/// Initializes the barriers. At `full` of a stage, the CTA's own load warp arrives and, in the leader, also
/// the issue warp of the other CTA. At `empty`, the MMA of each group to which this CTA copies arrives. Call
/// it under issues().
template <class Tile, class Set>
FOURSCALE_D void init_barriers(Set const& set) {
  const u32 ctas = Tile::cta_group;
  for (u32 i = 0; i < Tile::stages; ++i) {
    set.init_barrier(Tile::full(i), set.rank() == 0 ? ctas : 1);
    set.init_barrier(Tile::empty(i), Tile::sharing);
  }
  for (u32 i = 0; i < 2; ++i) {
    set.init_barrier(Tile::accumulator_full(i), 1);
    set.init_barrier(Tile::accumulator_free(i), epilogue_warps * ctas);
  }
  set.fence_barrier_init();
}

/// Loads the scales of one stage: those of 128 rows of A and of all columns of the tile, from scale tile
/// `first` along K on. Returns the number of bytes that arrive at `barrier`. Scale tiles of rows beyond the
/// matrices are not loaded.
template <class Tile, class Set, class P>
FOURSCALE_D u32 load_scales(Set const& set, P const& p, i64 row, i64 col, i64 first, u8* to, u32 barrier) {
  const i64 left = ceil_div<i64>(p.a.blocks(), 4) - first;
  const u32 each =
      static_cast<u32>(Tile::scale_tile_bytes * (left < Tile::scale_tiles ? left : Tile::scale_tiles));
  u32 bytes = 0;
  if (row < p.a.rows) {
    set.load_bytes(to + Tile::sfa_at, p.a.scales + p.a.scale_offset(row, 4 * first), each, barrier);
    bytes += each;
  }
  for (u32 i = 0; i < Tile::b_scale_rows; ++i) {
    const i64 b_row = col + 128 * i;
    if (b_row >= p.b.rows) break;
    if (i % Tile::sharing == set.group())
      set.share_bytes(to + Tile::sfb_at + i * Tile::scale_tiles * Tile::scale_tile_bytes,
                      p.b.scales + p.b.scale_offset(b_row, 4 * first), each, barrier);
    bytes += each;
  }
  return bytes;
}

/// Loads one stage: the codes of 128 rows of A, the codes of B that this CTA loads, and the scales. The
/// arrival at `barrier` also expects the bytes that another group copies to this CTA.
template <class Tile, class Set, class P>
FOURSCALE_D void load_stage(Set const& set, P const& p, i64 row, i64 col, i64 k_stage, u8* to, u32 barrier) {
  constexpr u32 a_bytes = Tile::codes_a.size_bytes(), b_bytes = Tile::codes_b.size_bytes(),
                loaded = Tile::codes_b_loaded.size_bytes();
  const i32 k = static_cast<i32>(k_stage * Tile::stage_bytes);
  row += set.rank() * Tile::rows_per_cta;
  const i64 b_row = col + set.rank() * Tile::b_rows_per_cta + set.group() * Tile::b_rows_loaded;
  set.load_box(to + Tile::a_at, &p.codes_a, k, static_cast<i32>(row), a_bytes, barrier);
  set.share_box(to + Tile::b_at + set.group() * loaded, &p.codes_b, k, static_cast<i32>(b_row), loaded,
                barrier);
  const u32 scales = load_scales<Tile>(set, p, row, col, k_stage * Tile::scale_tiles, to, barrier);
  set.arrive_expecting(barrier, a_bytes + b_bytes + scales);
}

/// The role of the load warp.
template <class Tile, class Set, class P>
FOURSCALE_D void load(Set const& set, P const& p, u8* stages) {
  ring<Tile::stages> at;
  const i64 k_stages = Tile::stages_along(p.a.cols);
  for (tile_walk<Tile> walk(p, set.group()); walk.more(); walk.next())
    for (i64 k_stage = 0; k_stage < k_stages; ++k_stage, at.next()) {
      set.wait(Tile::empty(at.stage), at.parity ^ 1);  // passes at once the first time around
      if (set.issues())
        load_stage<Tile>(set, p, walk.row(), walk.col(), k_stage, stages + at.stage * Tile::stage_size,
                         Tile::full(at.stage));
      __syncwarp();
    }
  // Wait until all stages that were filled, here and in other CTAs, are consumed: barriers end with their
  // CTA.
  for (int i = 0; i < Tile::stages; ++i, at.next()) set.wait(Tile::empty(at.stage), at.parity ^ 1);
}

// ---------------------------------------------------------------- issue

/// Sets the scales beyond K to zero, in scale tile `scale_tile` of a stage. The last 4 scales of each row may
/// reach beyond the matrix, where the layout's padding holds anything. TMA fills the codes there with zeros,
/// but a NaN scale would still make the sum NaN, and a large scale would cost the sum bits. A whole warp
/// calls it.
template <class Tile, class Set>
FOURSCALE_D void clear_padding(Set const& set, u8* stage, int scale_tile, i64 blocks) {
  const u32 keep = (1u << (8 * (blocks % 4))) - 1;
  for (int i = 0; i <= Tile::b_scale_rows; ++i) {  // the rows of A, then those of B
    uint4* const of_tile = reinterpret_cast<uint4*>(
        stage + Tile::sfa_at + (i * Tile::scale_tiles + scale_tile) * Tile::scale_tile_bytes);
    const uint4 x = of_tile[threadIdx.x % 32];
    set.store(of_tile, {x.x & keep, x.y & keep, x.z & keep, x.w & keep});
  }
  set.fence_proxy_async();
}

/// Issues one stage: copies its scales to tensor memory, then issues up to four steps of MMA. cp and MMA of
/// one thread run in the order of issue (PTX ISA 9.7.16.6.2), so tensor memory needs only one copy of the
/// scales. The next cp must also wait for the MMA before it, whose scales it overwrites. The manual does not
/// say that it does; shipping kernels rely on it.
template <class Tile, class Set>
FOURSCALE_D void issue_stage(Set const& set, u32 stage, int steps, u32 tmem, u32 d, bool accumulate) {
  using F = typename Tile::format_a;
  using G = typename Tile::format_b;
  const u32 sfa = tmem + Tile::sfa_column, sfb = tmem + Tile::sfb_column;
  FOURSCALE_UNROLL
  for (int tile = 0; tile < Tile::scale_tiles; ++tile) {
    if (4 * tile >= steps * Tile::step_scales) break;
    const u32 from = stage + static_cast<u32>(Tile::scale_tile_bytes * tile);
    set.cp_32x128b_warpx4(sfa + 4 * tile, ptx::scale_tile_descriptor(from + Tile::sfa_at));
    for (int i = 0; i < Tile::b_scale_rows; ++i)
      set.cp_32x128b_warpx4(
          sfb + 4 * (tile * Tile::b_scale_rows + i),
          ptx::scale_tile_descriptor(from + Tile::sfb_at + i * Tile::scale_tiles * Tile::scale_tile_bytes));
  }
  FOURSCALE_UNROLL
  for (int step = 0; step < Tile::stage_steps; ++step) {
    if (step >= steps) break;
    const int scale = step * Tile::step_scales, tile = scale / 4, id = scale % 4;
    set.template mma<F, G>(d, ptx::smem_descriptor<Tile::codes_a>(stage + Tile::a_at, step),
                           ptx::smem_descriptor<Tile::codes_b>(stage + Tile::b_at, step),
                           ptx::with_scale_ids(Tile::instruction_word, id, id), sfa + 4 * tile,
                           sfb + 4 * tile * Tile::b_scale_rows, accumulate || step > 0);
  }
}

/// The role of the issue warp. In the second CTA of a pair it issues nothing: it clears padding, and tells
/// the leader which stages are full.
template <class Tile, class Set, class P>
FOURSCALE_D void issue(Set const& set, P const& p, u8* stages, u32 tmem) {
  ring<Tile::stages> at;
  u32 turn = 0;
  const i64 steps = Tile::steps(p.a.cols), k_stages = Tile::stages_along(p.a.cols);
  const bool leads = set.rank() == 0, padded = p.a.cols % Tile::step_elements != 0;
  for (tile_walk<Tile> walk(p, set.group()); walk.more(); walk.next(), ++turn) {
    if (leads && turn >= Tile::lead) set.wait(Tile::accumulator_free(turn), (turn - Tile::lead) / 2 % 2);
    for (i64 k_stage = 0; k_stage < k_stages; ++k_stage, at.next()) {
      set.wait(Tile::full(at.stage), at.parity);
      u8* const stage = stages + at.stage * Tile::stage_size;
      const bool last = k_stage + 1 == k_stages;
      if (last && padded)
        clear_padding<Tile>(set, stage, static_cast<int>((p.a.blocks() - 1) / 4 % Tile::scale_tiles),
                            p.a.blocks());
      // TMA on Hopper signals barriers of its own CTA only. So the issue warp of the other CTA passes on to
      // the leader that its half has arrived. On Blackwell, copies with .cta_group::2 could do that.
      if (!leads) {
        set.arrive_at_leader(Tile::full(at.stage));
        continue;
      }
      set.fence_after_thread_sync();
      if (set.issues()) {
        const i64 left = steps - k_stage * Tile::stage_steps;
        issue_stage<Tile>(set, ptx::shared_address(stage),
                          left < Tile::stage_steps ? static_cast<int>(left) : Tile::stage_steps, tmem,
                          tmem + Tile::accumulator_column(turn), k_stage > 0);
        set.commit(Tile::empty(at.stage), Set::all);
        if (last) set.commit(Tile::accumulator_full(turn), set.own());
      }
      __syncwarp();
    }
  }
  set.dismiss_helpers();
}

}  // namespace FOURSCALE_NAMESPACE::mma::tcgen05
