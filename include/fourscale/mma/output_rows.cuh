// SPDX-License-Identifier: Apache-2.0
// The epilogue of a warp of a Hopper GEMM: from accumulators to rows of D, under one factor for all outputs.
// 16-bit outputs go by TMA, which goes on while the warp works on its next tile. FP32 outputs, to which D may
// be added, go half by TMA, which loads D while the tile is multiplied, and half from the registers of each
// lane; from registers alone where TMA cannot write D. All other cases go by output_strip.cuh.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "../ptx/elect.cuh"
#include "../ptx/ldmatrix.cuh"
#include "../ptx/mbarrier.cuh"
#include "../ptx/tma_box.hpp"
#include "output_strip.cuh"

namespace FOURSCALE_NAMESPACE::mma {

/// Shared memory that a CTA may have on Hopper.
inline constexpr int hopper_shared_bytes = 227 << 10;

/// A box, what TMA copies at a time: 16 rows of 128 bytes, under the 128-byte swizzle.
inline constexpr int box_row_bytes = 128, box_bytes = output_rows * box_row_bytes;
template <class T>
inline constexpr int box_cols = box_row_bytes / static_cast<int>(sizeof(T));

/// How outputs are stored: by output_strip.cuh; in boxes by TMA, of FP32 one half; as pairs of FP32.
enum class output_way : u32 { strips, boxes, pairs };

/// The way for a D. `same`: one factor for all outputs. TMA writes multiples of 16 bytes, to rows that are
/// less than 2^40 bytes apart.
template <class T>
FOURSCALE_HD output_way way_of_outputs(matrix_view<T> const& d, float beta, bool same) {
  constexpr u64 bytes = sizeof(T);
  const u64 offsets = reinterpret_cast<u64>(d.data) | static_cast<u64>(d.ld) * bytes |
                      static_cast<u64>(d.cols) * bytes;  // divisible by what divides all three
  if (!same) return output_way::strips;
  const bool near = static_cast<u64>(d.ld) * bytes < u64{1} << 40;
  if ((bytes == 4 || beta == 0.0f) && offsets % 16 == 0 && near) return output_way::boxes;
  if (bytes == 4 && offsets % 8 == 0) return output_way::pairs;
  return output_way::strips;
}

/// How many boxes a warp has: for all of its 16-bit outputs, or for half of its FP32 outputs.
FOURSCALE_HD constexpr int output_boxes(int tile_cols) { return tile_cols / 64; }

/// Whether the columns of D are whole boxes. TMA then takes all boxes of a warp in one copy: each further
/// copy would cost the warp some 200 cycles of waiting.
template <class T>
FOURSCALE_HD bool has_whole_boxes(matrix_view<T> const& d) {
  return d.cols % box_cols<T> == 0;
}
/// D as a tensor for TMA: {columns of a box, rows, boxes in a row} or, if the last box of a row is ragged,
/// {columns, rows, 1}.
template <class T>
FOURSCALE_HD ptx::tma_tensor tensor_of_outputs(matrix_view<T> const& d, int tile_cols) {
  const bool whole = has_whole_boxes(d);
  const u64 cols = static_cast<u64>(d.cols), width = static_cast<u64>(box_cols<T>);
  return {{whole ? width : cols, static_cast<u64>(d.rows), whole ? cols / width : 1},
          {static_cast<u64>(d.ld) * sizeof(T), box_row_bytes},
          {static_cast<u32>(width), output_rows, whole ? static_cast<u32>(output_boxes(tile_cols)) : 1},
          true};
}

/// A warp's memory for outputs: boxes or a strip, which may overlap.
struct warp_output_memory {
  static constexpr bool has_more = false;
  u8 (*boxes)[box_bytes];
  output_strip& strip;

  FOURSCALE_D u8* box(int i) const { return boxes[i]; }
};
/// The same with more boxes, so that all FP32 outputs go by TMA.
template <int Boxes>
struct wide_output_memory {
  static constexpr bool has_more = true;
  u8 (*boxes)[box_bytes];
  output_strip& strip;
  u8 (*more)[box_bytes];

  FOURSCALE_D u8* box(int i) const { return i < Boxes ? boxes[i] : more[i - Boxes]; }
};

/// The memory for outputs of all warps of a CTA. They all have the same way, so the boxes of one warp may
/// overlap the strip of another.
template <int Cols, int Warps>
union output_memory {
  static_assert(Cols % 64 == 0);
  alignas(1024) u8 boxes[Warps][output_boxes(Cols)][box_bytes];
  output_strip strips[Warps];

  FOURSCALE_D warp_output_memory operator[](int warp) { return {boxes[warp], strips[warp]}; }
};

/// The first row and column of a warp's outputs.
struct output_place {
  i32 row, col;
};
/// How outputs are stored, and the factor of all of them, unless they go by strips.
struct alignas(8) output_how {
  output_way way;
  float factor;
};

/// How a warp stores its outputs. It lies in shared memory: it is found once, and would take registers and
/// time in the inner loop. A whole warp calls its functions.
template <int Cols>
struct output_rows_of_warp {
  static constexpr int count = output_boxes(Cols);
  output_how found;
  u32 asked;  ///< twice the tiles for which D was asked for, plus 1 until the last of them is stored

