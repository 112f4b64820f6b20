// SPDX-License-Identifier: Apache-2.0
// Which sums of a tile are exact: the role `certify` of the GEMM by wgmma. It compares the bounds of rows
// with those of columns, as docs/exact_gemm.md derives them: for whole tiles first, 32 steps at a time; where
// that is not enough, the largest magnitudes, of a tile and then of 8 rows by 8 columns.
#pragma once

#include "../ptx/cvt.hpp"
#include "../ptx/mma_sync_f16.cuh"
#include "wgmma_tile.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

FOURSCALE_D inline u32 word_of(uint4 const& x, int i) {
  return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}
/// The lower two of four magnitudes as halves, or the upper ones.
FOURSCALE_D inline u32 magnitude_pair(u32 codes, int pair) {
  return ptx::cvt_rn_f16x2_e4m3x2(static_cast<u16>(codes >> (16 * pair)));
}
/// The bits of all lanes of each four.
FOURSCALE_D inline u32 all_of_four(u32 bits) {
  bits |= __shfl_xor_sync(~0u, bits, 1);
  return bits | __shfl_xor_sync(~0u, bits, 2);
}
/// Of the words of the eight lanes with the same t, the largest of each byte: one word, which the bits 2 and
/// 3 of the lane number tell.
FOURSCALE_D inline u32 largest_of_lanes(u32 lane, u32 const (&words)[4]) {
  const auto exchange = [&](u32 low, u32 high, u32 bit) {
    const bool upper = (lane & bit) != 0;
    return largest_bytes<2>(
        {upper ? high : low, __shfl_xor_sync(~0u, upper ? low : high, static_cast<int>(bit))});
  };
  const u32 word = exchange(exchange(words[0], words[2], 4), exchange(words[1], words[3], 4), 8);
  return largest_bytes<2>({word, __shfl_xor_sync(~0u, word, 16)});
}

/// Lanes 4 g to 4 g + 3 certify a step for strip g, its columns in eights, from `row` and `col` on: the first
/// of eight rows each, in eights.
template <int Cols>
struct certify_lane {
  static constexpr int eights = tile<Cols>::col_groups / 8;
  static constexpr u32 most_misses = 16;
  u32 g, t, row, col;

  /// Which sums are exact: sums over places of products of magnitudes, by mma.sync. It has the upper eight
  /// rows of strip g as row g and the lower ones as g + 8; as column n the columns 4 (n % 2) + n / 2 of
  /// eight, so that its columns 2 t and 2 t + 1 are t and t + 4. The order of places is its own.
  ///
  /// `misses`: how often in a row the tile as a whole was asked in vain. From `most_misses` on, only every
  /// 16th step is asked.
  FOURSCALE_D u32 exact(decoded_operand const& a, decoded_operand const& b, u32 step, u32& misses) const {
    constexpr u32 each = sizeof(fourscale::model::step_magnitudes) / sizeof(uint4);
    const u32 rows_a = decoded_operand::groups_of(static_cast<u32>(a.rows)),
              rows_b = decoded_operand::groups_of(static_cast<u32>(b.rows));
    uint4 upper{}, lower{}, right[eights]{};
    if (row + 2 * g < rows_a) {  // so are the next eight: there are eights of them
      auto const* const from =
          reinterpret_cast<uint4 const*>(a.magnitudes) + u64{step * rows_a + row + 2 * g} * each + t;
      upper = __ldcg(from), lower = __ldcg(from + each);
    }
    FOURSCALE_UNROLL
    for (int i = 0; i < eights; ++i) {
      const u32 c = col + g % 2 * 4 + g / 2 + 8 * static_cast<u32>(i);
      if (c < rows_b)
        right[i] = __ldcg(reinterpret_cast<uint4 const*>(b.magnitudes) + u64{step * rows_b + c} * each + t);
    }
    if (misses < most_misses || step % 16 == 0) {
      misses = tile_is_exact(upper, lower, right) ? 0 : misses + 1;
      if (misses == 0) return tile<Cols>::all_cols;
    }
    float sums[eights][4]{};
    FOURSCALE_UNROLL
    for (int word = 0; word < 4; ++word) {
      const u32 x = word_of(upper, word), y = word_of(lower, word);
      u32 const pairs[4] = {magnitude_pair(x, 0), magnitude_pair(y, 0), magnitude_pair(x, 1),
                            magnitude_pair(y, 1)};
      FOURSCALE_UNROLL
      for (int i = 0; i < eights; ++i) {
        const u32 z = word_of(right[i], word);
        ptx::mma_sync_m16n8k16_f16(sums[i], pairs, magnitude_pair(z, 0), magnitude_pair(z, 1));
      }
    }
    constexpr float largest = fourscale::model::largest_exact_sum;
    u32 bits = 0;
    FOURSCALE_UNROLL
    for (int i = 0; i < 2 * eights; ++i)
      if (sums[i / 2][i % 2] < largest && sums[i / 2][2 + i % 2] < largest) bits |= 1u << (4 * i);
    return all_of_four(bits << t);
  }

