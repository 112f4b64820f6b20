// SPDX-License-Identifier: Apache-2.0
// D = alpha * X * W^T + beta * D for few rows of X, as when tokens are generated one at a time: W is NVFP4
// and X is not quantized. All time goes to reading W, so it is read once, codes and scales, and decoded in
// registers; X is copied to shared memory. Where TMA can read both it does, else all lanes copy.
#pragma once

#include "../mma/weight_only_cta.cuh"
#include "../view/validate.hpp"
#include "launch.cuh"
#include "tensor_map.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

namespace weight_only = mma::weight_only;

template <int NTiles, bool Tma, class T, class Layout, class TD>
FOURSCALE_KERNEL void __launch_bounds__(32 * weight_only::most_warps(NTiles, Tma), 1)
    weight_only_kernel(__grid_constant__ weight_only::problem<T, Layout, TD> const a) {
  extern __shared__ __align__(1024) u8 weight_only_memory[];
  if constexpr (!Tma)
    weight_only::multiply<NTiles, weight_only::loads_by_copies<NTiles, T, Layout>>(a, weight_only_memory);
  else if constexpr (arch::has_cluster)
    weight_only::multiply<NTiles, weight_only::loads_by_tma<NTiles, T, Layout>>(a, weight_only_memory);
}

/// What a device offers.
inline errc weight_only_machine(int device, weight_only::machine& m) {
  const bool ok =
      cudaDeviceGetAttribute(&m.sms, cudaDevAttrMultiProcessorCount, device) == cudaSuccess &&
      cudaDeviceGetAttribute(&m.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess;
  return ok ? errc::ok : errc::cuda_failed;
}

/// A launch of CTAs in clusters; the attribute must outlive it.
inline cudaLaunchConfig_t weight_only_config(int clusters, int ctas, int warps, int bytes, bool has_clusters,
                                             cudaLaunchAttribute& cluster, cudaStream_t stream) {
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(ctas);
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(clusters * ctas));
  config.blockDim = dim3(static_cast<unsigned>(32 * warps));
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = has_clusters ? 1 : 0;
  return config;
}

/// Clusters of each size that the device runs at a time; larger ones are not for it, as where one process has
/// but few SMs of it.
template <class Kernel>
void find_clusters(Kernel* kernel, int warps, weight_only::machine& m) {
  m.most_ctas = 1;
  for (int size = 1; m.clusters && 1 << size <= weight_only::most_ctas; ++size) {
    cudaLaunchAttribute cluster{};
    const cudaLaunchConfig_t config =
        weight_only_config(m.sms, 1 << size, warps, m.shared_bytes, true, cluster, nullptr);
    const bool asked = cudaOccupancyMaxActiveClusters(&m.at_once[size], kernel, &config) == cudaSuccess;
    if (!asked) static_cast<void>(cudaGetLastError());
    if (!asked || m.at_once[size] < 1) return;
    m.most_ctas = 1 << size;
  }
}

/// What the current device offers to a kernel. Asked once by each thread of the CPU, for it takes longer than
/// a launch.
template <int NTiles, bool Tma, class T, class Layout, class TD>
errc weight_only_machine_of(weight_only::machine& m) {
  auto* const kernel = &weight_only_kernel<NTiles, Tma, T, Layout, TD>;
  thread_local int known = -1;
  thread_local weight_only::machine of_known;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return errc::cuda_failed;
  if (device != known) {
    cudaFuncAttributes attributes{};
    if (const errc e = weight_only_machine(device, m); e != errc::ok) return e;
    const cudaError_t e = cudaFuncGetAttributes(&attributes, reinterpret_cast<void const*>(kernel));
    if (e != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidDeviceFunction
                 ? errc::no_instruction
                 : errc::cuda_failed;
    }
    m.shared_bytes -= static_cast<int>(attributes.sharedSizeBytes);
    m.clusters = attributes.ptxVersion >= 90;  // the kernel was compiled for them
  } else {
    m = of_known;
  }
  if (cudaFuncSetAttribute(reinterpret_cast<void const*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                           m.shared_bytes) != cudaSuccess)
    return errc::cuda_failed;
  if (device == known) return errc::ok;
  find_clusters(kernel, weight_only::most_warps(NTiles, Tma), m);
  known = device, of_known = m;
  return errc::ok;
}

