// SPDX-License-Identifier: Apache-2.0
// The three roles of the warps of a tcgen05 GEMM, which run concurrently and synchronize by mbarriers only:
//
//   load  (warp 4)      waits for `empty`, has TMA fill a stage of shared memory     -> `full`
//   issue (warp 5)      waits for `full`, has the tensor core multiply the stage     -> `empty`
//                       and after the last stage of a tile                           -> `accumulator_full`
//   store (warps 0-3)   wait for that, read tensor memory, write D                   -> `accumulator_free`
//
// Each walks over the same tiles and the same stages. In a pair of CTAs, each loads its half of A and of B
// and stores its half of D, and the leader's one thread issues for both.
#pragma once

#include "../view/block_scaled_view.hpp"
#include "../view/gemm_epilogue.hpp"
#include "../view/gemm_factors.hpp"
#include "ring.cuh"
#include "tcgen05_hardware.cuh"

namespace FOURSCALE_NAMESPACE::mma::tcgen05 {

/// D = alpha * A * B^T + beta * D: the arguments of the kernel.
template <block_format F, block_format G, class T>
struct problem {
  CUtensorMap codes_a, codes_b;  ///< of bytes, with the 128-byte swizzle; boxes of one stage
  block_scaled_view<F, swizzled_128x4, u8 const> a;
  block_scaled_view<G, swizzled_128x4, u8 const> b;
  matrix_view<T> d;
  gemm_factors factors;
  bool wide_d;  ///< rows of D begin at multiples of 16 bytes
};

/// The tiles that this CTA or pair works on: every `step`-th, column after column of tiles, so that CTAs that
/// run at the same time share rows of B.
template <class Tile>
struct tile_walk {
  i64 along_rows, count, at, step;

  template <class P>
  FOURSCALE_D explicit tile_walk(P const& p)
      : along_rows(ceil_div<i64>(p.d.rows, Tile::rows)),
        count(along_rows * ceil_div<i64>(p.d.cols, Tile::columns)),
        at(blockIdx.x / Tile::cta_group),
        step(gridDim.x / Tile::cta_group) {}
  FOURSCALE_D bool more() const { return at < count; }
  FOURSCALE_D void next() { at += step; }
  FOURSCALE_D i64 row() const { return at % along_rows * Tile::rows; }
  FOURSCALE_D i64 col() const { return at / along_rows * Tile::columns; }
};

// ---------------------------------------------------------------- load

/// What tells `full` of a stage: the CTA's own load warp and, in the leader, the issue warp of the other CTA.
template <class Tile, class Set>
FOURSCALE_D void init_barriers(Set const& set) {
  const u32 ctas = Tile::cta_group;
  for (u32 i = 0; i < Tile::stages; ++i) {
    set.init_barrier(Tile::full(i), set.rank() == 0 ? ctas : 1);
    set.init_barrier(Tile::empty(i), 1);
  }
  for (u32 i = 0; i < 2; ++i) {
    set.init_barrier(Tile::accumulator_full(i), 1);
    set.init_barrier(Tile::accumulator_free(i), epilogue_warps * ctas);
  }
  set.fence_barrier_init();
}

/// Scale tiles [first, first + count) along K of 128 rows; the number of bytes, 0 where there are no rows.
template <class Tile, class Set, class Q>
FOURSCALE_D u32 load_scales(Set const& set, Q const& q, i64 row, i64 first, int count, u8* to, u32 barrier) {
  if (row >= q.rows) return 0;
  const u32 bytes = static_cast<u32>(Tile::scale_tile_bytes * count);
  set.load_bytes(to, q.scales + q.scale_offset(row, 4 * first), bytes, barrier);
  return bytes;
}

/// Codes of 128 rows of A and of this CTA's rows of B; scales of these rows of A and of all columns of the
/// tile.
template <class Tile, class Set, class P>
FOURSCALE_D void load_stage(Set const& set, P const& p, i64 row, i64 col, i64 k_stage, u8* to, u32 barrier) {
  constexpr u32 a_bytes = Tile::codes_a.size_bytes(), b_bytes = Tile::codes_b.size_bytes();
  const i32 k = static_cast<i32>(k_stage * Tile::stage_bytes);
  row += set.rank() * Tile::rows_per_cta;
  const i64 b_row = col + set.rank() * Tile::b_rows_per_cta;
  set.load_box(to + Tile::a_at, &p.codes_a, k, static_cast<i32>(row), a_bytes, barrier);
  set.load_box(to + Tile::b_at, &p.codes_b, k, static_cast<i32>(b_row), b_bytes, barrier);

  const i64 first = k_stage * Tile::scale_tiles, left = ceil_div<i64>(p.a.blocks(), 4) - first;
  const int count = left < Tile::scale_tiles ? static_cast<int>(left) : Tile::scale_tiles;
  u32 bytes = a_bytes + b_bytes;
  bytes += load_scales<Tile>(set, p.a, row, first, count, to + Tile::sfa_at, barrier);
  for (int i = 0; i < Tile::b_scale_rows; ++i)
    bytes += load_scales<Tile>(set, p.b, col + 128 * i, first, count,
                               to + Tile::sfb_at + i * Tile::scale_tiles * Tile::scale_tile_bytes, barrier);
  set.arrive_expecting(barrier, bytes);
}

template <class Tile, class Set, class P>
FOURSCALE_D void load(Set const& set, P const& p, u8* stages) {
  ring<Tile::stages> at;
  const i64 k_stages = Tile::stages_along(p.a.cols);
  for (tile_walk<Tile> walk(p); walk.more(); walk.next())
    for (i64 k_stage = 0; k_stage < k_stages; ++k_stage, at.next()) {
      set.wait(Tile::empty(at.stage), at.parity ^ 1);  // passes at once the first time around
      if (set.issues())
        load_stage<Tile>(set, p, walk.row(), walk.col(), k_stage, stages + at.stage * Tile::stage_size,
                         Tile::full(at.stage));
      __syncwarp();
    }
  // Whatever was filled is used before the CTA, and its barriers with it, goes.
  for (int i = 0; i < Tile::stages; ++i, at.next()) set.wait(Tile::empty(at.stage), at.parity ^ 1);
}

// ---------------------------------------------------------------- issue

/// The last 4 scales of each row may reach beyond the matrix. Codes there are zero, but a NaN scale would
/// still make NaN of the sum, and a large one would cost it bits: so they become zero, whatever the layout's
/// padding holds.
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

/// One stage: its scales to tensor memory, then up to four steps of MMA. cp and MMA of a thread run in the
/// order of issue (PTX ISA 9.7.16.6.2), and so one copy of the scales is enough. That a cp also waits for the
/// MMA before it, whose scales it overwrites, the manual does not say; shipping kernels rely on it.
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

template <class Tile, class Set, class P>
FOURSCALE_D void issue(Set const& set, P const& p, u8* stages, u32 tmem) {
  ring<Tile::stages> at;
  u32 turn = 0;
  const i64 steps = Tile::steps(p.a.cols), k_stages = Tile::stages_along(p.a.cols);
  const bool leads = set.rank() == 0, padded = p.a.cols % Tile::step_elements != 0;
  for (tile_walk<Tile> walk(p); walk.more(); walk.next(), ++turn) {
    if (leads && turn >= Tile::lead) set.wait(Tile::accumulator_free(turn), (turn - Tile::lead) / 2 % 2);
    for (i64 k_stage = 0; k_stage < k_stages; ++k_stage, at.next()) {
      set.wait(Tile::full(at.stage), at.parity);
      u8* const stage = stages + at.stage * Tile::stage_size;
      const bool last = k_stage + 1 == k_stages;
      if (last && padded)
        clear_padding<Tile>(set, stage, static_cast<int>((p.a.blocks() - 1) / 4 % Tile::scale_tiles),
                            p.a.blocks());
      // TMA on Hopper tells barriers of its own CTA only. So a warp passes on to the leader what has arrived
      // here; on Blackwell, copies with .cta_group::2 could do that.
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
        set.commit(Tile::empty(at.stage));
        if (last) set.commit(Tile::accumulator_full(turn));
      }
      __syncwarp();
    }
  }
  set.dismiss_helpers();
}

