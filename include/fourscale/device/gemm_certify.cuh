// SPDX-License-Identifier: Apache-2.0
// certify_kernel(): certifies strips of all tiles before the GEMM by wgmma, which reads a bit for each: are
// the sums of 16 rows by eight columns exact, as magnitudes tell (docs/exact_gemm.md, claim 11)? Without it,
// warps of the GEMM do so. They share tensor cores and shared memory with the warps that multiply: an
// mma.sync there waits for wgmma. A CTA walks over parts, one step of many rows and columns each. Columns go
// by cp.async through two stages in shared memory, rows stay in registers.
#pragma once

#include "../mma/certified_strips.cuh"
#include "../mma/wgmma_way.cuh"
#include "../ptx/cp_async.cuh"
#include "../ptx/mma_sync_f16.cuh"
#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The arguments of the kernel. `by_blocks_above`: see is_faster_by_blocks(). `FarScales`: whether scales may
/// be far from 1, as those of MXFP4 may.
template <bool FarScales>
struct certify_problem {
  static constexpr bool far_scales = FarScales;
  mma::decoded_operand a, b;
  mma::wgmma::way_sample const* samples;
  float by_blocks_above;
  mma::wgmma::certified_strips certified;
};

/// A part is one step of 4096 rows and 2048 columns; a warp takes 512 of these rows. Where there are fewer
/// rows, several warps take the same ones, each with other columns.
inline constexpr u32 certify_warps = 8, certify_tiles = 4;
/// Groups of eight rows in a tile of 128.
inline constexpr u32 certify_tile_groups = 2 * mma::wgmma::certified_strips::strips_of_tile;
/// Words of columns in a part, and eights of groups of eight columns.
inline constexpr u32 certify_words = 8,
                     certify_eights = certify_words * mma::wgmma::certified_strips::eights_of_word;

/// 2^exponent over the unit of the magnitudes of this width.
FOURSCALE_D inline float power_of_magnitude(int exponent, u32 width) {
  return model::detail::power_of_two(exponent - static_cast<int>(model::magnitude_exponent(width)));
}

/// One stage: the columns of a part in shared memory.
struct certify_stage {
  uint4 magnitudes[8 * certify_eights][4];  ///< [group of eight columns]
  uint4 bounds[certify_eights];             ///< model::step_bounds, of eight groups each
  float factors[8 * certify_eights];        ///< [group]: 2^-exponent of its magnitudes
  u32 widest[certify_words];                ///< the largest width of each word's groups

  /// Finds `factors` and `widest`: all threads, a group each, once magnitudes and bounds are there.
  FOURSCALE_D void prepare() {
    const u32 width = reinterpret_cast<u8 const*>(bounds)[sizeof(model::step_bounds) * threadIdx.x];
    factors[threadIdx.x] = power_of_magnitude(0, width);
    const u32 of_word = __reduce_max_sync(~0u, width);
    if (threadIdx.x % 32 == 0) widest[threadIdx.x / 32] = of_word;
  }
};

/// The part of this number; next() goes to the one behind it, along columns first, then rows, then steps.
struct certify_part {
  u32 row_parts, col_parts, step, row_part, col_part;

  FOURSCALE_D certify_part(u64 number, u32 rows, u32 cols) : row_parts(rows), col_parts(cols) {
    step = static_cast<u32>(number / (rows * cols));
    const u32 of_step = static_cast<u32>(number - u64{step} * (rows * cols));
    row_part = of_step / cols, col_part = of_step % cols;
  }
  FOURSCALE_D void next() {
    if (++col_part < col_parts) return;
    col_part = 0;
    if (++row_part == row_parts) row_part = 0, ++step;
  }
};

/// Starts to copy the columns of a part. All threads copy magnitudes, the first ones bounds, too.
FOURSCALE_D inline void ask_for_columns(mma::decoded_operand const& b, certify_part const& part,
                                        certify_stage& to) {
  static_assert(sizeof(model::step_bounds) * 8 == sizeof(to.bounds[0]) &&
                8 * certify_eights == 32 * certify_warps);
  const u32 groups = static_cast<u32>(b.row_groups()), first = part.col_part * 8 * certify_eights,
            i = threadIdx.x;
  auto const* const from = b.magnitudes + (u64{part.step} * groups + first);
  FOURSCALE_UNROLL
  for (u32 k = 0; k < 4; ++k) {  // neighbouring threads copy neighbouring places
    const u32 at = k * 32 * certify_warps + i;
    const bool there = first + at / 4 < groups;
    ptx::cp_async_cg_16(ptx::shared_address(&to.magnitudes[0][0] + at),
                        reinterpret_cast<uint4 const*>(from) + (there ? at : 0), there ? 16 : 0);
  }
  if (i < certify_eights) {
    const bool there = first + 8 * i < groups;
    ptx::cp_async_cg_16(ptx::shared_address(to.bounds + i),
                        b.bounds + b.bounds_at(there ? first + 8 * i : 0, part.step), there ? 16 : 0);
  }
  ptx::cp_async_commit_group();
}

