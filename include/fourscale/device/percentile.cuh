// SPDX-License-Identifier: Apache-2.0
// An amax that leaves out the largest few values, on a stream. Two passes over the matrix count magnitudes,
// see view/percentile.hpp.
#pragma once

#include "../view/percentile.hpp"
#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// Counts magnitudes in the bins of a pass. Neighbouring threads read neighbours in memory.
template <int Pass, class M>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads) count_kernel(M x, percentile_workspace* w) {
  const u64 upper = Pass == 0 ? 0 : w->upper;
  for (i64 i = blockIdx.x * i64{cta_threads} + threadIdx.x; i < x.rows * x.cols;
       i += i64{gridDim.x} * cta_threads) {
    const i64 row = M::is_transposed ? i % x.rows : i / x.cols,
              col = M::is_transposed ? i / x.rows : i % x.cols;
    const i64 bin = ::fourscale::detail::percentile_bin(Pass, amax_bits(to_float(x.at(row, col))), upper);
    if (bin >= 0) atomicAdd(&w->counts[bin], u64{1});
  }
}

/// One CTA of 1024 threads finds the bin that has the value of the rank. Each thread adds up 64 bins; thread
/// 0 finds the right 64, and then the bin among these. Pass 0 clears the counts for pass 1.
template <int Pass>
FOURSCALE_KERNEL void __launch_bounds__(1024) select_kernel(percentile_workspace* w, u64 rank, float* amax) {
  constexpr u32 each = percentile_workspace::bins / 1024;
  __shared__ u64 sums[1024];
  u64 sum = 0;
  for (u32 i = 0; i < each; ++i) sum += w->counts[threadIdx.x * each + i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    u64 left = Pass == 0 ? rank : w->rank, bin = 0;
    while (left > sums[bin]) left -= sums[bin++];
    bin *= each;
    while (left > w->counts[bin]) left -= w->counts[bin++];
    if (Pass == 0) {
      w->upper = bin;
      w->rank = left;
    } else {
      *amax = bit_cast<float>(static_cast<u32>(w->upper << 15 | bin));
    }
  }
  __syncthreads();
  if (Pass == 0)
    for (u32 i = 0; i < each; ++i) w->counts[threadIdx.x * each + i] = 0;
}

}  // namespace detail

/// As host::percentile_amax, to *amax; `workspace` and `amax` are device memory. Five operations on the
/// stream; never synchronises, never allocates. Errors: see validate(), null or misaligned pointers; *amax is
/// then untouched.
template <matrix_like M>
errc percentile_amax(M const& x, double share, percentile_workspace* workspace, float* amax,
                     cudaStream_t stream = nullptr) {
  if (const errc e = validate(x); e != errc::ok) return e;
  if (const errc e = ::fourscale::detail::check_percentile(workspace, amax); e != errc::ok) return e;
  const cudaError_t cleared = cudaMemsetAsync(workspace, 0, sizeof *workspace, stream);
  if (cleared != cudaSuccess) return errc::cuda_failed;
  const u64 rank = ::fourscale::detail::percentile_rank(share, x.rows * x.cols);
  const auto input = detail::as_input(x);
  const unsigned grid = detail::few_ctas(x.rows * x.cols);
  detail::count_kernel<0><<<grid, detail::cta_threads, 0, stream>>>(input, workspace);
  detail::select_kernel<0><<<1, 1024, 0, stream>>>(workspace, rank, amax);
  detail::count_kernel<1><<<grid, detail::cta_threads, 0, stream>>>(input, workspace);
  detail::select_kernel<1><<<1, 1024, 0, stream>>>(workspace, rank, amax);
  return detail::launched();
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
