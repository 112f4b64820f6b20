// SPDX-License-Identifier: Apache-2.0
// The role `certify` of the GEMM by wgmma (wgmma_roles.cuh): three warps prove for those that multiply which
// sums of a tile are exact, and of which outputs the adder drops nothing. First they compare the largest
// bounds of a tile's rows and columns, 32 steps (a window) at a time. Where that is not enough, they look at
// runs of four steps: at the largest magnitudes of 8 rows by 8 columns, or at what a kernel before the GEMM
// has found from these (certified_strips.cuh). docs/exact_gemm.md derives the bounds.
#pragma once

#include "../ptx/cp_async.cuh"
#include "../ptx/mma_sync_f16.cuh"
#include "wgmma_groups.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

FOURSCALE_D inline u32 word_of(uint4 const& x, int i) {
  return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}
/// The first step among these bits; ~0 if none is set.
FOURSCALE_D inline u32 first_of(u32 steps) { return static_cast<u32>(__ffs(static_cast<int>(steps))) - 1; }
/// Bit 0 and bit 1: the sum of `span` and the span in each half of `two` is so small that nothing is dropped.
FOURSCALE_D inline u32 spans_drop_nothing(u32 two, u32 span) {
  using fourscale::model::scales_drop_nothing, fourscale::model::nothing_is_dropped;
  constexpr fourscale::model::step_bounds none, most{0, 35}, more{0, 36};
  static_assert(scales_drop_nothing(35) && !scales_drop_nothing(36));
  static_assert(nothing_is_dropped(most, none) && !nothing_is_dropped(more, none));
  const u32 left = 0x8023'8023u - (two + span * 0x1'0001u);  // bits 15 and 31: a sum of at most 35
  return (left >> 15 & 1) | (left >> 30 & 2);
}

/// What a warp asks of a run of four steps of a tile that its window does not certify. While wgmma is busy, a
/// load from L2 takes some 2000 cycles, more than all else here. So magnitudes are loaded a step ahead, and
/// what the adder may drop is loaded at once for all steps.
template <int Cols>
struct run_to_certify {
  static constexpr u32 of_rows = tile_rows / bounds_rows, of_cols = tile<Cols>::col_groups,
                       eights = of_cols / 8;
  static constexpr u32 all_cols = tile<Cols>::all_cols;
  using step_magnitudes = fourscale::model::step_magnitudes;
  decoded_operand const &a, &b;
  u32 row, col, step;  ///< the tile's first group of eight rows, of eight columns, and the run's first step

  FOURSCALE_D static u32 groups_of(decoded_operand const& x) {
    return decoded_operand::groups_of(static_cast<u32>(x.rows));
  }

