// SPDX-License-Identifier: Apache-2.0
// Decodes packed operands of MX formats to bf16: each value is an element times its scale. For
// accumulate::native no bounds are found. The kernel then finds whether a scale is so far from 1 that bf16,
// or a sum of products in f32, may not hold what is under it; the GEMM is then refused (way_sample::refused).
// For Blackwell's bits it finds the limits of each row and run (mma/run_limits.cuh).
#pragma once

#include "../cta/load_codes.cuh"
#include "../mma/elements_to_bf16.hpp"
#include "../mma/run_limits.cuh"
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

/// Eight elements, in order.
template <class E>
FOURSCALE_D uint4 eight_to_bf16(u64 eight) {
  u32 r[2][2];
  FOURSCALE_UNROLL
  for (int i = 0; i < 2; ++i) mma::four_to_bf16<E>(static_cast<u32>(eight >> (4 * E::width * i)), r[i]);
  return {r[0][0], r[0][1], r[1][0], r[1][1]};
}
/// These times their scale; all NaN under a NaN scale.
FOURSCALE_D inline uint4 times(uint4 x, e8m0 scale) {
  const u32 by = scale.bits == e8m0::nan_bits ? 0x7fff'7fffu : scale.bits * 0x0080'0080u;
  return {ptx::mul_rn_bf16x2(x.x, by), ptx::mul_rn_bf16x2(x.y, by), ptx::mul_rn_bf16x2(x.z, by),
          ptx::mul_rn_bf16x2(x.w, by)};
}

/// Finds the limits of a row. A whole warp, of which each lane has eight values of a run.
template <class E>
class run_limits_of_row {
 public:
  FOURSCALE_D explicit run_limits_of_row(bool of_a) : of_a_(of_a) {}