/// Maps for TMA; false if it cannot read what they describe.
template <int NTiles, class T, class Layout, class TD>
bool make_maps(weight_only::problem<T, Layout, TD>& a) {
  constexpr bool swizzled = Layout::has_padding;
  return weight_only::tma_can_read(swizzled, a.w.rows, a.w.cols) &&
         encode_map(a.w.codes, weight_only::tensor_of_codes(swizzled, a.w.rows, a.w.cols),
                    CU_TENSOR_MAP_DATA_TYPE_UINT8, a.maps.codes) == errc::ok &&
         encode_map(a.w.scales, weight_only::tensor_of_scales(swizzled, a.w.rows, a.w.cols),
                    CU_TENSOR_MAP_DATA_TYPE_UINT8, a.maps.scales) == errc::ok &&
         encode_map(a.x.data, weight_only::tensor_of_x(NTiles, a.x.rows, a.x.cols, a.x.ld),
                    CU_TENSOR_MAP_DATA_TYPE_UINT16, a.maps.x) == errc::ok;
}

/// Plans and launches the kernel for at most 8 NTiles rows of X.
template <int NTiles, bool Tma, class T, class Layout, class TD>
errc launch_weight_only(weight_only::problem<T, Layout, TD> a, weight_only::tuning const& tuning,
                        cudaStream_t stream) {
  weight_only::machine m;
  if (const errc e = weight_only_machine_of<NTiles, Tma, T, Layout, TD>(m); e != errc::ok) return e;
  if constexpr (Tma)
    if (!m.clusters || !make_maps<NTiles>(a)) return launch_weight_only<NTiles, false>(a, tuning, stream);
  const int tiles = weight_only::tiles_of(a.w.rows, weight_only::row_stride(Layout::has_padding));
  a.plan = weight_only::make_plan(static_cast<int>(a.x.rows), tiles, a.w.cols, m, tuning, Tma);
  if (a.plan.warps == 0) {  // too little shared memory, or too many warps are asked for
    if constexpr (Tma) return launch_weight_only<NTiles, false>(a, tuning, stream);
    return errc::no_instruction;
  }
  cudaLaunchAttribute cluster{};
  const cudaLaunchConfig_t config = weight_only_config(a.plan.clusters, a.plan.ctas, a.plan.warps,
                                                       a.plan.bytes(), m.clusters, cluster, stream);
  const cudaError_t e = cudaLaunchKernelEx(&config, &weight_only_kernel<NTiles, Tma, T, Layout, TD>, a);
  return e == cudaSuccess ? errc::ok : errc::cuda_failed;
}

template <class T, class Layout, class TD>
errc launch_weight_only(weight_only::problem<T, Layout, TD> const& a, weight_only::tuning const& tuning,
                        cudaStream_t stream) {
  if (a.x.rows <= 8) return launch_weight_only<1, true>(a, tuning, stream);
  if (a.x.rows <= 16) return launch_weight_only<2, true>(a, tuning, stream);
  if (a.x.rows <= 32) return launch_weight_only<4, true>(a, tuning, stream);
  return launch_weight_only<8, true>(a, tuning, stream);
}

/// True if the scales of each whole stage are 16 bytes and so aligned, or are in tiles that are.
template <class Layout>
bool scales_are_vectors(block_scaled_view<nvfp4, Layout, u8 const> const& w) {
  const bool aligned = reinterpret_cast<u64>(w.scales) % 16 == 0;
  return aligned && (Layout::has_padding || w.blocks() % weight_only::stage_scales == 0);
}

/// gemm_weight_only() with a plan of the caller's.
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
    if (const errc e = weight_only_machine_of<1, true, own, LW, out>(m); e != errc::ok) return e;
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
/// once; more rows take one kernel for every 64. Without TMA it is 32.
///
/// A code times its scale is exact in either type of X, and so is its product with a value of X in FP32. They
/// are added in FP32 by the tensor cores, K in parts and the parts in order: the same call on the same device
/// gives the same bits every time, whatever the other rows of X hold. How K is cut depends on M, N and K, on
/// what is aligned and on the device, and with it the last bits. Then the epilogue of view/gemm_epilogue.hpp
/// with weight_factor(), the tensor scale included. A NaN scale makes its row of W, and so a column of D,
/// NaN. D is not read when beta = 0.
///
/// All pointers are device memory, that of the amax included. On the stream; never synchronises, never
/// allocates, needs no workspace. Fastest on sm_90 and later, where CTAs of a cluster share K and TMA loads
/// W and X: for pointers and rows of X that are multiples of 16 bytes, and K a multiple of 256 with linear
/// scales, or N of 32 and K of 64 with swizzled ones. All else goes through slower loads.
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