  /// Of strip `lane % 8` in step `lane / 8`. A bit is a group of columns: with `kept` the adder drops
  /// nothing; with `limited` scales drop nothing, though accumulators may. `limit`: the least limit of the
  /// strip's accumulators, from the largest depths of its rows and of the tile's columns.
  struct dropped {
    u32 kept = all_cols, limited = 0;
    float limit = 0.0f;
  };
  FOURSCALE_D dropped nothing_dropped() const {
    constexpr u32 lower = 0xff'00ffu;
    const u32 lane = threadIdx.x % 32, at = step + lane / 8, of_strip = row + 2 * (lane % 8);
    dropped x;
    if (at >= static_cast<u32>(a.steps)) return x;
    u32 two = 0, two_of_accumulators = 0, deepest = 0;  // all loads are in flight at once
    uint4 bounds[eights]{}, accumulators[eights]{};
    if (of_strip < groups_of(a)) {
      const i64 first = a.bounds_at(of_strip, at);
      two = __ldcg(reinterpret_cast<u32 const*>(a.bounds + first));
      two_of_accumulators = __ldcg(reinterpret_cast<u32 const*>(a.of_accumulators + first));
    }
    FOURSCALE_UNROLL
    for (u32 i = 0; i < eights; ++i) {
      if (col + 8 * i >= groups_of(b)) continue;  // groups_of() is a multiple of eight
      const i64 first = b.bounds_at(col + 8 * i, at);
      bounds[i] = __ldcg(reinterpret_cast<uint4 const*>(b.bounds + first));
      accumulators[i] = __ldcg(reinterpret_cast<uint4 const*>(b.of_accumulators + first));
    }
    const u32 span = max(two >> 8 & 0xff, two >> 24),
              of_accumulators = max(two_of_accumulators & 0xff, two_of_accumulators >> 16 & 0xff),
              row_depth = max(two_of_accumulators >> 8 & 0xff, two_of_accumulators >> 24);
    FOURSCALE_UNROLL
    for (u32 i = 0; i < eights; ++i) {
      if (col + 8 * i >= groups_of(b)) continue;
      u32 kept = 0, limited = 0;
      FOURSCALE_UNROLL
      for (int k = 0; k < 4; ++k) {
        kept |= spans_drop_nothing(word_of(bounds[i], k) >> 8 & lower, span) << (2 * k);
        limited |= spans_drop_nothing(word_of(accumulators[i], k) & lower, of_accumulators) << (2 * k);
        deepest = __vmaxu2(deepest, word_of(accumulators[i], k));  // the upper byte decides
      }
      x.kept &= ~(0xffu << (8 * i)) | kept << (8 * i);
      x.limited |= limited << (8 * i);
    }
    x.limit = fourscale::model::accumulator_limit(row_depth + (max(deepest & 0xffffu, deepest >> 16) >> 8));
    return x;
  }

  /// Starts to copy depths, from which each output has the limit of its accumulator: [step][row],
  /// [step][column].
  FOURSCALE_D void copy_depths(u8* to_rows, u8* to_cols) const {
    copy_depths<of_rows>(a, row, to_rows), copy_depths<of_cols>(b, col, to_cols);
  }

  /// Starts to copy magnitudes and bounds of step i of the run to shared memory; zeros outside the matrices.
  FOURSCALE_D void ask(u32 i, magnitudes_of_step<Cols>& to) const {
    copy<of_rows>(a, row, i, to.of), copy<of_cols>(b, col, i, to.of + of_rows);
    copy_bounds(i, to.bounds);
    ptx::cp_async_commit_group();
  }
  /// A lane's fragments of these: of the upper and the lower eight rows of strip `lane / 4`, and of columns.
  /// Of widths, which are in every second byte: those of the upper and the lower rows, and of two of the
  /// lane's groups of columns for each eight.
  struct places {
    uint4 upper, lower, right[eights];
    u32 of_rows, of_cols[eights];
  };
  /// Row g of mma.sync stands for the upper eight rows of strip g, row g + 8 for the lower eight, and column
  /// n for group_of_column(n). The order of places along K is as it comes, the same for both operands.
  FOURSCALE_D static places load(magnitudes_of_step<Cols> const& from) {
    const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    auto const* const of = reinterpret_cast<uint4 const(*)[4]>(from.of);
    auto const* const bounds = reinterpret_cast<u32 const*>(from.bounds);  // of two groups
    places x{of[2 * g][t], of[2 * g + 1][t], {}, bounds[g], {}};
    FOURSCALE_UNROLL
    for (u32 i = 0; i < eights; ++i) {
      x.right[i] = of[of_rows + group_of_column(g) + 8 * i][t];
      x.of_cols[i] = bounds[of_rows / 2 + 4 * i + t / 2] >> 16 * (t % 2) & 0xff;
      x.of_cols[i] |= (bounds[of_rows / 2 + 4 * i + 2 + t / 2] >> 16 * (t % 2) & 0xff) << 16;
    }
    return x;
  }
  /// The groups of columns whose sums with strip `lane / 4` are exact: mma.sync adds up products of
  /// magnitudes.
  FOURSCALE_D static u32 exact(places const& of) {
    using fourscale::model::magnitude_exponent, fourscale::model::exact_below;
    i32 sums[eights][4]{};
    FOURSCALE_UNROLL
    for (int word = 0; word < 4; word += 2) {
      u32 const rows[4] = {word_of(of.upper, word), word_of(of.lower, word), word_of(of.upper, word + 1),
                           word_of(of.lower, word + 1)};
      FOURSCALE_UNROLL
      for (u32 i = 0; i < eights; ++i)
        ptx::mma_sync_m16n8k32_u8(sums[i], rows, word_of(of.right[i], word), word_of(of.right[i], word + 1));
    }
    const u32 first = threadIdx.x % 32 / 4 * 4, upper = exact_below(magnitude_exponent(of.of_rows & 0xff), 0),
              lower = exact_below(magnitude_exponent(of.of_rows >> 16 & 0xff), 0);
    u32 bits = 0;
    FOURSCALE_UNROLL
    for (u32 k = 0; k < 2 * eights; ++k) {
      const u32 exponent = magnitude_exponent(of.of_cols[k / 2] >> 16 * (k % 2) & 0xff);
      const bool is_exact = static_cast<u32>(sums[k / 2][k % 2]) < upper >> exponent &&
                            static_cast<u32>(sums[k / 2][2 + k % 2]) < lower >> exponent;
      bits |= (__ballot_sync(~0u, is_exact) >> first & 15) << (4 * k);  // lane t has group t + 4 k
    }
    return bits;
  }