  /// Once, before the first tile. P: .d, .factor_of, .beta.
  template <class P>
  FOURSCALE_D void prepare(P const& p) {
    if (threadIdx.x % 32 == 0) {
      found = {way_of_outputs(p.d, p.beta, p.factor_of.same_for_all()), output_store(p).of_all};
      asked = 0;
    }
    __syncwarp();
  }
  FOURSCALE_D output_how how() const {
    const uint2 x = ptx::load_shared_u32x2(ptx::shared_address(&found));
    return {static_cast<output_way>(x.x), bit_cast<float>(x.y)};
  }
  /// If FP32 outputs are added to D by boxes: starts the TMA copy of D from `place` on to the boxes.
  /// Called some time before store() of the tile, or else by store(); once a tile, further calls do nothing.
  /// `there`: a barrier of this warp's own, of one arrival.
  template <class P, class Memory>
  FOURSCALE_D void ask(P const& p, Memory const& m, std::uint64_t* there, output_place place) {
    using T = typename decltype(p.d)::value_type;
    if constexpr (sizeof(T) == 4) {
      if (threadIdx.x % 32 == 0 && found.way == output_way::boxes && p.beta != 0.0f && asked % 2 == 0) {
        cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>{});
        cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                             cuda::ptx::space_shared, there,
                                             (Memory::has_more ? 2 : 1) * count * box_bytes);
        copy_boxes(p.d, m, place, [&](u8* box, i32 const(&at)[3]) {
          cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, box, &p.map_d,
                                          at, there);
        });
        asked += 3;
      }
    }
  }

  /// Stores the warp's 16 x Cols outputs to D from `at` on. The order of `sums` is that of output_store.
  /// P: .map_d, too. Boxes are clipped at the end of map_d's D, not of p.d. `how`: from how(). `again`: finds
  /// `at` once more, for ways that are short of registers. If these used `at`, the compiler would spill it
  /// ahead of all ways, and 16-bit outputs would wait for local memory while the tensor cores are idle.
  template <class P, class Memory, class Again>
  FOURSCALE_D void store(P const& p, Memory const& m, std::uint64_t* there, output_how how, output_place at,
                         Again const& again, float const (&sums)[Cols / 2]) {
    using T = typename decltype(p.d)::value_type;
    if constexpr (sizeof(T) == 2) {
      finish();
      if (how.way == output_way::boxes) {
        store_boxes(p, m, how.factor, at, sums);
        return;
      }
    } else if (how.way != output_way::strips) {
      const pairs_of_lane pairs(p.d, at.row, at.col);
      const bool in_boxes = how.way == output_way::boxes;
      if (p.beta != 0.0f)
        store_fp32<true>(p, m, there, how.factor, at, pairs, in_boxes, sums);
      else
        store_fp32<false>(p, m, there, how.factor, at, pairs, in_boxes, sums);
      return;
    }
    const output_place place = again();
    if constexpr (sizeof(T) == 2)
      output_store(p).template outputs<Cols>(p, place.row, place.col, sums, m.strip);
    else
      output_store(p).template by_strips<Cols>(p, place.row, place.col, sums, m.strip);
  }
  /// In place of store(): if D was asked for, waits until it is there, and leaves it alone.
  FOURSCALE_D void leave_alone(std::uint64_t* there) {
    const u32 before = asked;
    __syncwarp();
    if (before % 2 == 0) return;
    ptx::mbarrier_wait(ptx::shared_address(there), before / 2 - 1 & 1);
    if (threadIdx.x % 32 == 0) asked &= ~1u;
    __syncwarp();
  }
  /// Waits until TMA has read the boxes that it stores: they may then be overwritten.
  FOURSCALE_D static void finish() {
    cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>{});
    __syncwarp();
  }

 private:
  /// 16-bit outputs by boxes. In a box, 16-byte chunk c of row r is at 128 r + 16 (c ^ r % 8), swizzled.
  template <class P, class Memory>
  FOURSCALE_D void store_boxes(P const& p, Memory const& m, float factor, output_place place,
                               float const (&sums)[Cols / 2]) {
    using T = typename decltype(p.d)::value_type;
    const u32 lane = threadIdx.x % 32;
    const u32 at = ptx::shared_address(m.boxes) + lane % 16 * 128 + 16 * (lane / 16 ^ lane % 8);
    FOURSCALE_UNROLL
    for (u32 i = 0; i < Cols / 16; ++i) {
      float const* const x = sums + 8 * i;
      u32 words[4];
      FOURSCALE_UNROLL
      for (int k = 0; k < 4; ++k) words[k] = gemm_output_pair<T>(factor, x[2 * k + 1], x[2 * k]);
      ptx::stmatrix_m8n8_x4_b16((at ^ 32 * (i % 4)) + i / 4 * box_bytes, words);
    }
    send_boxes<false>(p, m, place);
  }
  /// Calls copy(box, coordinates) for each TMA copy of the boxes from `place` on: see tensor_of_outputs().
  template <class T, class Memory, class Copy>
  FOURSCALE_D static void copy_boxes(matrix_view<T> const& d, Memory const& m, output_place place,
                                     Copy const& copy) {
    constexpr bool twice = Memory::has_more && sizeof(T) == 4;
    if (has_whole_boxes(d)) {
      copy(m.boxes[0], {0, place.row, place.col / box_cols<T>});
      if constexpr (twice) copy(m.more[0], {0, place.row, place.col / box_cols<T> + count});
    } else {
#pragma unroll 1
      for (int i = 0; i < (twice ? 2 : 1) * count; ++i)
        copy(m.box(i), {place.col + i * box_cols<T>, place.row, 0});
    }
  }
  /// Starts the copy from the boxes to D, which goes on while the warp works. `Adds`: by lane 0, in which
  /// ask() waits until the copy has read the boxes. The compiler does not know that this is a single lane,
  /// and looks for lanes with other values.
  template <bool Adds, class P, class Memory>
  FOURSCALE_D void send_boxes(P const& p, Memory const& m, output_place place) {
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncwarp();
    if (Adds ? threadIdx.x % 32 == 0 : ptx::elect_sync()) {
      copy_boxes(p.d, m, place, [&](u8* box, i32 const(&at)[3]) {
        cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_global, cuda::ptx::space_shared, &p.map_d, at, box);
      });
      cuda::ptx::cp_async_bulk_commit_group();
    }
  }

  using pairs_of_lane = detail::pairs_of_lane<Cols>;

  /// Stores FP32 outputs. With `in_boxes` the first half of the columns goes by TMA, or all columns if memory
  /// has room for them. The others go as pairs: their D is loaded as soon as there are registers for it.
  template <bool Adds, class P, class Memory>
  FOURSCALE_D void store_fp32(P const& p, Memory const& m, std::uint64_t* there, float by, output_place place,
                              pairs_of_lane const& pairs, bool in_boxes, float const (&sums)[Cols / 2]) {
    constexpr int each = Cols / 32;  // pairs of an eighth
    const float beta = p.beta;
    float2 old[8][each];
    const auto load = [&](int eighth) {
      if constexpr (Adds) {
        FOURSCALE_UNROLL
        for (int i = 0; i < each; ++i) {
          const int pair = eighth * each + i;
          old[eighth][i] = pairs.has(pair) ? pairs.at(pair) : float2{};
        }
      }
    };
    const auto store_eighth = [&](int eighth) {
      FOURSCALE_UNROLL
      for (int i = 0; i < each; ++i) {
        const int pair = eighth * each + i;
        if (pairs.has(pair))
          pairs.at(pair) = detail::output_pair<Adds>(by, beta, old[eighth][i], sums + 2 * pair);
      }
    };
    if (in_boxes) {
      if constexpr (Memory::has_more) {
        add_in_boxes<Adds>(p, m, there, by, place, sums);
        return;
      }
      load(4);
      add_in_boxes<Adds>(p, m, there, by, place, sums);
    } else {
      FOURSCALE_UNROLL
      for (int eighth = 0; eighth < 4; ++eighth) load(eighth), store_eighth(eighth);
      load(4);
    }
    load(5), load(6), load(7);
    FOURSCALE_UNROLL
    for (int eighth = 4; eighth < 8; ++eighth) store_eighth(eighth);
  }
  /// Puts the outputs of the columns in boxes there, in place of D if it is added, and sends the boxes.
  template <bool Adds, class P, class Memory>
  FOURSCALE_D void add_in_boxes(P const& p, Memory const& m, std::uint64_t* there, float by,
                                output_place place, float const (&sums)[Cols / 2]) {
    const u32 lane = threadIdx.x % 32, r = lane / 4;
    const float beta = p.beta;
    if constexpr (Adds) {
      ask(p, m, there, place);
      __syncwarp();
      ptx::mbarrier_wait(ptx::shared_address(there), asked / 2 - 1 & 1);
    } else {
      finish();
    }
    // Pairs of both rows of the lane, eight columns after eight; several at a time where registers suffice.
    constexpr u32 pairs = Memory::has_more ? Cols / 4 : Cols / 8, at_once = Memory::has_more ? 8 : 1;
    const auto pair = [&](u32 i) -> float2& {
      const u32 chunk = i / 2 % 4 * 2 + lane % 4 / 2;
      return *reinterpret_cast<float2*>(m.box(static_cast<int>(i / 8)) + (r + i % 2 * 8) * box_row_bytes +
                                        (chunk ^ r) * 16 + lane % 2 * 8);
    };
    FOURSCALE_UNROLL
    for (u32 first = 0; first < pairs; first += at_once) {
      float2 old[at_once] = {};
      if constexpr (Adds) {
        FOURSCALE_UNROLL
        for (u32 k = 0; k < at_once; ++k) old[k] = pair(first + k);
      }
      FOURSCALE_UNROLL
      for (u32 k = 0; k < at_once; ++k)
        pair(first + k) = detail::output_pair<Adds>(by, beta, old[k], sums + 2 * (first + k));
    }
    send_boxes<Adds>(p, m, place);
    if (lane == 0) asked &= ~1u;
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma
