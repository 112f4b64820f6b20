// SPDX-License-Identifier: Apache-2.0
// MXFP6 and MXFP4 by one another with Blackwell's bits on Hopper: the kernel of mma/wgmma_in_32s.cuh from
// operands decoded to bf16. Strips of outputs that it has no certificate for it leaves to gemm_kernel::f16,
// which runs behind it in the same workspace and has nothing to do where there are none.
#pragma once

#include "../mma/wgmma_in_32s.cuh"
#include "gemm_decode_mx.cuh"
#include "gemm_f16.cuh"
#include "gemm_wgmma.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// Persistent, in clusters of two. In a compilation pass without the instructions the kernel is empty.
template <int Cols, class P>
FOURSCALE_KERNEL void __launch_bounds__(mma::wgmma::threads, 1)
    gemm_in_32s_kernel([[maybe_unused]] const __grid_constant__ P p) {
  if constexpr (arch::has_wgmma) {
    namespace w = mma::wgmma;
    extern __shared__ __align__(1024) u8 bytes[];
    __shared__ own_kilobyte own;
    own.keep();
    auto& m = *reinterpret_cast<w::shared_memory<Cols>*>(bytes);
    static_assert(sizeof(m) + sizeof(own) <= mma::hopper_shared_bytes);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const bool low = w::has_low_tiles<Cols>(p);
    w::begin(p, m, low);
    ptx::barrier_cluster_wait();
    cudaGridDependencySynchronize();  // until the operands are decoded
    __syncthreads();                  // the tiles are found
    if (warp < 4) {
      ptx::setmaxnreg_dec<w::other_registers>();
      if (warp == 0 && ptx::elect_sync()) w::load(p, m);
    } else {
      ptx::setmaxnreg_inc<w::multiply_registers>();
      if (warp < 8 || !low) w::multiply_in_32s(p, m, warp / 4 - 1);
    }
  }
}

/// A call whose arguments are checked. The workspace is that of wgmma_call; marks of failed strips lie where
/// that has strips which are certified ahead.
template <class F, class LA, class G, class LB, class T>
struct call_in_32s : wgmma_call<F, LA, G, LB, T> {
  using base = wgmma_call<F, LA, G, LB, T>;
  static constexpr int limit_runs = mma::runs_of_limits<F, G>;
  using problem = mma::wgmma::problem_in_32s<T, mma::factor_of_output<F, G>, limit_runs>;
  using base::a, base::b, base::p, base::plan, base::state;
  mma::failed_strips failed;
  f16_call<F, LA, G, LB, T, mma::f16_tile::problem_of_failed<T>> others;  ///< makes what has failed

  template <class BA, class BB, class May = any_cut>
  call_in_32s(block_scaled_view<F, LA, BA> const& x, block_scaled_view<G, LB, BB> const& y,
              matrix_view<T> const& d, gemm_factors factors, void* workspace, gemm_steps* counts,
              May const& may = {}, int most = 0)
      : base(x, y, d, factors, workspace, nullptr, may, most),
        failed(mma::failed_strips::in(this->behind() + sample_bytes + carried_memory::bytes(this->carries),
                                      d.cols)),
        others(x, y, d, factors, workspace, counts) {
    others.p.failed = failed;
    if (state == errc::ok) state = others.state;
  }

  template <bool = true>
  errc decode(cudaStream_t stream) const {
    const decoded_besides besides{
        mma::run_limits::in(p.a),
        mma::run_limits::in(p.b),
        nullptr,
        {this->zeros(), {failed.any, static_cast<int>(failed.words(p.d.rows, p.d.cols))}}};
    const i64 ctas = mma::wgmma::way_samples + p.a.row_groups() + p.b.row_groups();
    decode_mx_kernel<limit_runs>
        <<<static_cast<unsigned>(ctas), 32 * decode_warps, 0, stream>>>(a, b, p.a, p.b, besides);
    return launched();
  }
  errc multiply(cudaStream_t stream) const {
    const problem all{p, mma::run_limits::in(p.a), mma::run_limits::in(p.b), failed};
    errc e = for_tile_cols(plan.tile_cols, [&]<int Cols>() {
      return launch_wgmma<mma::wgmma::shared_memory<Cols>>(&gemm_in_32s_kernel<Cols, problem>, all,
                                                           plan.clusters, stream);
    });
    if (e == errc::ok) e = others.decode(stream);
    return e != errc::ok ? e : others.multiply(stream);
  }
  static bool available() { return has_fast_wgmma(&gemm_in_32s_kernel<192, problem>); }
};

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