 private:
  template <u32 Groups>
  FOURSCALE_D void copy(decoded_operand const& x, u32 first, u32 i, step_magnitudes* to) const {
    constexpr u32 each = sizeof(step_magnitudes) / 16;
    u32 lane = threadIdx.x % 32;
    for (u32* in : {&lane, &first}) ptx::keep(*in);  // else values derived from them are held, and spilled
    const u32 groups = groups_of(x), left = each * (groups - min(first, groups));
    auto const* const from =
        reinterpret_cast<uint4 const*>(x.magnitudes + (u64{step + i} * groups + first)) + lane;
    const u32 at = ptx::shared_address(to) + 16 * lane;
    FOURSCALE_UNROLL
    for (u32 k = 0; k < each * Groups; k += 32)
      ptx::cp_async_cg_16(at + 16 * k, from + k, lane + k < left ? 16 : 0);
  }
  /// A lane copies 16 bytes: the bounds of eight groups of rows or of columns.
  FOURSCALE_D void copy_bounds(u32 i, fourscale::model::step_bounds* to) const {
    u32 lane = threadIdx.x % 32;
    ptx::keep(lane);
    if (lane >= of_rows / bounds_chunk + eights) return;
    const bool is_row = lane < of_rows / bounds_chunk;
    decoded_operand const& x = is_row ? a : b;
    const u32 first = is_row ? row + bounds_chunk * lane : col + bounds_chunk * lane - of_rows;
    ptx::cp_async_cg_16(ptx::shared_address(to) + 16 * lane, x.bounds + x.bounds_at(first, step + i),
                        first < groups_of(x) ? 16 : 0);
  }
  /// A lane copies 16 bytes at a time: the depths of two groups.
  template <u32 Groups>
  FOURSCALE_D void copy_depths(decoded_operand const& x, u32 first, u8* to) const {
    constexpr u32 pairs = Groups / 2;
    const u32 groups = groups_of(x);
    FOURSCALE_UNROLL
    for (u32 begin = 0; begin < run_steps * pairs; begin += 32) {
      const u32 i = begin + threadIdx.x % 32, at = step + i / pairs, group = first + i % pairs * 2;
      if (i < run_steps * pairs)
        ptx::cp_async_cg_16(ptx::shared_address(to) + 16 * i, x.depths + u64{at} * groups + group,
                            at < static_cast<u32>(x.steps) && group < groups ? 16 : 0);
    }
  }
};

