// SPDX-License-Identifier: Apache-2.0
// device::gemm_weight_only(): D = alpha * X * W^T + beta * D for few rows of X, as when tokens are generated
// one at a time. W is NVFP4, and X is not quantized. The time goes to W, so its codes and scales are read
// once and decoded in registers; X is copied to shared memory. Where TMA can read W and X, it does; else
// all lanes copy. Here are the public function, the choice of a kernel, and the kernel by mma.sync.
#pragma once

#include "../mma/weight_only_cta.cuh"
#include "../view/validate.hpp"
#include "gemm_small_wgmma.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The kernel by mma.sync. With Tma, it is empty in a compilation pass without clusters.
template <int NTiles, bool Tma, class T, class Layout, class TD>
FOURSCALE_KERNEL void __launch_bounds__(32 * weight_only::most_warps(NTiles, Tma), 1)
    weight_only_kernel(__grid_constant__ weight_only::problem<T, Layout, TD> const a) {
  extern __shared__ __align__(1024) u8 weight_only_memory[];
  if constexpr (!Tma)
    weight_only::multiply<NTiles, weight_only::loads_by_copies<NTiles, T, Layout>>(a, weight_only_memory);
  else if constexpr (arch::has_cluster)
    weight_only::multiply<NTiles, weight_only::loads_by_tma<NTiles, T, Layout>>(a, weight_only_memory);
}

/// The same as a variant of weight_only_machine_of().
template <int NTiles, bool Tma, class T, class Layout, class TD>
struct weight_only_by_mma_sync {
  static constexpr int warps = weight_only::most_warps(NTiles, Tma);
  static constexpr bool may_be_empty = false;

  static auto* kernel() { return &weight_only_kernel<NTiles, Tma, T, Layout, TD>; }
};

/// Makes the tensor maps. False if TMA cannot read W or X.
template <int NTiles, class T, class Layout, class TD>
bool make_maps(weight_only::problem<T, Layout, TD>& a) {
  constexpr bool swizzled = Layout::has_padding;
  return weight_only::tma_can_read(swizzled, a.w.rows, a.w.cols) &&
         make_maps(a, weight_only::tensor_of_codes(swizzled, a.w.rows, a.w.cols),
                   weight_only::tensor_of_scales(swizzled, a.w.rows, a.w.cols),
                   weight_only::tensor_of_x(NTiles, a.x.rows, a.x.cols, a.x.ld));
}

/// Plans and launches the kernel by mma.sync for at most 8 NTiles rows of X; without TMA where TMA cannot
/// read them or no plan fits.
template <int NTiles, bool Tma, class T, class Layout, class TD>
errc launch_weight_only(weight_only::problem<T, Layout, TD> a, weight_only::tuning const& tuning,
                        cudaStream_t stream) {
  using variant = weight_only_by_mma_sync<NTiles, Tma, T, Layout, TD>;
  weight_only::machine m;
  if (const errc e = weight_only_machine_of<variant>(m); e != errc::ok) return e;
  if constexpr (Tma)
    if (!m.clusters || !make_maps<NTiles>(a)) return launch_weight_only<NTiles, false>(a, tuning, stream);
  const int tiles = weight_only::tiles_of(a.w.rows, weight_only::row_stride(Layout::has_padding));
  a.plan = weight_only::make_plan(static_cast<int>(a.x.rows), tiles, a.w.cols, m, tuning, Tma);
  if (a.plan.warps == 0) {  // too little shared memory, or the caller asks for too many warps
    if constexpr (Tma) return launch_weight_only<NTiles, false>(a, tuning, stream);
    return errc::no_instruction;
  }
  cluster_launch launch(a.plan.clusters, a.plan.ctas, 32 * a.plan.warps, a.plan.bytes());
  launch.config.stream = stream;
  if (!m.clusters) launch.config.numAttrs = 0;
  const cudaError_t e = cudaLaunchKernelEx(&launch.config, variant::kernel(), a);
  return e == cudaSuccess ? errc::ok : errc::cuda_failed;
}

/// Takes the kernel by wgmma where it can run, unless `tuning` asks for mma.sync; else the one by mma.sync.
template <int NTiles, class T, class Layout, class TD>
errc launch_weight_only_either(weight_only::problem<T, Layout, TD> const& a,
                               weight_only::tuning const& tuning, cudaStream_t stream) {
  if (!tuning.mma_sync) {
    const weight_only::by_wgmma::problem<T, Layout, TD> p{a.x, a.w, a.d, a.factors, {}, {}};
    const errc e = launch_weight_only_wgmma<NTiles>(p, tuning.ctas, stream);
    if (e != errc::no_instruction) return e;
  }
  return launch_weight_only<NTiles, true>(a, tuning, stream);
}