/// The magnitudes of a warp's rows in a step, as A fragments of mma.sync. Their row g is the upper eight
/// rows of strip g, and row g + 8 the lower eight. The order of places along K is the fragments' own, in A
/// and in B: lane t has places 16 t to 16 t + 15.
struct certify_rows {
  u32 low[certify_tiles][4], high[certify_tiles][4];
  float below[certify_tiles][2];  ///< -(exact_below(exponent of the rows, 0) + 1)
  u32 widest;                     ///< the largest width of the warp's rows

  /// Loads the rows from group `first_group` on. All lanes call it.
  FOURSCALE_D void load(mma::decoded_operand const& a, u32 step, u32 first_group) {
    const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, groups = static_cast<u32>(a.row_groups());
    u32 largest = 0;
    FOURSCALE_UNROLL
    for (u32 tile = 0; tile < certify_tiles; ++tile) {
      const u32 group = first_group + certify_tile_groups * tile + 2 * g;
      const bool there = group < groups;  // groups come in eights, so group + 1 is there, too
      auto const* const from =
          reinterpret_cast<uint4 const*>(a.magnitudes + (u64{step} * groups + (there ? group : 0))) + t;
      const uint4 upper = there ? __ldcg(from) : uint4{}, lower = there ? __ldcg(from + 4) : uint4{};
      set(low[tile], upper.x, lower.x, upper.y, lower.y);
      set(high[tile], upper.z, lower.z, upper.w, lower.w);
      const u32 widths =
          there ? __ldcg(reinterpret_cast<u32 const*>(a.bounds + a.bounds_at(group, step))) : 0;
      const u32 upper_width = widths & 0xff, lower_width = widths >> 16 & 0xff;
      below[tile][0] = -power_of_magnitude(24, upper_width);
      below[tile][1] = -power_of_magnitude(24, lower_width);
      largest = max(largest, max(upper_width, lower_width));
    }
    widest = __reduce_max_sync(~0u, largest);
  }

 private:
  /// Puts four words in the order in which mma.sync takes them. The shuffles change no value, which the
  /// compiler does not know. Without them it would keep the words as they were loaded, and copy all of them
  /// to this order before each mma.sync.
  FOURSCALE_D static void set(u32 (&to)[4], u32 a, u32 b, u32 c, u32 d) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    to[0] = __shfl_sync(~0u, a, lane), to[1] = __shfl_sync(~0u, b, lane);
    to[2] = __shfl_sync(~0u, c, lane), to[3] = __shfl_sync(~0u, d, lane);
  }
};

/// Certifies rows with eight groups of columns: appends two bits to those of each tile, for strip g and the
/// lane's groups t and t + 4; 1 is exact. A sum of products is a whole number below 2^23. So the bits of the
/// float 2^23 + 1, plus the sum, are those of 2^23 + 1 + sum. Instructions for floats, which have pipes of
/// their own, compare it with exact_below() + 1 = 2^24 * 2^-exponent of rows * 2^-exponent of columns.
FOURSCALE_D inline void certify_eight(certify_rows const& rows, certify_stage const& cols, u32 eight,
                                      u32 (&bits)[certify_tiles]) {
  static_assert(64 * 255 * 255 < 1 << 23);
  const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const uint4 right = cols.magnitudes[8 * eight + mma::wgmma::group_of_column(g)][t];
  float const factors[2] = {cols.factors[8 * eight + t], cols.factors[8 * eight + t + 4]};
  FOURSCALE_UNROLL
  for (u32 tile = 0; tile < certify_tiles; ++tile) {
    constexpr i32 one = bit_cast<i32>(0x1p23f) + 1;
    i32 sums[4] = {one, one, one, one};
    ptx::mma_sync_m16n8k32_u8(sums, rows.low[tile], right.x, right.y);
    ptx::mma_sync_m16n8k32_u8(sums, rows.high[tile], right.z, right.w);
    FOURSCALE_UNROLL
    for (u32 k = 0; k < 2; ++k) {
      const auto less = [&](u32 half) {  // in the sign bit
        const float most = ptx::fma_rn_f32(rows.below[tile][half], factors[k], -0x1p23f);
        return bit_cast<u32>(__fadd_rn(bit_cast<float>(sums[2 * half + k]), most));
      };
      bits[tile] = __funnelshift_l(less(0) & less(1), bits[tile], 1);
    }
  }
}