// ---------------------------------------------------------------- store

/// What an accumulator is multiplied by: one factor, unless rows have amaxes of their own.
template <class P>
struct output_factors {
  decltype(P::a.amax) a;
  decltype(P::b.amax) b;
  float alpha, of_all;
  bool by_row;

  FOURSCALE_D explicit output_factors(P const& p)
      : a(p.a.amax),
        b(p.b.amax),
        alpha(p.factors.alpha),
        of_all(at_row(0, 0)),
        by_row(a.kind == amax_kind::per_row || b.kind == amax_kind::per_row) {}
  FOURSCALE_D float at(i64 row, i64 col) const { return by_row ? at_row(row, col) : of_all; }

 private:
  FOURSCALE_D float at_row(i64 row, i64 col) const {
    return output_factor(alpha, a.scale_of_row(row), b.scale_of_row(col));
  }
};

/// One element of D from its sum.
template <class P, class T>
FOURSCALE_D T element(P const& p, float factor, u32 sum, T const& before) {
  const float x = bit_cast<float>(sum), beta = p.factors.beta;
  return beta != 0.0f ? gemm_output<T>(factor, x, beta, before) : gemm_output<T>(factor, x);
}

/// N consecutive elements of a row of D: in words of 16 bytes where they lie so.
template <class P, int N>
FOURSCALE_D void store_chunk(P const& p, output_factors<P> const& factors, i64 row, i64 col,
                             u32 const (&sums)[N]) {
  using T = typename decltype(p.d)::value_type;
  if (row >= p.d.rows) return;
  T* const to = &p.d.at(row, col);
  if (p.wide_d && col + N <= p.d.cols && !factors.by_row) {
    constexpr int words = N * sizeof(T) / 16, each = N / words;
    struct alignas(16) word {
      T values[each];
    };
    FOURSCALE_UNROLL
    for (int i = 0; i < words; ++i) {
      word x{};
      if (p.factors.beta != 0.0f) x = reinterpret_cast<word const*>(to)[i];
      FOURSCALE_UNROLL
      for (int j = 0; j < each; ++j)
        x.values[j] = element(p, factors.of_all, sums[i * each + j], x.values[j]);
      reinterpret_cast<word*>(to)[i] = x;
    }
  } else {
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i)
      if (col + i < p.d.cols) to[i] = element(p, factors.at(row, col + i), sums[i], to[i]);
  }
}

template <class Tile, class Set, class P>
FOURSCALE_D void store(Set const& set, P const& p, u32 tmem) {
  const int thread = static_cast<int>(threadIdx.x);
  const output_factors<P> factors(p);
  u32 turn = 0;
  for (tile_walk<Tile> walk(p); walk.more(); walk.next(), ++turn) {
    const i64 row = walk.row() + set.rank() * Tile::rows_per_cta + thread;
    const u32 d = ptx::tmem_offset(tmem + Tile::accumulator_column(turn), thread / 32 * 32, 0);
    set.wait(Tile::accumulator_full(turn), turn / 2 % 2);
    set.fence_after_thread_sync();
#pragma unroll 1
    for (int i = 0; i < Tile::chunks; ++i) {
      // The columns that both accumulators have: the last ones of the first, the first of the second.
      const int column = Tile::chunk * (turn % 2 == 0 ? Tile::chunks - 1 - i : i);
      u32 sums[Tile::chunk];
      set.ld(sums, d + static_cast<u32>(column));
      set.wait_ld(sums);
      if (i + 1 == Tile::release_chunks) {
        set.fence_before_thread_sync();
        set.arrive_at_leader(Tile::accumulator_free(turn + Tile::lead));
      }
      store_chunk(p, factors, row, walk.col() + column, sums);
    }
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma::tcgen05