/// The same for at most 64 rows of X.
template <class T, class Layout, class TD>
errc launch_weight_only(weight_only::problem<T, Layout, TD> const& a, weight_only::tuning const& tuning,
                        cudaStream_t stream) {
  if (a.x.rows <= 8) return launch_weight_only_either<1>(a, tuning, stream);
  if (a.x.rows <= 16) return launch_weight_only_either<2>(a, tuning, stream);
  if (a.x.rows <= 32) return launch_weight_only_either<4>(a, tuning, stream);
  return launch_weight_only_either<8>(a, tuning, stream);
}

/// True if the scales of each whole stage, 16 bytes, or the tiles of swizzled scales are aligned to 16 bytes.
template <class Layout>
bool scales_are_vectors(block_scaled_view<nvfp4, Layout, u8 const> const& w) {
  const bool aligned = reinterpret_cast<u64>(w.scales) % 16 == 0;
  return aligned && (Layout::has_padding || w.blocks() % weight_only::stage_scales == 0);
}

/// gemm_weight_only() with choices of the caller's for the plan.
template <class T, class LW, class BW, class TD>
errc gemm_weight_only_by(weight_only::tuning const& tuning, matrix_view<T> const& x,
                         block_scaled_view<nvfp4, LW, BW> const& w, matrix_view<TD> const& d,
                         gemm_factors factors, cudaStream_t stream) {
  using own = typename own_type<typename matrix_view<T>::value_type>::type;
  static_assert(same_type<own, bf16> || same_type<own, fp16>,
                "Activations of a weight-only GEMM are bf16 or fp16.");
  if (const errc e = validate_gemm(x, w, d); e != errc::ok) return e;
  const matrix_view<own const> input{reinterpret_cast<own const*>(x.data), x.rows, x.cols, x.ld};
  const auto output = as_output(d);
  using out = typename decltype(output)::value_type;
  i64 most = tuning.rows;
  if (most == 0 && x.rows <= 32) most = 32;
  if (most == 0) {
    weight_only::machine m;
    if (const errc e = weight_only_machine_of<weight_only_by_mma_sync<1, true, own, LW, out>>(m);
        e != errc::ok)
      return e;
    most = m.clusters && weight_only::tma_can_read(LW::has_padding, w.rows, w.cols) ? 64 : 32;
  }
  for (i64 row = 0; row < x.rows; row += most) {
    const i64 left = x.rows - row, rows = left < most ? left : most;
    weight_only::problem<own, LW, out> a{
        {&input.at(row, 0), rows, x.cols, x.ld}, w, {&output.at(row, 0), rows, d.cols, d.ld}, factors};
    a.wide_x = rows_are_vectors(a.x);
    a.wide_codes = reinterpret_cast<u64>(w.codes) % 16 == 0 && w.cols % 32 == 0;
    a.wide_scales = scales_are_vectors(a.w);
    if (const errc e = launch_weight_only(a, tuning, stream); e != errc::ok) return e;
  }
  return errc::ok;
}

}  // namespace detail

/// D = alpha * X * W^T + beta * D for X (M x K) in bf16 or fp16, W (N x K) in NVFP4, D (M x N) in bf16, fp16
/// or float. Any M and N, K a multiple of 16. Meant for M <= 64, for which it is one kernel that reads W
/// once. More rows take one kernel for every 64; without TMA, one for every 32.
///
/// A code times its scale is exact in either type of X, and so is its product with a value of X in FP32. The
/// tensor cores add products in FP32. K is split into parts, whose sums are added in order. So the same call
/// on the same device gives the same bits every time, whatever the other rows of X hold. How K is split
/// depends on M, N, K, alignment and the device, and so do the last bits. The epilogue is that of
/// view/gemm_epilogue.hpp, with weight_factor(), which includes the tensor scale. A NaN scale makes its row
/// of W, and so a column of D, NaN. D is not read when beta = 0.
///
/// All pointers are device memory, that of the amax included. Works on the stream; never synchronises, never
/// allocates, needs no workspace. Fastest on sm_90 and later, where CTAs of a cluster split K and TMA loads W
/// and X, and on sm_90a with K > 256, where wgmma multiplies. Both need pointers and rows of X that are
/// multiples of 16 bytes, and K a multiple of 256 with linear scales, or N of 32 and K of 64 with swizzled
/// ones. All else goes through slower loads.
///
/// Errors: see validate_gemm(); no_instruction where the device cannot run this code; cuda_failed. D is then
/// untouched, except rows that an earlier launch wrote.
template <class T, class LW, class BW, class TD>
errc gemm_weight_only(matrix_view<T> const& x, block_scaled_view<nvfp4, LW, BW> const& w,
                      matrix_view<TD> const& d, gemm_factors factors = {}, cudaStream_t stream = nullptr) {
  return detail::gemm_weight_only_by({}, x, w, d, factors, stream);
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