/// Starts to copy the bounds of `Groups` groups of eight rows, from group `first` on, in a step. Each lane
/// has a step of its own. to[i][lane] are 16 bytes, those of eight groups.
template <int Groups>
FOURSCALE_D void copy_bounds_of_step(decoded_operand const& x, i64 first, i64 step, uint4 (*to)[32]) {
  static_assert(Groups % bounds_chunk == 0 && sizeof(fourscale::model::step_bounds) * bounds_chunk == 16);
  auto const* const from = reinterpret_cast<uint4 const*>(x.bounds + x.bounds_at(first, step));
  FOURSCALE_UNROLL
  for (int i = 0; i < Groups / bounds_chunk; ++i)
    ptx::cp_async_cg_16(ptx::shared_address(to[i] + threadIdx.x % 32), from + i * x.steps,
                        first + i * bounds_chunk < x.row_groups() ? 16 : 0);
}
/// The largest of the bounds that the lane has copied.
template <int Groups>
FOURSCALE_D fourscale::model::step_bounds largest_bounds_of_step(uint4 (*of)[32]) {
  u32 two[Groups / 2];
  FOURSCALE_UNROLL
  for (int i = 0; i < Groups / 2; ++i) two[i] = word_of(of[i / 4][threadIdx.x % 32], i % 4);
  return largest_bounds(two);
}

/// The words of a window, in all lanes; each lane finds a step. Steps behind K are of zeros. All bounds are
/// on their way at once, to shared memory: there are no registers for them. `Ahead`: strips are certified
/// ahead, and certify steps, too.
template <bool Ahead, int Cols, class P>
FOURSCALE_D window_words certify_window(P const& p, i64 first_row, i64 first_col, i64 first_step,
                                        magnitudes_of_step<Cols>& memory) {
  constexpr int row_groups = tile_rows / bounds_rows, col_groups = tile<Cols>::col_groups;
  auto* const of_rows = reinterpret_cast<uint4(*)[32]>(&memory);
  auto* const of_cols = of_rows + row_groups / bounds_chunk;
  static_assert(sizeof(memory) >= sizeof(*of_rows) * ((row_groups + col_groups) / bounds_chunk));
  const i64 step = first_step + threadIdx.x % 32;
  bool exact = true, kept = true;
  if (step < p.a.steps) {
    copy_bounds_of_step<row_groups>(p.a, first_row / bounds_rows, step, of_rows);
    copy_bounds_of_step<col_groups>(p.b, first_col / bounds_rows, step, of_cols);
    ptx::cp_async_wait_all();
    const auto rows = largest_bounds_of_step<row_groups>(of_rows),
               cols = largest_bounds_of_step<col_groups>(of_cols);
    exact = sums_are_exact(rows, cols);
    kept = nothing_is_dropped(rows, cols);
    if (Ahead && !exact && kept)
      exact = p.certified.template all_of_tile<Cols / 64>(
          static_cast<u32>(step), static_cast<u32>(first_row / 16), static_cast<u32>(first_col / 64));
  }
  __syncwarp();  // all lanes have read
  return {__ballot_sync(~0u, exact && kept), __ballot_sync(~0u, kept)};
}

/// Bits that were certified ahead of strip `lane % 8` in step `lane / 8` of a run; ones for steps not in
/// `left`, which the window certifies.
template <int Cols>
FOURSCALE_D u32 certified_ahead(certified_strips const& of, run_to_certify<Cols> const& asked, u32 left) {
  const u32 lane = threadIdx.x % 32, step = asked.step + lane / 8, strip = asked.row / 2 + lane % 8;
  const bool there =
      (left >> lane / 8 & 1) != 0 && step < static_cast<u32>(asked.a.steps) && strip < of.strips;
  return there ? of.of<Cols / 64>(step, strip, asked.col / 8) : tile<Cols>::all_cols;
}

/// Waits until all warps that multiply have used the certificates of run `number` - `before`.
template <int Cols>
FOURSCALE_D void wait_until_used(shared_memory<Cols>& m, u32 number, u32 before) {
  if (number < before) return;
  number -= before;
  wait(m.used + number % certified_runs, number / certified_runs & 1);
}

