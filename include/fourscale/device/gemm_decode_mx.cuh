// SPDX-License-Identifier: Apache-2.0
// Decodes packed operands of MX formats to bf16 for accumulate::native: each value is an element times its
// scale. No bounds are found. The kernel also finds whether a scale is so far from 1 that bf16, or a sum of
// products in f32, may not hold what is under it; the GEMM is then refused (way_sample::refused).
#pragma once

#include "../cta/load_codes.cuh"
#include "../mma/elements_to_bf16.hpp"
#include "gemm_decode.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// Whether elements under this scale fit. From 2^-100 to 2^32 they are normal numbers of bf16 or 0, and 2^31
/// products of two of them stay below 2^127. A NaN scale fits: NaN is a value like others. A block of zeros
/// may have any scale, which has_far_block() sees to.
FOURSCALE_HD constexpr bool fits_bf16(e8m0 scale) {
  const int exponent = int{scale.bits} - e8m0::bias;
  return (exponent >= -100 && exponent <= 32) || scale.bits == e8m0::nan_bits;
}

/// Eight elements times their scale, in order; all NaN under a NaN scale.
template <class E>
FOURSCALE_D uint4 eight_to_bf16(u64 eight, e8m0 scale) {
  const u32 of_scale = scale.bits == e8m0::nan_bits ? 0x7fff'7fffu : scale.bits * 0x0080'0080u;
  u32 r[2][2];
  FOURSCALE_UNROLL
  for (int i = 0; i < 2; ++i) {
    mma::four_to_bf16<E>(static_cast<u32>(eight >> (4 * E::width * i)), r[i]);
    FOURSCALE_UNROLL
    for (u32& two : r[i]) two = ptx::mul_rn_bf16x2(two, of_scale);
  }
  return {r[0][0], r[0][1], r[1][0], r[1][1]};
}

/// A CTA decodes eight rows, a warp each. Lanes take neighbouring eights of a row, four of them at a time.
template <class F, class Layout>
FOURSCALE_D void decode_mx_rows(block_scaled_view<F, Layout, u8 const> const& q,
                                mma::decoded_operand const& to, i64 row_group) {
  using E = typename F::element;
  constexpr int at_once = 4, in_block = F::block_size / 8;
  for (i64 step = threadIdx.x; step < to.steps; step += 32 * decode_warps)
    to.bounds[to.bounds_at(row_group, step)] = {};  // every sum counts as certified
  const i64 row = row_group * mma::bounds_rows + threadIdx.x / 32;
  if (row >= q.rows) return;
  const i64 there = q.cols / 8, eights = to.padded_k() / 8;
  const bool words = cta::are_words<E, 8>(q.codes);
  u8 const* const codes = q.codes + q.code_offset(row, 0);
  uint4* const values = reinterpret_cast<uint4*>(to.values + row * to.padded_k());
  for (i64 first = threadIdx.x % 32; first < eights; first += 32 * at_once) {
    u64 eight[at_once] = {};
    e8m0 scale[at_once] = {};
    FOURSCALE_UNROLL
    for (int k = 0; k < at_once; ++k)
      if (const i64 i = first + 32 * k; i < there) {
        eight[k] = cta::load_codes<E, 8>(codes + i * E::width, words).bits;
        scale[k] = q.load_scale(row, i / in_block);
      }
    FOURSCALE_UNROLL
    for (int k = 0; k < at_once; ++k)
      if (first + 32 * k < eights) values[first + 32 * k] = eight_to_bf16<E>(eight[k], scale[k]);
  }
}

/// Whether a block has a scale that does not fit, and a value that is not zero. All threads of a CTA look at
/// part `part` of `parts` of the blocks; each returns what it has seen itself.
template <class F, class Layout>
FOURSCALE_D bool has_far_block(block_scaled_view<F, Layout, u8 const> const& q, i64 part, i64 parts) {
  constexpr int at_once = 8, threads = 32 * decode_warps;
  const i64 blocks = q.blocks(), count = q.rows * blocks;
  bool far = false;
  for (i64 first = part * threads + threadIdx.x; first < count; first += at_once * parts * threads) {
    e8m0 scale[at_once];
    FOURSCALE_UNROLL
    for (int k = 0; k < at_once; ++k) {
      const i64 i = first + k * parts * threads;
      scale[k] = i < count ? q.load_scale(i / blocks, i % blocks) : e8m0{e8m0::bias};
    }
    FOURSCALE_UNROLL
    for (int k = 0; k < at_once; ++k) {
      if (fits_bf16(scale[k])) [[likely]]
        continue;
      const i64 i = first + k * parts * threads;
#pragma unroll 1
      for (int j = 0; j < F::block_size; ++j)
        far = far || (q.load_code(i / blocks, i % blocks * F::block_size + j).bits &
                      magnitude_mask<typename F::element>) != 0;
    }
  }
  return far;
}

/// The first way_samples CTAs look at all scales; each of the others decodes eight rows of A or of B.
template <class F, class LA, class G, class LB>
FOURSCALE_KERNEL void __launch_bounds__(32 * decode_warps)
    decode_mx_kernel(const __grid_constant__ block_scaled_view<F, LA, u8 const> a,
                     const __grid_constant__ block_scaled_view<G, LB, u8 const> b,
                     const __grid_constant__ mma::decoded_operand to_a,
                     const __grid_constant__ mma::decoded_operand to_b, mma::wgmma::way_sample* samples,
                     zero_words zeros) {
  if constexpr (arch::has_wgmma) cudaTriggerProgrammaticLaunchCompletion();  // the next kernel begins early
  constexpr i64 lookers = mma::wgmma::way_samples;
  if (blockIdx.x < lookers) {
    if (blockIdx.x == 0)
      for (int i = static_cast<int>(threadIdx.x); i < zeros.count; i += 32 * decode_warps) zeros.at[i] = 0;
    const bool far = has_far_block(a, blockIdx.x, lookers) || has_far_block(b, blockIdx.x, lookers);
    const bool any = __syncthreads_or(far) != 0;
    if (threadIdx.x == 0) samples[blockIdx.x] = {0, 0, 0, static_cast<u16>(any)};
    return;
  }
  const i64 group = blockIdx.x - lookers, groups_a = to_a.row_groups();
  if (group < groups_a)
    decode_mx_rows(a, to_a, group);
  else
    decode_mx_rows(b, to_b, group - groups_a);
}

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