/// Certifies a warp's rows with all columns of a stage, or with every `of_warps`-th word from `warp` on.
/// Where the largest widths of both certify a whole word, magnitudes are not asked. All lanes call it.
FOURSCALE_D inline void certify_columns(certify_rows const& rows, certify_stage const& cols,
                                        mma::wgmma::certified_strips const& to, certify_part const& part,
                                        u32 first_strip, u32 warp, u32 of_warps) {
  constexpr u32 eights = mma::wgmma::certified_strips::eights_of_word,
                strips = mma::wgmma::certified_strips::strips_of_tile;
  const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, first_word = part.col_part * certify_words,
            end = min(certify_words, to.words_of_strip - first_word);
#pragma unroll 1
  for (u32 word = warp; word < end; word += of_warps) {
    u32 bits[certify_tiles];
    const bool all = sums_are_exact(model::step_bounds{static_cast<u8>(rows.widest)},
                                    model::step_bounds{static_cast<u8>(cols.widest[word])});
    FOURSCALE_UNROLL
    for (u32& of_tile : bits) of_tile = all ? 0xff : 0;
    if (!all) {
      FOURSCALE_UNROLL
      for (u32 i = 0; i < eights; ++i) certify_eight(rows, cols, word * eights + i, bits);
    }
    u8* const at =
        reinterpret_cast<u8*>(to.words + to.word_at(part.step, first_word + word, first_strip + g)) + t;
    FOURSCALE_UNROLL
    for (u32 tile = 0; tile < certify_tiles; ++tile)
      if (first_strip + strips * tile < to.strips) at[4 * strips * tile] = static_cast<u8>(bits[tile]);
  }
}

/// CTAs that run at once, each with an equal share of the parts. They end at once where widths leave no
/// sampled step open, or where the GEMM goes by blocks. P: certify_problem.
template <class P>
FOURSCALE_KERNEL void __launch_bounds__(32 * certify_warps, 2)
    certify_kernel([[maybe_unused]] const __grid_constant__ P p) {
  if constexpr (arch::has_wgmma) {
    __shared__ certify_stage stages[2];
    cudaTriggerProgrammaticLaunchCompletion();  // the next kernel begins early
    cudaGridDependencySynchronize();            // until the operands are decoded
    if (!mma::wgmma::way_of(p).by_strips) return;
    constexpr u32 strips = mma::wgmma::certified_strips::strips_of_tile;
    const u32 row_warps = ceil_div<u32>(p.certified.strips, strips * certify_tiles);
    // Warps of a CTA that have rows of their own.
    const u32 apart = row_warps > 4 ? 8 : row_warps > 2 ? 4 : row_warps, warp = threadIdx.x / 32;
    const u32 row_parts = ceil_div<u32>(row_warps, apart),
              col_parts = ceil_div<u32>(p.certified.words_of_strip, certify_words);
    const u64 parts = static_cast<u64>(p.a.steps) * row_parts * col_parts;
    const u64 begin = blockIdx.x * parts / gridDim.x, end = (blockIdx.x + 1) * parts / gridDim.x;
    if (begin == end) return;
    certify_rows rows;
    certify_part part(begin, row_parts, col_parts);
    ask_for_columns(p.b, part, stages[0]);
    for (u64 i = begin; i < end; ++i) {
      certify_stage& stage = stages[(i - begin) % 2];
      const u32 first_strip = (part.row_part * apart + warp % apart) * certify_tiles * strips;
      if (i == begin || part.col_part == 0) rows.load(p.a, part.step, 2 * first_strip);
      ptx::cp_async_wait_all();
      __syncthreads();  // all columns are there; nobody reads the other stage
      certify_part next = part;
      next.next();
      if (i + 1 < end) ask_for_columns(p.b, next, stages[(i + 1 - begin) % 2]);
      stage.prepare();
      __syncthreads();
      certify_columns(rows, stage, p.certified, part, first_strip, warp / apart, certify_warps / apart);
      part = next;
    }
  }
}

/// Launches the kernel, after decode_kernel and before certify_products_kernel or gemm_wgmma_kernel.
/// `processors`: SMs of the device. P: certify_problem; this is a template so that only those who call it
/// compile the kernel.
template <class P>
errc launch_certify(P const& p, int processors, cudaStream_t stream) {
  return launch_clusters<begins::early>(&certify_kernel<P>, 2 * i64{processors}, 1, 32 * certify_warps, 0,
                                        stream, p);
}

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
