// SPDX-License-Identifier: Apache-2.0
// The GEMM with Blackwell's bits on Hopper: decoded operands in, D out. How it works: mma/wgmma_roles.cuh.
#pragma once

#include "../mma/wgmma_roles.cuh"
#include "gemm_decode.cuh"
#include "gemm_mma_sync.cuh"
#include "tensor_map.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// Persistent, in clusters of two. In a pass without the instructions the kernel is empty.
template <class P>
FOURSCALE_KERNEL void __launch_bounds__(mma::wgmma::threads, 1)
    gemm_wgmma_kernel([[maybe_unused]] const __grid_constant__ P p) {
  if constexpr (arch::has_wgmma) {
    namespace w = mma::wgmma;
    extern __shared__ __align__(1024) u8 bytes[];
    // Tells check_available() that this is not the empty kernel. `bytes` begins behind it, so it has a whole
    // KiB: in debug builds nvcc aligns that no further.
    __shared__ struct alignas(1024) own_memory { u32 not_empty; } own;
    asm volatile("" ::"r"(ptx::shared_address(&own)));
    w::shared_memory& m = *reinterpret_cast<w::shared_memory*>(bytes);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (threadIdx.x == 0) w::init_barriers(m);
    if (p.steps != nullptr && threadIdx.x == 0 && blockIdx.x == 0)
      mma::detail::add_count(p.steps->in_f32, p.d.rows * p.d.cols * p.a.steps);
    cuda::ptx::barrier_cluster_arrive(cuda::ptx::sem_release);
    cuda::ptx::barrier_cluster_wait(cuda::ptx::sem_acquire);
    if (warp < 4) {
      ptx::setmaxnreg_dec<w::other_registers>();
      if (warp == 0 && ptx::elect_sync()) w::load(p, m);
      if (warp > 0) w::certify(p, m, warp - 1);
    } else {
      ptx::setmaxnreg_inc<w::multiply_registers>();
      w::multiply(p, m, warp / 4 - 1);
    }
    // No CTA goes while the other one of its cluster may still arrive at its barriers.
    cuda::ptx::barrier_cluster_arrive(cuda::ptx::sem_release);
    cuda::ptx::barrier_cluster_wait(cuda::ptx::sem_acquire);
  }
}

inline errc encode_decoded(mma::decoded_operand const& x, int box_rows, CUtensorMap& map) {
  const u64 k = static_cast<u64>(x.padded_k());
  return encode_map({reinterpret_cast<u64>(x.values), k, static_cast<u64>(x.rows), 2 * k},
                    {ptx::tma_type::bytes, mma::decoded_step, box_rows, ptx::swizzle::b128},
                    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, map);
}

/// As many clusters as run at once, or fewer where there are fewer tiles.
template <class P>
errc launch_wgmma(P const& p, cudaStream_t stream) {
  namespace w = mma::wgmma;
  auto* const kernel = &gemm_wgmma_kernel<P>;
  int device = 0, processors = 0;
  cudaError_t e = cudaGetDevice(&device);
  if (e == cudaSuccess) e = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (e == cudaSuccess)
    e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(w::shared_memory));
  if (e != cudaSuccess) return errc::cuda_failed;
  const i64 tiles = ceil_div<i64>(p.d.rows, w::tile_rows * w::cluster_ctas) *
                    ceil_div<i64>(p.d.cols, w::tile_cols),
            most = processors / w::cluster_ctas, clusters = tiles < most ? tiles : most;
  if (tiles >= i64{1} << 30) return errc::too_large;
  return launch_clusters(kernel, clusters, w::cluster_ctas, w::threads, sizeof(w::shared_memory), stream, p);
}

/// A checked call: see decoded_call.
template <class F, class LA, class G, class LB, class T>
struct wgmma_call : decoded_call<F, LA, G, LB, mma::wgmma::problem<T, mma::factor_of_output<F, G>>> {
  using problem = mma::wgmma::problem<T, mma::factor_of_output<F, G>>;
  using base = decoded_call<F, LA, G, LB, problem>;
  using base::p, base::state;

  template <class BA, class BB>
  wgmma_call(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
             matrix_view<T> const& d, gemm_factors factors, void* workspace, gemm_steps* steps)
      : base(a, b, {{}, {}, {}, {}, {}, d, {factors.alpha, a.amax, b.amax}, factors.beta, steps}, workspace) {
    state = encode_decoded(p.a, mma::wgmma::tile_rows, p.map_a);
    if (state == errc::ok) state = encode_decoded(p.b, mma::wgmma::half_cols, p.map_b);
    if (state == errc::ok && mma::way_of_outputs(p) == mma::output_way::boxes)
      state = encode_map({reinterpret_cast<u64>(d.data), static_cast<u64>(d.cols), static_cast<u64>(d.rows),
                          static_cast<u64>(d.ld) * sizeof(T)},
                         {ptx::tma_type::bytes, mma::box_cols, mma::output_rows, ptx::swizzle::b128},
                         CU_TENSOR_MAP_DATA_TYPE_UINT16, p.map_d);
  }
  errc multiply(cudaStream_t stream) const { return launch_wgmma(p, stream); }
  static bool available() { return check_available(&gemm_wgmma_kernel<problem>, 1) == errc::ok; }
};

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
