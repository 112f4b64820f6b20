// SPDX-License-Identifier: Apache-2.0
// device::gemm_fp8(): the GEMM of FP8, with scales per tensor or per 128 values. On Hopper it is by FP8
// tensor cores (mma/fp8_roles.cuh), elsewhere by mma.sync of f16 (mma/fp8_warp.cuh). Here are the public
// function, its kernels and their launch. docs/native_gemm.md derives the error bound.
#pragma once

#include "../mma/fp8_roles.cuh"
#include "../mma/fp8_warp.cuh"
#include "gemm_mma_sync.cuh"
#include "gemm_wgmma.cuh"
#include "tensor_map.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The kernel for Hopper: persistent, in clusters of two. In a compilation pass without wgmma it is empty.
template <int Cols, class P>
FOURSCALE_KERNEL void __launch_bounds__(mma::fp8::threads, 1)
    gemm_fp8_wgmma_kernel([[maybe_unused]] const __grid_constant__ P p) {
  if constexpr (arch::has_wgmma) {
    namespace f = mma::fp8;
    extern __shared__ __align__(1024) u8 bytes[];
    __shared__ own_kilobyte own;
    own.keep();
    auto& m = *reinterpret_cast<f::shared_memory<Cols>*>(bytes);
    static_assert(sizeof(m) + sizeof(own) <= mma::hopper_shared_bytes);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (threadIdx.x == 0) f::init_barriers<P>(m);
    ptx::barrier_cluster_arrive_relaxed();
    ptx::barrier_cluster_wait();
    if (warp < 4) {
      ptx::setmaxnreg_dec<f::other_registers>();
      if (warp == 0 && ptx::elect_sync()) f::load(p, m);
      if constexpr (P::scaled)
        if (warp > 0) f::fetch_scales(p, m, warp - 1);
    } else {
      ptx::setmaxnreg_inc<f::multiply_registers>();
      f::multiply(p, m, warp / 4 - 1);
    }
  }
}

/// The kernel by mma.sync: a CTA takes 64 x 64 outputs. `tiles_along`: how many of them D has in a row.
template <class P>
FOURSCALE_KERNEL void __launch_bounds__(32 * mma::fp8::warps)
    gemm_fp8_kernel(const __grid_constant__ P p, i64 tiles_along, bool wide_a, bool wide_b) {
  __shared__ mma::output_strip strips[mma::fp8::warps];
  constexpr int tile = mma::fp8::warps * mma::output_rows;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const i64 row = blockIdx.x / tiles_along * tile + warp * mma::output_rows;
  mma::fp8::multiply_warp(p, row, blockIdx.x % tiles_along * mma::fp8::warp_cols, wide_a, wide_b,
                          strips[warp]);
}

/// A call of gemm_fp8() with checked arguments.
template <class F, class LA, class G, class LB, class T>
struct fp8_call {
  using problem = mma::fp8::problem<F, LA, G, LB, T, mma::fp8::factor_of_output<F, G>>;
  problem p;

  /// Whether all rows of codes begin at multiples of 16 bytes, as TMA needs. K is a multiple of 16.
  template <class View>
  static bool starts_at_16(View const& q) {
    return reinterpret_cast<u64>(q.codes) % 16 == 0;
  }
  /// Whether scales begin at multiples of four bytes, which the kernel for Hopper copies.
  bool scales_are_words() const {
    return !problem::scaled ||
           (reinterpret_cast<u64>(p.a.scales) | reinterpret_cast<u64>(p.b.scales)) % sizeof(float) == 0;
  }
  static bool has_wgmma() { return has_fast_wgmma(&gemm_fp8_wgmma_kernel<192, problem>); }
  /// Whether coordinates, up to a tile's edge beyond D, fit in the 32 bits of TMA and of Hopper's kernel.
  bool has_coordinates() const {
    constexpr i64 most = (i64{1} << 31) - 1024;
    return p.d.rows <= most && p.d.cols <= most && p.a.cols <= most;
  }
  bool by_wgmma() const {
    return starts_at_16(p.a) && starts_at_16(p.b) && scales_are_words() && has_coordinates() && has_wgmma();
  }