/// One warp of certify_warps, which take turns with the runs that no window certifies. The first one at a
/// window finds its words for all, as loads from so many places compete with what wgmma reads. `Ahead`:
/// strips are certified ahead; a function of its own, as registers are scarce.
template <bool Ahead, class P, template <int> class Memory, int Cols>
FOURSCALE_D void certify(P const& p, Memory<Cols>& m, u32 warp) {
  constexpr u32 all_cols = tile<Cols>::all_cols;
  static_assert(run_steps * strips == 32 && run_steps * multiply_groups <= 32, "A lane fills in each.");
  u32 lane = threadIdx.x % 32;
  for (u32* x : {&lane, &warp})
    ptx::keep(*x);  // else the other roles, which compute the same values, would hold or spill them
  auto& walk = m.walks[1 + warp];
  u32 all = 0, turn = warp,
      windows = 0;  // numbers of the next run that no window certifies, of the warp's next one, and window
  window_words window;
  auto& magnitudes = m.magnitudes[warp];
  while (walk.more()) {
    const int row = walk.row, col = walk.col, first = walk.first, runs = walk.runs;
    for (int run = 0; run < runs; ++run, window.next_run()) {
      const int first_step = (first + run) * run_steps;
      if (run % window_runs == 0) {
        std::uint64_t* const filled = m.window_filled + (windows & 1);
        std::uint64_t* const read = m.window_read + (windows & 1);
        u32 begun = 0;
        if (lane == 0) begun = atomicCAS(&m.windows_begun, windows, windows + 1);
        if (__shfl_sync(~0u, begun, 0) == windows) {
          window = certify_window<Ahead, Cols>(p, row, col, first_step, magnitudes);
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
      const run_to_certify<Cols> asked{p.a, p.b, static_cast<u32>(row / bounds_rows),
                                       static_cast<u32>(col / bounds_rows), static_cast<u32>(first_step)};
      u32 left = ~window.hold & whole_run, i = first_of(left);
      u32 of_strip = all_cols;
      if constexpr (Ahead)
        of_strip = certified_ahead(p.certified, asked, left);
      else
        asked.ask(i, magnitudes);
      typename run_to_certify<Cols>::dropped strip;
      const bool may_drop = (left & ~window.kept) != 0;
      wait_until_used(m, number, may_drop ? depth_runs : certified_runs);
      if (may_drop) {  // all loads are in flight at once
        const u32 depths = number % depth_runs;
        asked.copy_depths(m.depths_of_rows[depths][0], m.depths_of_cols[depths][0]);
        strip = asked.nothing_dropped();
        (&m.limited[depths][0][0])[lane] = strip.limited;
        (&m.limits[depths][0][0])[lane] = strip.limit;
      }
      (&m.of_rows[slot][0][0])[lane] = {of_strip, strip.kept};
      // Lane l < 8 has step l / 2 and warpgroup l % 2: which of its strips are not certified.
      u32 slow = __ballot_sync(~0u, (of_strip & strip.kept) != all_cols) >> (4 * lane % 32) & 15;
      if constexpr (Ahead) {
        ptx::cp_async_wait_all();  // for the depths
      } else {
#pragma unroll 1
        while (true) {
          ptx::cp_async_wait_all();
          __syncwarp();  // the copies of all lanes have arrived
          const auto places = asked.load(magnitudes);
          __syncwarp();  // all lanes have read
          left &= left - 1;
          const u32 next = first_of(left);
          if (left != 0) asked.ask(next, magnitudes);
          const u32 exact = asked.exact(places), not_exact = __ballot_sync(~0u, exact != all_cols);
          if (lane % 4 == 0) m.of_rows[slot][i][lane / 4].exact = exact;
          if (lane / multiply_groups == i) slow |= not_exact >> (16 * (lane % 2)) & 0xffff;
          if (left == 0) break;
          i = next;
        }
      }
      if (lane < run_steps * multiply_groups)
        m.fast[slot][lane % multiply_groups][lane / multiply_groups] = slow == 0;
      __syncwarp();
      if (lane == 0) cuda::ptx::mbarrier_arrive(m.certified + slot);
    }
    __syncwarp();
    if (lane == 0) walk.next();
    __syncwarp();
  }
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
