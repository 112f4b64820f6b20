// SPDX-License-Identifier: Apache-2.0
// certify_products_kernel(): a second look at the strips and groups of columns that certify_kernel() leaves
// open. Eight rows share their magnitudes, which is too coarse for most of these. Here each row of A by each
// row of B has a certificate of its own, from the magnitudes of its own products (docs/exact_gemm.md, claim
// 24).
#pragma once

#include "../warp/scan.cuh"
#include "gemm_certify.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// Warps of a CTA, and CTAs of a processor.
inline constexpr u32 products_warps = 8, products_ctas = 4;

/// model::floors_of_blocks(), two blocks at a time. Behind a NaN a row has a depth of 0, which says nothing
/// of its values. What is certified with it is not used, as the row's span sends all of its steps to the
/// model.
FOURSCALE_D inline model::block_floors floors_in_twos(u32 exponents, u32 depth) {
  constexpr u32 both = 0x1'0001u, most = static_cast<u32>(64 + model::scale_parts::most) * both;
  const u32 lowest = (40u - depth & 0xffffu) * both;
  const auto floors = [&](u32 signed_bytes) {  // each with its sign, as 16 bits
    const u32 of_scales = ptx::prmt_b32(exponents, 0, signed_bytes);
    return __viaddmin_s16x2(__viaddmax_s16x2(of_scales, 0xfffc'fffcu, lowest), 64 * both, most);
  };
  return {floors(0x9180), floors(0xb3a2)};
}
FOURSCALE_D inline model::block_floors least_of(model::block_floors const& x, model::block_floors const& y) {
  return {__vminu2(x.first, y.first), __vminu2(x.last, y.last)};
}

/// A row of an operand in a step, as a lane has it: row `lane / 4` of a group of eight rows. Values are
/// fragments of mma.sync: lane t has places 8 t to 8 t + 7, and from 32 on the same again. The order of
/// places is the fragments' own, in A and in B.
struct products_row {
  uint4 low, high;  ///< values
  u32 exponents;    ///< of four scales
  u8 depth, width;

  /// False if a scale that is not in the values has codes that are not all zero.
  FOURSCALE_D bool bounded() const { return width != model::unbounded; }
  FOURSCALE_D model::block_floors floors() const { return floors_in_twos(exponents, depth); }
  /// Magnitudes of four values.
  FOURSCALE_D uint2 magnitudes(u32 i) const {
    constexpr u32 magnitude = 0x7fff'7fffu;
    const uint4 x = i < 2 ? low : high;
    return i % 2 == 0 ? uint2{x.x & magnitude, x.y & magnitude} : uint2{x.z & magnitude, x.w & magnitude};
  }
};

/// Where the rows of several groups of eight are in a step. `Far`: scales may be far from 1, so that bounds
/// must be asked; the first group is then a multiple of eight, or only two groups from an even one on are
/// asked for.
template <bool Far>
struct products_place {
  uint4 const* values;
  u32 const* exponents;
  u8 const* depths;
  model::step_bounds const* bounds;
  u32 steps, rows;  ///< of the operand; rows from the first group on

  FOURSCALE_D products_place(mma::decoded_operand const& x, u32 first_group, u32 step)
      : steps(static_cast<u32>(x.steps)), rows(static_cast<u32>(x.rows) - first_group * mma::bounds_rows) {
    static_assert(mma::decoded_step * sizeof(bf16) == 8 * sizeof(uint4));
    const u32 lane = threadIdx.x % 32;
    const u64 at = u64{first_group * mma::bounds_rows + lane / 4} * steps + step;
    values = reinterpret_cast<uint4 const*>(x.values) + (at * 8 + lane % 4);
    exponents = reinterpret_cast<u32 const*>(x.exponents) + at;
    depths = x.depths[u64{step} * static_cast<u32>(x.row_groups()) + first_group].of_row + lane / 4;
    if constexpr (Far) bounds = x.bounds + x.bounds_at(first_group, step);
  }
  /// The lane's row of a group, zeros behind the last row. Where nothing of the other operand has bounds,
  /// groups without rows are open, too. Fewer steps than 2^21 have certificates, so that these products fit
  /// into 32 bits.
  FOURSCALE_D products_row row_of(u32 group) const {
    constexpr u32 in_group = mma::bounds_rows, chunk = mma::bounds_chunk;
    const bool there = group * in_group + threadIdx.x % 32 / 4 < rows;
    const u32 known = group * in_group < rows ? group : 0;
    auto const* const from = values + u64{group} * (steps * in_group * 8);
    products_row x{there ? __ldcg(from) : uint4{}, there ? __ldcg(from + 4) : uint4{},
                   there ? __ldcg(exponents + u64{group} * (steps * in_group)) : 0,
                   __ldcg(depths + known * in_group), 0};
    if constexpr (Far) x.width = __ldcg(&bounds[u64{known / chunk} * (steps * chunk) + known % chunk].width);
    return x;
  }
};

/// The 16 rows of a strip in a step: rows lane / 4 and lane / 4 + 8.
struct products_strip {
  u32 magnitudes[4][4];  ///< fragments
  model::block_floors floors[2], least;
  bool bounded;

  FOURSCALE_D products_strip(products_row const& upper, products_row const& lower)
      : floors{upper.floors(), lower.floors()},
        least(least_of(floors[0], floors[1])),
        bounded(upper.bounded() && lower.bounded()) {
    FOURSCALE_UNROLL
    for (u32 i = 0; i < 4; ++i) {
      const uint2 x = upper.magnitudes(i), y = lower.magnitudes(i);
      magnitudes[i][0] = x.x, magnitudes[i][1] = y.x, magnitudes[i][2] = x.y, magnitudes[i][3] = y.y;
    }
  }

  /// Whether all products by eight columns have certificates. All lanes call it.
  FOURSCALE_D bool certify(products_row const& cols) const {
    float sums[4]{}, more[4]{};
    FOURSCALE_UNROLL
    for (u32 i = 0; i < 2; ++i) {
      const uint2 x = cols.magnitudes(i), y = cols.magnitudes(i + 2);
      ptx::mma_sync_m16n8k16_bf16(sums, magnitudes[i], x.x, x.y);
      ptx::mma_sync_m16n8k16_bf16(more, magnitudes[i + 2], y.x, y.y);
    }
    const model::block_floors of_col = cols.floors();
    const int first = static_cast<int>(threadIdx.x % 4 * 8);  // lanes that have columns 2 t and 2 t + 1
    const auto from = [&](int lane) {
      return model::block_floors{__shfl_sync(~0u, of_col.first, lane), __shfl_sync(~0u, of_col.last, lane)};
    };
    model::block_floors const of_cols[2] = {from(first), from(first + 4)};
    u32 largest = 0;
    FOURSCALE_UNROLL
    for (u32 i = 0; i < 4; ++i) {
      sums[i] = __fadd_rn(sums[i], more[i]);
      largest = max(largest, bit_cast<u32>(sums[i]));
    }
    // The largest sum with the least floors mostly is enough. NaN is larger than all.
    const bool known = bounded & cols.bounded();
    const model::block_floors of_all = least_of(of_cols[0], of_cols[1]);
    bool exact = model::products_are_exact(bit_cast<float>(largest), least, of_all);
    if (__all_sync(~0u, exact & known)) return true;
    exact = known;
    FOURSCALE_UNROLL
    for (u32 i = 0; i < 4; ++i)
      exact = exact & model::products_are_exact(sums[i], floors[i / 2], of_cols[i % 2]);
    return __all_sync(~0u, exact);
  }
};

/// A word of certified_strips with bits of 0: its strip and its 32 groups of columns.
struct open_word {
  static constexpr u32 groups = 8 * mma::wgmma::certified_strips::eights_of_word;
  static constexpr u32 most_failures = 4;  ///< behind which the rest of the word stays as it is
  u32 open;                                ///< these bits as 1
  u32 step, strip, first_group;

  /// How many groups were looked at, and how many of these have certificates.
  struct result {
    u32 asked = 0, certified = 0;
  };
  /// Sets the bits that have certificates. All lanes call it.
  template <class P>
  FOURSCALE_D result certify(P const& p) const {
    using place = products_place<P::far_scales>;
    if (16 * strip >= static_cast<u64>(p.a.rows)) return {};
    const place of_rows(p.a, 2 * strip, step), columns(p.b, first_group, step);
    const products_row upper = of_rows.row_of(0), lower = of_rows.row_of(1);
    products_row cols = columns.row_of(first_group_of(open));  // all of it is loaded at once
    const products_strip rows(upper, lower);
    u32 left = open, found = 0;
    result x;
#pragma unroll 1
    while (true) {
      ++x.asked;
      if (rows.certify(cols)) ++x.certified, found |= left & (0 - left);
      left &= left - 1;
      if (left == 0 || x.asked - x.certified == most_failures) break;
      cols = columns.row_of(first_group_of(left));
    }
    if (found != 0 && threadIdx.x % 32 == 0)
      p.certified.words[p.certified.word_at(step, first_group / groups, strip)] = ~open | found;
    return x;
  }

 private:
  /// The group of columns of the lowest of these bits, among those of the word.
  FOURSCALE_D static u32 first_group_of(u32 bits) {
    return mma::wgmma::certified_strips::group_of_bit(static_cast<u32>(__ffs(static_cast<int>(bits))) - 1);
  }
};

/// The open words that a CTA has found in a round, in the order of its threads.
struct open_words {
  static constexpr u32 of_thread = 4;   ///< words that a thread looks at, one behind the other
  static constexpr u32 first_few = 32;  ///< whose results tell whether the others are worth a look
  open_word words[32 * products_warps * of_thread];
  u32 of_warp[products_warps], taken;
  open_word::result results;  ///< of the first few words

  /// Collects the open ones of the words that threads have, from `of_thread` times `number` on, and returns
  /// how many these are. All threads call it; `there`: whether the thread has any.
  FOURSCALE_D u32 collect(mma::wgmma::certified_strips const& x, u32 number, bool there) {
    static_assert(mma::wgmma::certified_strips::strips_of_tile % of_thread == 0);
    const uint4 four =
        there ? __ldcg(reinterpret_cast<uint4 const*>(x.words) + number) : uint4{~0u, ~0u, ~0u, ~0u};
    u32 const word[of_thread] = {four.x, four.y, four.z, four.w};
    u32 own = 0, all = 0;
    for (const u32 i : word) own += i != ~0u;
    u32 slot = warp::sum_before(own, all);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = all;
    if (threadIdx.x == 0) taken = first_few, results = {};
    __syncthreads();
    all = 0;
    FOURSCALE_UNROLL
    for (u32 i = 0; i < products_warps; ++i) {
      slot += i < threadIdx.x / 32 ? of_warp[i] : 0;
      all += of_warp[i];
    }
    if (own != 0) {
      const u32 strips = x.strips / of_thread, of_all = x.words_of_strip * strips, of_step = number % of_all;
      open_word next{0, number / of_all, of_step % strips * of_thread, of_step / strips * open_word::groups};
      for (u32 i = 0; i < of_thread; ++i, ++next.strip)
        if (next.open = ~word[i]; next.open != 0) words[slot++] = next;
    }
    __syncthreads();
    return all;
  }
  /// Certifies `count` words. Returns false if few of the first ones have any certificate. All threads call
  /// it, and need a barrier behind it.
  template <class P>
  FOURSCALE_D bool certify(P const& p, u32 count) {
    open_word::result own;
    for (u32 i = threadIdx.x / 32; i < min(count, first_few); i += products_warps) {
      const open_word::result x = words[i].certify(p);
      own.asked += x.asked, own.certified += x.certified;
    }
    if (threadIdx.x % 32 == 0)
      atomicAdd(&results.asked, own.asked), atomicAdd(&results.certified, own.certified);
    __syncthreads();
    if (results.certified * 8 < results.asked * 3) return false;
    while (true) {
      u32 i = 0;
      if (threadIdx.x % 32 == 0) i = atomicAdd(&taken, 1u);
      i = __shfl_sync(~0u, i, 0);
      if (i >= count) return true;
      words[i].certify(p);
    }
  }
};

/// What is open lies in few steps; so the words that a CTA looks at are far apart. Huge GEMMs are left as
/// they are. Ends at once where certify_kernel() does. P: certify_problem.
template <class P>
FOURSCALE_KERNEL void __launch_bounds__(32 * products_warps, products_ctas)
    certify_products_kernel([[maybe_unused]] const __grid_constant__ P p) {
  if constexpr (arch::has_wgmma) {
    __shared__ open_words open;
    cudaTriggerProgrammaticLaunchCompletion();  // gemm_wgmma_kernel begins early
    cudaGridDependencySynchronize();            // until certify_kernel has ended
    if (!mma::wgmma::way_of(p).by_strips) return;
    const u64 all =
        static_cast<u64>(p.a.steps) * p.certified.words_of_strip * p.certified.strips / open_words::of_thread;
    if (all >= u64{1} << 29) return;
    const u32 count = static_cast<u32>(all), rounds = ceil_div(count, gridDim.x * 32 * products_warps),
              each = ceil_div(count, rounds);
    for (u32 first = 0; first < count; first += each) {
      const u32 number = first + threadIdx.x * gridDim.x + blockIdx.x;
      const u32 found = open.collect(p.certified, number, number < min(first + each, count));
      if (!open.certify(p, found)) return;
      __syncthreads();  // all words are done
    }
  }
}

/// Launches the kernel, after certify_kernel and before gemm_wgmma_kernel: see launch_certify().
template <class P>
errc launch_certify_products(P const& p, int processors, cudaStream_t stream) {
  return launch_clusters<begins::early>(&certify_products_kernel<P>, i64{products_ctas} * processors, 1,
                                        32 * products_warps, 0, stream, p);
}

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
