// SPDX-License-Identifier: Apache-2.0
// The epilogue of a tcgen05 GEMM: four warps read an accumulator from tensor memory, one row of D for each
// lane, and store it. Where TMA can write D, nothing is added and one factor holds for all rows, the outputs
// pass through shared memory in boxes that TMA stores (`output_boxes`). Elsewhere each lane stores its part
// of a row (store_chunk()).
#pragma once

#include "../view/gemm_epilogue.hpp"
#include "tcgen05_hardware.cuh"
#include "tcgen05_problem.cuh"

namespace FOURSCALE_NAMESPACE::mma::tcgen05 {

/// The factor that a sum is multiplied by: one for all outputs, unless rows have amaxes of their own.
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

/// One element of D from its sum. `before`, the old element, counts only if beta is not 0.
template <class P, class T>
FOURSCALE_D T element(P const& p, float factor, u32 sum, T const& before) {
  const float x = bit_cast<float>(sum), beta = p.factors.beta;
  return beta != 0.0f ? gemm_output<T>(factor, x, beta, before) : gemm_output<T>(factor, x);
}

/// One lane stores N consecutive elements of its row of D: in words of 16 bytes where rows of D are aligned
/// to them, the chunk is complete and one factor holds; else one by one.
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

/// Stores a warp's part of D by TMA. The warp fills one box while TMA still reads the other. Lane l writes
/// row l of a box, and its 16-byte word number c goes to position c ^ l % 8: eight lanes store to all banks
/// at once.
template <class Tile, class T>
struct output_boxes {
  static constexpr int cols = Tile::box_row_bytes / static_cast<int>(sizeof(T)), chunks = cols / Tile::chunk,
                       words = Tile::chunk * static_cast<int>(sizeof(T)) / 16;
  static_assert(Tile::chunks % chunks == 0);
  u8* boxes;
  u32 count = 0;  ///< how many boxes have been stored

  /// Puts the chunk at column `column` of the tile at (row, col) into a box; `row` is the first row of the
  /// warp. `i` counts the chunks in the order in which they are read: all chunks of a box are read before
  /// those of the next, and the last one of a box hands it to TMA. A whole warp calls it.
  template <class Set, class P>
  FOURSCALE_D void put(Set const& set, P const& p, float factor, i64 row, i64 col, int column, int i,
                       u32 const (&sums)[Tile::chunk]) {
    const int in_box = column % cols;
    col += column - in_box;
    if (row >= p.d.rows || col >= p.d.cols) return;
    u8* const box = boxes + count % Tile::boxes * Tile::box_bytes;
    if (i % chunks == 0) {
      set.template wait_stores<Tile::boxes - 1>();
      set.announce_stores(box, Tile::box_bytes);
    }
    const int lane = static_cast<int>(threadIdx.x) % 32, first = in_box * static_cast<int>(sizeof(T)) / 16;
    FOURSCALE_UNROLL
    for (int word = 0; word < words; ++word)
      *reinterpret_cast<uint4*>(box + lane * Tile::box_row_bytes + 16 * ((first + word) ^ lane % 8)) =
          outputs(factor, sums + word * Tile::chunk / words);
    if (i % chunks + 1 == chunks) {
      set.fence_proxy_async();
      set.store_box(&p.map_d, static_cast<i32>(col), static_cast<i32>(row), box, Tile::box_bytes);
      ++count;
    }
  }

 private:
  /// 16 bytes of D.
  FOURSCALE_D static uint4 outputs(float factor, u32 const* sums) {
    u32 x[4];
    FOURSCALE_UNROLL
    for (int i = 0; i < 4; ++i)
      if constexpr (sizeof(T) == 4)
        x[i] = bit_cast<u32>(gemm_output<T>(factor, bit_cast<float>(sums[i])));
      else
        x[i] = gemm_output_pair<T>(factor, bit_cast<float>(sums[2 * i + 1]), bit_cast<float>(sums[2 * i]));
    return {x[0], x[1], x[2], x[3]};
  }
};

/// The role of the epilogue warps. `boxes`: the shared memory for the boxes of all four warps.
template <class Tile, class Set, class P>
FOURSCALE_D void store(Set const& set, P const& p, u8* boxes, u32 tmem) {
  const int thread = static_cast<int>(threadIdx.x), warp_row = thread / 32 * 32;
  const output_factors<P> factors(p);
  output_boxes<Tile, typename decltype(p.d)::value_type> by_tma{boxes + warp_row / 32 * Tile::boxes *
                                                                            Tile::box_bytes};
  u32 turn = 0;
  for (tile_walk<Tile> walk(p, set.group()); walk.more(); walk.next(), ++turn) {
    const i64 row = walk.row() + set.rank() * Tile::rows_per_cta;
    const u32 d = ptx::tmem_offset(tmem + Tile::accumulator_column(turn), warp_row, 0);
    set.wait(Tile::accumulator_full(turn), turn / 2 % 2);
    set.fence_after_thread_sync();
#pragma unroll 1
    for (int i = 0; i < Tile::chunks; ++i) {
      // First the columns that both accumulators share: the last ones of the first accumulator, the first
      // ones of the second.
      const int column = Tile::chunk * (turn % 2 == 0 ? Tile::chunks - 1 - i : i);
      u32 sums[Tile::chunk];
      set.ld(sums, d + static_cast<u32>(column));
      set.wait_ld(sums);
      if (i + 1 == Tile::release_chunks) {
        set.fence_before_thread_sync();
        set.arrive_at_leader(Tile::accumulator_free(turn + Tile::lead));
      }
      if (p.by_boxes)
        by_tma.put(set, p, factors.of_all, row + warp_row, walk.col(), column, i, sums);
      else
        store_chunk(p, factors, row + thread, walk.col() + column, sums);
    }
  }
  if (p.by_boxes) set.template wait_stores<0>();  // TMA reads shared memory, so the CTA must not end before
}

}  // namespace FOURSCALE_NAMESPACE::mma::tcgen05
