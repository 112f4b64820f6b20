// SPDX-License-Identifier: Apache-2.0
// The kernel and launch of gemm_kernel::bf16: the GEMM of NVFP4 or MXFP4 with Blackwell's bits on any GPU
// from sm_80 on, from decoded operands (gemm_decode.cuh) to D. How it multiplies: mma/bf16_tile.cuh.
#pragma once

#include "../mma/bf16_tile.cuh"
#include "gemm_decode.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// A CTA computes one tile of D. All of them leave D alone if the samples refuse the values.
template <class P>
FOURSCALE_KERNEL void __launch_bounds__(mma::bf16_tile::threads, 1)
    gemm_bf16_kernel(const __grid_constant__ P p, int stages) {
  namespace t = mma::bf16_tile;
  if (p.samples != nullptr && mma::wgmma::sum_of_samples(p.samples).refused) return;
  extern __shared__ __align__(1024) u8 bytes[];
  if (p.steps != nullptr && threadIdx.x == 0 && blockIdx.x == 0)
    mma::detail::add_count(p.steps->in_f32, p.d.rows * p.d.cols * p.a.steps);
  const mma::tile_walk<t::tile_rows, t::tile_cols, 1> at(p);
  t::multiply(p, at.row(), at.col(), stages, bytes);
}

/// Finds how many stages the GPU has shared memory for, at most `most`. cuda_failed if these are too few.
inline errc stages_of_bf16_tile(int most, int& stages) {
  namespace t = mma::bf16_tile;
  int device = 0, bytes = 0;
  cudaError_t e = cudaGetDevice(&device);
  if (e == cudaSuccess) e = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  for (stages = most; stages > 0 && t::stage_memory::bytes(stages) > bytes;) --stages;
  return e == cudaSuccess && stages >= t::least_stages ? errc::ok : errc::cuda_failed;
}

inline i64 tiles_of_bf16(i64 rows, i64 cols) {
  namespace t = mma::bf16_tile;
  return ceil_div<i64>(rows, t::tile_rows) * ceil_div<i64>(cols, t::tile_cols);
}

/// Launches the kernel. `most_stages`: from two to four; fewer stages are slower.
template <class P>
errc launch_bf16(P const& p, cudaStream_t stream, int most_stages = mma::bf16_tile::most_stages) {
  namespace t = mma::bf16_tile;
  auto* const kernel = &gemm_bf16_kernel<P>;
  int stages = 0;
  if (const errc e = stages_of_bf16_tile(most_stages, stages); e != errc::ok) return e;
  const int bytes = t::stage_memory::bytes(stages);
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess)
    return errc::cuda_failed;
  kernel<<<static_cast<unsigned>(tiles_of_bf16(p.d.rows, p.d.cols)), t::threads, static_cast<size_t>(bytes),
           stream>>>(p, stages);
  return launched();
}

/// A GEMM by this kernel whose arguments have been checked: see decoded_call.
template <class F, class LA, class G, class LB, class T>
struct bf16_call : decoded_call<F, LA, G, LB, mma::bf16_tile::problem<T, mma::factor_of_output<F, G>>> {
  using base = decoded_call<F, LA, G, LB, mma::bf16_tile::problem<T, mma::factor_of_output<F, G>>>;
  using base::p, base::state;

  template <class BA, class BB>
  bf16_call(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
            matrix_view<T> const& d, gemm_factors factors, void* workspace, gemm_steps* steps)
      : base(a, b, {{}, {}, d, {factors.alpha, a.amax, b.amax}, factors.beta, steps}, workspace) {
    if (tiles_of_bf16(d.rows, d.cols) >= i64{1} << 30) state = errc::too_large;
  }
  errc multiply(cudaStream_t stream, int most_stages = mma::bf16_tile::most_stages) const {
    return launch_bf16(p, stream, most_stages);
  }
};

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