  /// Where the adder drops nothing.
  FOURSCALE_D u32 kept(decoded_operand const& a, decoded_operand const& b, u32 step) const {
    const u32 rows_a = decoded_operand::groups_of(static_cast<u32>(a.rows)),
              rows_b = decoded_operand::groups_of(static_cast<u32>(b.rows));
    fourscale::model::step_bounds rows;
    if (row + 2 * g < rows_a) {
      auto const* const at = a.bounds + a.bounds_at(row + 2 * g, step);
      rows = at[0];
      rows.add(at[1]);
    }
    auto const* const cols = b.bounds + b.bounds_at(col + t, step);
    const u32 next_eight = static_cast<u32>(b.steps) * bounds_chunk;
    u32 bits = 0;
    FOURSCALE_UNROLL
    for (u32 i = 0; i < 2 * eights; ++i)
      if (col + t + 4 * i >= rows_b || nothing_is_dropped(rows, cols[i / 2 * next_eight + i % 2 * 4]))
        bits |= 1u << (4 * i);
    return all_of_four(bits << t);
  }

  /// Where scales drop nothing. The depths of rows and of columns are left at these places, eight at a time:
  /// with an accumulator at hand they tell whether the adder drops anything of that output.
  FOURSCALE_D u32 limited(decoded_operand const& a, decoded_operand const& b, u32 step, u8* of_rows,
                          u8* of_cols) const {
    constexpr u32 rows = tile_rows / bounds_rows, both = rows + tile<Cols>::col_groups;
    static_assert(rows % 4 == 0 && rows <= 32 && both <= 64);
    const u32 lane = 4 * g + t;
    u32 spans[2];
    FOURSCALE_UNROLL
    for (u32 k = 0; k < 2; ++k) {
      const u32 i = 32 * k + lane;
      const bool of_a = i < rows;
      decoded_operand const& x = of_a ? a : b;
      const u32 groups = decoded_operand::groups_of(static_cast<u32>(x.rows)),
                group = of_a ? row + i : col + i - rows;
      uint4 eight{};
      if (i < both && group < groups)
        eight = __ldcg(reinterpret_cast<uint4 const*>(x.of_accumulators) + u64{step} * groups + group);
      if (i < both)
        *reinterpret_cast<uint2*>(of_a ? of_rows + i * bounds_rows : of_cols + (i - rows) * bounds_rows) = {
            eight.x, eight.y};
      spans[k] = eight.z & 0xffu;
    }
    const u32 strip = max(__shfl_sync(~0u, spans[0], static_cast<int>(2 * g)),
                          __shfl_sync(~0u, spans[0], static_cast<int>(2 * g + 1)));
    u32 bits = 0;
    FOURSCALE_UNROLL
    for (u32 i = 0; i < 2 * eights; ++i) {
      const u32 first = rows + 4 * i,
                span = __shfl_sync(~0u, spans[first / 32], static_cast<int>(first % 32 + t));
      if (strip + span <= 35) bits |= 1u << (4 * i);
    }
    return all_of_four(bits << t);
  }

 private:
  /// The same for the largest magnitudes of all rows and of all columns: asked first, since mma.sync waits
  /// long where wgmma keeps tensor cores busy.
  FOURSCALE_D bool tile_is_exact(uint4 const& upper, uint4 const& lower, uint4 const (&right)[eights]) const {
    u32 rows[4], cols[4];
    FOURSCALE_UNROLL
    for (int word = 0; word < 4; ++word) {
      rows[word] = largest_bytes<2>({word_of(upper, word), word_of(lower, word)});
      u32 of_eights[eights];
      FOURSCALE_UNROLL
      for (int i = 0; i < eights; ++i) of_eights[i] = word_of(right[i], word);
      cols[word] = largest_bytes(of_eights);
    }
    const u32 lane = 4 * g + t, x = largest_of_lanes(lane, rows), y = largest_of_lanes(lane, cols);
    float of_x[4], of_y[4], sum = 0.0f;
    decode(packed<e4m3, 4>{x}, of_x);
    decode(packed<e4m3, 4>{y}, of_y);
    FOURSCALE_UNROLL
    for (int i = 0; i < 4; ++i) sum += of_x[i] * of_y[i];
    FOURSCALE_UNROLL
    for (int bit = 1; bit <= 8; bit *= 2) sum += __shfl_xor_sync(~0u, sum, bit);
    return sum < fourscale::model::largest_exact_sum;
  }
};