  template <class View>
  static errc encode(View const& q, int box_rows, CUtensorMap& map) {
    const u64 k = static_cast<u64>(q.cols);
    return encode_map({reinterpret_cast<u64>(q.codes), k, static_cast<u64>(q.rows), k},
                      {ptx::tma_type::bytes, mma::fp8::group_values, box_rows, ptx::swizzle::b128},
                      CU_TENSOR_MAP_DATA_TYPE_UINT8, map);
  }
  template <int Cols>
  errc launch_wgmma(int clusters, cudaStream_t stream) {
    namespace f = mma::fp8;
    constexpr int bytes = sizeof(f::shared_memory<Cols>);
    auto* const kernel = &gemm_fp8_wgmma_kernel<Cols, problem>;
    errc e = encode(p.a, f::tile_rows, p.map_a);
    if (e == errc::ok) e = encode(p.b, Cols / f::cluster_ctas, p.map_b);
    if (e == errc::ok) e = encode_outputs(p, Cols, p.map_d);
    if (e != errc::ok) return e;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess)
      return errc::cuda_failed;
    return launch_clusters(kernel, clusters, f::cluster_ctas, f::threads, bytes, stream, p);
  }
  /// `columns`: of a tile on Hopper, 128 or 192; 0 leaves the choice to the plan.
  errc run(int columns, cudaStream_t stream) {
    if (by_wgmma()) {
      const int at_once = clusters_at_once();
      if (at_once == 0) return errc::cuda_failed;
      const wgmma_plan plan =
          wgmma_plan::of(p.d.rows, p.d.cols, p.groups(), at_once, 0, [columns](wgmma_plan::cut const& c) {
            return c.lie == mma::cluster_tiles::stacked && (columns == 0 ? c.cols >= 128 : c.cols == columns);
          });
      return plan.tile_cols == 192 ? launch_wgmma<192>(plan.clusters, stream)
                                   : launch_wgmma<128>(plan.clusters, stream);
    }
    constexpr int tile = mma::fp8::warps * mma::output_rows;
    const i64 along = ceil_div<i64>(p.d.cols, mma::fp8::warp_cols),
              tiles = along * ceil_div<i64>(p.d.rows, tile);
    if (tiles >= i64{1} << 31) return errc::too_large;
    gemm_fp8_kernel<<<static_cast<unsigned>(tiles), 32 * mma::fp8::warps, 0, stream>>>(
        p, along, starts_at_16(p.a), starts_at_16(p.b));
    return launched();
  }
};

}  // namespace detail

/// The formats of gemm_fp8().
template <class F>
inline constexpr bool is_fp8 = same_type<F, fp8_e4m3> || same_type<F, fp8_e5m2> ||
                               same_type<F, fp8_block_e4m3> || same_type<F, fp8_block_e5m2>;

namespace detail {

/// gemm_fp8() by tiles of `columns` columns: see fp8_call::run().
template <class F, class LA, class BA, class G, class LB, class BB, class T>
errc gemm_fp8_by(int columns, block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
                 matrix_view<T> const& d, gemm_factors factors, cudaStream_t stream) {
  static_assert(is_fp8<F> && is_fp8<G> && F::block_size == G::block_size,
                "gemm_fp8() multiplies FP8 per tensor, or FP8 under a scale for 128 values, by its like.");
  if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
  using own = typename own_type<T>::type;
  fp8_call<F, LA, G, LB, own> call{
      {{}, {}, {}, a, b, as_output(d), {factors.alpha, a.amax, b.amax}, factors.beta}};
  return call.run(columns, stream);
}

}  // namespace detail

/// Whether gemm_fp8() of F by G to T has FP8 tensor cores on the current device: sm_90a, in a program that
/// was compiled for it. Elsewhere it multiplies by mma.sync of f16.
template <class F, class G, class T>
bool has_fp8_tensor_cores() {
  return detail::fp8_call<F, linear, G, linear, typename detail::own_type<T>::type>::has_wgmma();
}

/// D = alpha * A * B^T + beta * D for A (M x K), B (N x K), and D (M x N) in bf16, fp16 or float. A and B are
/// both per tensor (fp8_e4m3, fp8_e5m2), or both under a scale for 128 values (fp8_block_e4m3,
/// fp8_block_e5m2; 2-D blocks of weights have their scale repeated for each row).
///
/// Tensor cores sum groups of 128 products along K. The groups are added in f32, under their scales. The sums
/// are within the bound of docs/native_gemm.md. alpha and the tensor scales make one factor of an output,
/// (alpha * decode_a) * decode_b, rounded after each operation. NaN and infinity among codes and block scales
/// propagate as in IEEE 754. A tensor scale that is NaN or infinite counts as 1, as for dequantize(). D is
/// not read when beta = 0.
///
/// One kernel on the stream; never synchronises, never allocates, needs no workspace. Fastest on sm_90a, for
/// codes that begin at a multiple of 16 bytes, scales at a multiple of 4, and dimensions up to 2^31 - 1024.
/// Errors: those of host::gemm; too_large from 2^31 tiles of 64 x 64 on, by mma.sync. D is then untouched.
template <class F, class LA, class BA, class G, class LB, class BB, class T>
errc gemm_fp8(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
              matrix_view<T> const& d, gemm_factors factors = {}, cudaStream_t stream = nullptr) {
  return detail::gemm_fp8_by(0, a, b, d, factors, stream);
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
