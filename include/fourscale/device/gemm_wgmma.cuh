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
template <int Cols, class P>
FOURSCALE_KERNEL void __launch_bounds__(mma::wgmma::threads, 1)
    gemm_wgmma_kernel([[maybe_unused]] const __grid_constant__ P p) {
  if constexpr (arch::has_wgmma) {
    namespace w = mma::wgmma;
    extern __shared__ __align__(1024) u8 bytes[];
    // Tells check_available() that this is not the empty kernel. `bytes` begins behind it, so it has a whole
    // KiB: in debug builds nvcc aligns that no further.
    __shared__ struct alignas(1024) own_memory { u32 not_empty; } own;
    asm volatile("" ::"r"(ptx::shared_address(&own)));
    auto& m = *reinterpret_cast<w::shared_memory<Cols>*>(bytes);
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

/// Clusters that run at once; 0 if the device does not tell.
inline int clusters_at_once() {
  int device = 0, processors = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
    return 0;
  return processors / mma::wgmma::cluster_ctas;
}

inline i64 clusters_of(i64 rows, i64 cols, int tile_cols) {
  return ceil_div<i64>(rows, mma::wgmma::tile_rows * mma::wgmma::cluster_ctas) *
         ceil_div<i64>(cols, tile_cols);
}
/// Columns of a tile: 192, or 128 if the last of them is done sooner so. A step of the narrow one takes 0.8
/// of the time for two thirds of the outputs, since shared memory is read as often for its rows.
inline int tile_cols_of(i64 rows, i64 cols, int at_once) {
  const i64 wide = ceil_div<i64>(clusters_of(rows, cols, 192), at_once),
            narrow = ceil_div<i64>(clusters_of(rows, cols, 128), at_once);
  return 10 * wide <= 8 * narrow ? 192 : 128;
}

/// As many clusters as run at once, or fewer where there are fewer tiles.
template <int Cols, class P>
errc launch_wgmma(P const& p, cudaStream_t stream) {
  namespace w = mma::wgmma;
  constexpr int bytes = sizeof(w::shared_memory<Cols>);
  auto* const kernel = &gemm_wgmma_kernel<Cols, P>;
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess)
    return errc::cuda_failed;
  const i64 tiles = clusters_of(p.d.rows, p.d.cols, Cols), most = clusters_at_once();
  if (tiles >= i64{1} << 30) return errc::too_large;
  return launch_clusters(kernel, tiles < most ? tiles : most, w::cluster_ctas, w::threads, bytes, stream, p);
}

/// A checked call: see decoded_call.
template <class F, class LA, class G, class LB, class T>
struct wgmma_call : decoded_call<F, LA, G, LB, mma::wgmma::problem<T, mma::factor_of_output<F, G>>> {
  using problem = mma::wgmma::problem<T, mma::factor_of_output<F, G>>;
  using base = decoded_call<F, LA, G, LB, problem>;
  using base::p, base::state;
  int tile_cols;

  /// `columns` of a tile: 128, 192, or 0 for those that are faster.
  template <class BA, class BB>
  wgmma_call(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
             matrix_view<T> const& d, gemm_factors factors, void* workspace, gemm_steps* steps,
             int columns = 0)
      : base(a, b, {{}, {}, {}, {}, {}, d, {factors.alpha, a.amax, b.amax}, factors.beta, steps}, workspace) {
    const int at_once = clusters_at_once();
    if (at_once == 0) state = errc::cuda_failed;
    tile_cols = columns != 0 || at_once == 0 ? columns : tile_cols_of(d.rows, d.cols, at_once);
    if (state == errc::ok) state = encode_decoded(p.a, mma::wgmma::tile_rows, p.map_a);
    if (state == errc::ok) state = encode_decoded(p.b, tile_cols / mma::wgmma::cluster_ctas, p.map_b);
    if (state == errc::ok && mma::way_of_outputs(p) == mma::output_way::boxes)
      state = encode_map({reinterpret_cast<u64>(d.data), static_cast<u64>(d.cols), static_cast<u64>(d.rows),
                          static_cast<u64>(d.ld) * sizeof(T)},
                         {ptx::tma_type::bytes, mma::box_cols, mma::output_rows, ptx::swizzle::b128},
                         CU_TENSOR_MAP_DATA_TYPE_UINT16, p.map_d);
  }
  errc multiply(cudaStream_t stream) const {
    return tile_cols == 192 ? launch_wgmma<192>(p, stream) : launch_wgmma<128>(p, stream);
  }
  static bool available() { return check_available(&gemm_wgmma_kernel<192, problem>, 1) == errc::ok; }
};

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