/// The largest bounds that `Groups` times eight rows from `first` on have in a step.
template <int Groups>
FOURSCALE_D fourscale::model::step_bounds largest_bounds(decoded_operand const& x, i64 first, i64 step) {
  static_assert(Groups % bounds_chunk == 0 && sizeof(fourscale::model::step_bounds) * bounds_chunk == 16);
  auto const* const from = reinterpret_cast<uint4 const*>(x.bounds + x.bounds_at(first, step));
  uint4 chunks[Groups / bounds_chunk]{};
  FOURSCALE_UNROLL
  for (int i = 0; i < Groups / bounds_chunk; ++i)
    if (first + i * bounds_chunk < x.row_groups()) chunks[i] = from[i * x.steps];
  u32 most = 0;
  FOURSCALE_UNROLL
  for (uint4 const& x4 : chunks) most = __vmaxu4(most, __vmaxu4(__vmaxu4(x4.x, x4.y), __vmaxu4(x4.z, x4.w)));
  most = __vmaxu4(most, most >> 16);
  return {static_cast<u8>(most), static_cast<u8>(most >> 8)};
}

/// In all lanes; a lane takes a step. Steps behind K are of zeros.
template <int Cols, class P>
FOURSCALE_D window_words certify_window(P const& p, i64 first_row, i64 first_col, i64 first_step) {
  const i64 step = first_step + threadIdx.x % 32;
  bool exact = true, kept = true;
  if (step < p.a.steps) {
    const auto rows = largest_bounds<tile_rows / bounds_rows>(p.a, first_row / bounds_rows, step),
               cols = largest_bounds<tile<Cols>::col_groups>(p.b, first_col / bounds_rows, step);
    exact = sums_are_exact(rows, cols);
    kept = nothing_is_dropped(rows, cols);
  }
  return {__ballot_sync(~0u, exact && kept), __ballot_sync(~0u, kept)};
}

/// One warp of certify_warps, which take the runs that no window certifies in turns. The first one finds the
/// words of windows for all: loads from so many places take turns with what wgmma reads.
template <class P, int Cols>
FOURSCALE_D void certify(P const& p, shared_memory<Cols>& m, u32 warp) {
  constexpr u32 all_cols = tile<Cols>::all_cols;
  static_assert(run_steps * strips == 32 && run_steps * multiply_groups <= 32, "A lane fills in each.");
  u32 lane = threadIdx.x % 32;
  for (u32* x : {&lane, &warp})
    ptx::keep(*x);  // else other roles would hold, or spill, what is the same there
  auto& walk = m.walks[1 + warp];
  u32 all = 0, turn = warp,
      windows = 0;  // runs that no window certifies, those before the warp's next; windows
  window_words window;
  u32 misses = 0;
  while (walk.more()) {
    const int row = walk.row, col = walk.col, first = walk.first, runs = walk.runs;
    certify_lane<Cols> const at{lane / 4, lane % 4, static_cast<u32>(row / bounds_rows),
                                static_cast<u32>(col / bounds_rows)};
    for (int run = 0; run < runs; ++run, window.next_run()) {
      const int first_step = (first + run) * run_steps;
      if (run % window_runs == 0) {
        std::uint64_t* const filled = m.window_filled + (windows & 1);
        std::uint64_t* const read = m.window_read + (windows & 1);
        if (warp == 0) {
          window = certify_window<Cols>(p, row, col, first_step);
          wait(read, windows >> 1 & 1 ^ 1);  // the first time around, at once
          if (lane == 0) {
            m.window[windows & 1] = window;
            cuda::ptx::mbarrier_arrive(filled);
          }
        } else {
          wait(filled, windows >> 1 & 1);
          window = m.window[windows & 1];
          __syncwarp();  // all lanes have read
          if (lane == 0) cuda::ptx::mbarrier_arrive(read);
        }
        ++windows;
      }
      if ((window.hold & whole_run) == whole_run) continue;
      const u32 number = all++, slot = number % certified_runs;
      if (number != turn) continue;
      turn += certify_warps;
      wait(m.used + slot, number / certified_runs & 1 ^ 1);  // the first time around, it passes at once
      (&m.of_rows[slot][0][0])[lane] = {all_cols, all_cols};
      if (lane < run_steps * multiply_groups) (&m.fast[slot][0][0])[lane] = 1;
      __syncwarp();
#pragma unroll 1
      for (u32 left = ~window.hold & whole_run; left != 0; left &= left - 1) {
        const u32 i = static_cast<u32>(__ffs(static_cast<int>(left))) - 1,
                  step = static_cast<u32>(first_step) + i;
        certificates c{at.exact(p.a, p.b, step, misses), all_cols};
        if ((window.kept >> i & 1) == 0) {
          c.kept = at.kept(p.a, p.b, step);
          const u32 limited =
              at.limited(p.a, p.b, step, m.depths_of_rows[slot][i], m.depths_of_cols[slot][i]);
          if (at.t == 0) m.limited[slot][i][at.g] = limited;
        }
        const u32 not_fast = __ballot_sync(~0u, (c.exact & c.kept) != all_cols);
        if (at.t == 0) m.of_rows[slot][i][at.g] = c;
        if (lane < multiply_groups) m.fast[slot][lane][i] = (not_fast >> (16 * lane) & 0xffff) == 0;
      }
      __syncwarp();
      if (lane == 0) cuda::ptx::mbarrier_arrive(m.certified + slot);
    }
    __syncwarp();
    if (lane == 0) walk.next();
    __syncwarp();
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
