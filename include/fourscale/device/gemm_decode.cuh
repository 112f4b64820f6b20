// SPDX-License-Identifier: Apache-2.0
// decode_kernel(): both packed operands of a GEMM to their decoded form (mma/decoded_operand.cuh), by one
// launch. decoded_call: what the calls of all kernels that multiply decoded operands share.
#pragma once

#include "gemm_way.cuh"
#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// Words in device memory that the next kernel needs as zeros: to write them here is cheaper than a launch.
struct zero_words {
  u32* at = nullptr;
  int count = 0;
};

/// A CTA decodes eight rows of A or of B. If `samples` is not null, the last CTAs take one sample each, from
/// which the GEMM chooses between certificates and blocks of 16 (gemm_way.cuh). Without `Certify` all
/// samples are zeros, which choose certificates.
template <bool Certify, class F, class LA, class G, class LB>
FOURSCALE_KERNEL void __launch_bounds__(32 * decode_warps, 4)
    decode_kernel(const __grid_constant__ block_scaled_view<F, LA, u8 const> a,
                  const __grid_constant__ block_scaled_view<G, LB, u8 const> b,
                  const __grid_constant__ mma::decoded_operand to_a,
                  const __grid_constant__ mma::decoded_operand to_b, mma::wgmma::way_sample* samples,
                  zero_words zeros) {
  __shared__ decode_memory m;
  if constexpr (arch::has_wgmma) cudaTriggerProgrammaticLaunchCompletion();  // the next kernel begins early
  if (blockIdx.x == 0)
    for (int i = static_cast<int>(threadIdx.x); i < zeros.count; i += 32 * decode_warps) zeros.at[i] = 0;
  const i64 groups_a = to_a.row_groups(), group = blockIdx.x;
  if constexpr (Certify && arch::has_wgmma) {
    const i64 groups = groups_a + to_b.row_groups();
    if (group >= groups) return take_sample(a, b, static_cast<u32>(group - groups), m, samples);
  } else if (samples != nullptr && group == 0 && threadIdx.x < mma::wgmma::way_samples) {
    samples[threadIdx.x] = {};
  }
  const bool of_a = group < groups_a;
  if constexpr (same_type<F, G> && same_type<LA, LB>)
    decode_rows<Certify>(of_a ? a : b, of_a ? to_a : to_b, of_a ? group : group - groups_a, m);
  else if (of_a)
    decode_rows<Certify>(a, to_a, group, m);
  else
    decode_rows<Certify>(b, to_b, group - groups_a, m);
}

/// The problem of a decoded_call that only decodes: operands alone.
struct decoded_pair {
  mma::decoded_operand a, b;
};

/// A prepared call of a GEMM from decoded operands: decode(), then multiply() of the derived type. `Problem`
/// has .a and .b. They lie in `workspace`: as many bytes as both have, at a multiple of 256 bytes. From 2^30
/// rows, columns or values along K on, `state` is too_large.
template <class F, class LA, class G, class LB, class Problem>
struct decoded_call {
  block_scaled_view<F, LA, u8 const> a;
  block_scaled_view<G, LB, u8 const> b;
  Problem p;
  errc state = errc::ok;  ///< ok if the call could be prepared

  template <class BA, class BB>
  decoded_call(block_scaled_view<F, LA, BA> const& x, block_scaled_view<G, LB, BB> const& y,
               Problem const& problem, void* workspace)
      : a(x), b(y), p(problem) {
    u8* const at = static_cast<u8*>(workspace);
    p.a = mma::decoded_operand::in(at, a.rows, a.cols);
    p.b = mma::decoded_operand::in(at + p.a.bytes(), b.rows, b.cols);
    constexpr i64 most = i64{1} << 30;  // kernels count in 32 bits
    if (a.rows >= most || b.rows >= most || p.a.padded_k() >= most) state = errc::too_large;
  }
  /// The workspace behind both operands.
  u8* behind() const { return reinterpret_cast<u8*>(p.b.values) + p.b.bytes(); }
  /// Launches decode_kernel(). `samples`: [way_samples], or null where the GEMM has one way only.
  template <bool Certify = true>
  errc decode(cudaStream_t stream, mma::wgmma::way_sample* samples = nullptr, zero_words zeros = {}) const {
    const i64 ctas = p.a.row_groups() + p.b.row_groups() +
                     (Certify && samples != nullptr ? i64{mma::wgmma::way_samples} : 0);
    decode_kernel<Certify>
        <<<static_cast<unsigned>(ctas), 32 * decode_warps, 0, stream>>>(a, b, p.a, p.b, samples, zeros);
    return launched();
  }
};

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