  /// Adds eight elements, as bf16, and their scale.
  FOURSCALE_D void add(uint4 x, e8m0 scale) {
    using bounds = model::block_bounds;
    constexpr u32 least_scale = bounds::least_scale + e8m0::bias,
                  largest_scale = bounds::largest_scale + e8m0::bias;
    const bool some = ((x.x | x.y | x.z | x.w) & 0x7fff'7fffu) != 0;
    const u32 bits = scale.bits;
    // Zeros under a far scale, too: the adder takes their exponents.
    far_ = far_ || bits > largest_scale || (some && bits < least_scale);
    if (!some) return;
    smallest_ = min(smallest_, bits), largest_ = max(largest_, bits);
    const float power = bit_cast<float>(bits << 23);
    squares_ += (sum_of_squares(x.x, x.y) + sum_of_squares(x.z, x.w)) * power * power;
  }
  /// The limits of what was added since the last call. All lanes have the result.
  FOURSCALE_D mma::run_limit next() {
    const u32 smallest = __reduce_min_sync(~0u, smallest_), largest = __reduce_max_sync(~0u, largest_);
    float squares = squares_;
    FOURSCALE_UNROLL
    for (int lanes = 1; lanes < 32; lanes *= 2) squares += __shfl_xor_sync(~0u, squares, lanes);
    const bool far = __any_sync(~0u, far_) != 0;
    smallest_ = none, largest_ = 0, squares_ = 0.0f, far_ = false;
    least_ = min(least_, smallest);
    if (far) return mma::run_limit::none(of_a_);  // for good: later limits need not allow for this scale
    if (smallest == none) return mma::run_limit::of_zeros(of_a_);
    constexpr float up = 1.0f + 0x1p-10f;  // more than what some thirty roundings take off
    return mma::run_limit::of(of_a_, static_cast<int>(smallest) - e8m0::bias + subnormal_exponent<E>,
                              static_cast<int>(largest - least_) + mma::bits_apart<E>, sqrtf(squares) * up);
  }

 private:
  static constexpr u32 none = 0xff;  ///< no scale, as all values are zeros
  FOURSCALE_D static float sum_of_squares(u32 x, u32 y) {
    const auto of_two = [](u32 two) {
      const float lower = bit_cast<float>(two << 16), upper = bit_cast<float>(two & 0xffff'0000u);
      return fmaf(lower, lower, upper * upper);
    };
    return of_two(x) + of_two(y);
  }
  bool of_a_, far_ = false;
  u32 least_ = none;                   ///< of all scales up to now
  u32 smallest_ = none, largest_ = 0;  ///< of the lane's scales since the last call
  float squares_ = 0.0f;               ///< of its values
};

/// A CTA decodes eight rows, a warp each. Lanes take neighbouring eights of a row, four of them at a time.
/// `LimitRuns`: how many runs share their limits, for Blackwell's bits; else 0, and `limits` means nothing.
template <int LimitRuns, class F, class Layout>
FOURSCALE_D void decode_mx_rows(block_scaled_view<F, Layout, u8 const> const& q,
                                mma::decoded_operand const& to, mma::run_limits const& limits, bool of_a,
                                i64 row_group) {
  using E = typename F::element;
  constexpr int at_once = 4, in_block = F::block_size / 8;
  const u32 lane = threadIdx.x % 32;
  if constexpr (LimitRuns == 0)
    for (i64 step = threadIdx.x; step < to.steps; step += 32 * decode_warps)
      to.bounds[to.bounds_at(row_group, step)] = {};  // every sum counts as certified
  const i64 row = row_group * mma::bounds_rows + threadIdx.x / 32, rows = to.row_groups() * mma::bounds_rows;
  const i64 there = q.cols / 8, eights = to.padded_k() / 8;
  if constexpr (LimitRuns != 0)
    for (i64 other = row < q.rows ? row + rows : row; other < limits.rows; other += rows)
      for (i64 i = lane; 32 * LimitRuns * i < eights; i += 32)
        limits.of[i * limits.rows + other] = mma::run_limit::of_zeros(of_a);
  if (row >= q.rows) return;
  const bool words = cta::are_words<E, 8>(q.codes);
  u8 const* const codes = q.codes + q.code_offset(row, 0);
  uint4* const values = reinterpret_cast<uint4*>(to.values + row * to.padded_k());
  [[maybe_unused]] run_limits_of_row<E> of_row(of_a);
  for (i64 begin = 0; begin < eights; begin += 32 * at_once) {
    const i64 first = begin + lane;
    u64 eight[at_once] = {};
    e8m0 scale[at_once];
    FOURSCALE_UNROLL
    for (int k = 0; k < at_once; ++k) {
      scale[k] = {static_cast<u8>(e8m0::bias)};
      if (const i64 i = first + 32 * k; i < there) {
        eight[k] = cta::load_codes<E, 8>(codes + i * E::width, words).bits;
        scale[k] = q.load_scale(row, i / in_block);
      }
    }
    FOURSCALE_UNROLL
    for (int k = 0; k < at_once; ++k) {
      const uint4 x = eight_to_bf16<E>(eight[k]);
      if (first + 32 * k < eights) values[first + 32 * k] = times(x, scale[k]);
      if constexpr (LimitRuns != 0)
        if (const i64 run = begin / 32 + k; 32 * run < eights) {
          of_row.add(x, scale[k]);
          if ((run + 1) % LimitRuns == 0 || 32 * (run + 1) >= eights) {
            const mma::run_limit limit = of_row.next();
            if (lane == 0) limits.of[run / LimitRuns * limits.rows + row] = limit;
          }
        }
    }
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

/// What the decoding kernel finds besides values: `limits_a` and `limits_b`, for Blackwell's bits, or else
/// `samples`, whether the GEMM is refused. It leaves `zeros` as zeros for the next kernels.
struct decoded_besides {
  mma::run_limits limits_a, limits_b;
  mma::wgmma::way_sample* samples = nullptr;
  zero_words zeros[2];
};

/// The first way_samples CTAs write zeros and, without limits, look at all scales; each of the others decodes
/// eight rows of A or of B.
template <int LimitRuns, class F, class LA, class G, class LB>
FOURSCALE_KERNEL void __launch_bounds__(32 * decode_warps)
    decode_mx_kernel(const __grid_constant__ block_scaled_view<F, LA, u8 const> a,
                     const __grid_constant__ block_scaled_view<G, LB, u8 const> b,
                     const __grid_constant__ mma::decoded_operand to_a,
                     const __grid_constant__ mma::decoded_operand to_b,
                     const __grid_constant__ decoded_besides besides) {
  if constexpr (arch::has_wgmma) cudaTriggerProgrammaticLaunchCompletion();  // the next kernel begins early
  constexpr i64 first_ctas = mma::wgmma::way_samples;
  if (blockIdx.x < first_ctas) {
    for (zero_words const& zeros : besides.zeros)
      for (int i = static_cast<int>(blockIdx.x * 32 * decode_warps + threadIdx.x); i < zeros.count;
           i += static_cast<int>(first_ctas) * 32 * decode_warps)
        zeros.at[i] = 0;
    if constexpr (LimitRuns != 0) return;
    const bool far = has_far_block(a, blockIdx.x, first_ctas) || has_far_block(b, blockIdx.x, first_ctas);
    const bool any = __syncthreads_or(far) != 0;
    if (threadIdx.x == 0) besides.samples[blockIdx.x] = {0, 0, 0, static_cast<u16>(any)};
    return;
  }
  const i64 group = blockIdx.x - first_ctas, groups_a = to_a.row_groups();
  if (group < groups_a)
    decode_mx_rows<LimitRuns>(a, to_a, besides.limits_a, true, group);
  else
    decode_mx_rows<LimitRuns>(b, to_b, besides.limits_b, false, group - groups_a);
}

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
