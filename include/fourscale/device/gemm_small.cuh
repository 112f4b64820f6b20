// SPDX-License-Identifier: Apache-2.0
// D = alpha * X * W^T + beta * D for few rows of X, as when tokens are generated one at a time: W is NVFP4
// and X is not quantized. All time goes to reading W, so it is read once, codes and scales, and decoded in
// registers; X is copied to shared memory.
#pragma once

#include "../mma/weight_only_stream.cuh"
#include "../mma/weight_only_tile.cuh"
#include "../ptx/cluster.cuh"
#include "../view/gemm_epilogue.hpp"
#include "../view/gemm_factors.hpp"
#include "../view/validate.hpp"
#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

namespace weight_only = mma::weight_only;

/// The arguments of the kernel.
template <class T, class Layout, class TD>
struct weight_only_problem {
  matrix_view<T const> x;
  block_scaled_view<nvfp4, Layout, u8 const> w;
  matrix_view<TD> d;
  gemm_factors factors;
  bool wide_x = false, wide_codes = false, wide_scales = false;
  weight_only::plan plan = {};
};

/// The CTAs that share a unit: a cluster, or one CTA where there are none. wait() returns when all threads
/// have arrived.
struct cta_team {
  FOURSCALE_D static int rank() {
    if constexpr (arch::has_cluster) return static_cast<int>(ptx::cluster_ctarank());
    return 0;
  }
  FOURSCALE_D static void arrive() {
    if constexpr (arch::has_cluster) ptx::barrier_cluster_arrive();
  }
  FOURSCALE_D static void wait() {
    if constexpr (arch::has_cluster)
      ptx::barrier_cluster_wait();
    else
      __syncthreads();
  }
};

/// Floats in the shared memory of a CTA of the team, at the place that `mine` has in this one.
struct floats_of_team {
  float* mine;
  u32 there = 0;

  FOURSCALE_D floats_of_team(float* to, [[maybe_unused]] int of) : mine(to) {
    if constexpr (arch::has_cluster)
      there = ptx::mapa_shared_cluster(ptx::shared_address(to), static_cast<u32>(of));
  }
  FOURSCALE_D void store(int i, float x) const {
    if constexpr (arch::has_cluster)
      ptx::st_shared_cluster_f32(there + 4u * static_cast<u32>(i), x);
    else
      mine[i] = x;
  }
};

/// A warp's sums to the CTA that adds up their rows: sums[part of K][row of X][row of W].
template <int NTiles>
FOURSCALE_D void hand_over(weight_only::plan const& p, weight_only::sums<NTiles> const& from, float* to) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int part = cta_team::rank() * p.parts + warp / p.row_warps();
  float* const mine = to + (part * NTiles * 8 + lane % 4 * 2) * p.sum_pitch();
  FOURSCALE_UNROLL
  for (int j = 0; j < weight_only::lane_rows; ++j) {
    const int row = weight_only::row_of(warp % p.row_warps(), lane, j, weight_only::row_stride(p.unit_rows));
    const int owner = row / p.rows_of_cta(), local = row - owner * p.rows_of_cta();
    const floats_of_team sums(mine + local, owner);
    FOURSCALE_UNROLL
    for (int i = 0; i < 2 * NTiles; ++i)
      sums.store((i / 2 * 8 + i % 2) * p.sum_pitch(), from.d[j / 2][i / 2][j % 2 * 2 + i % 2]);
  }
}

/// Adds up the parts of K, in order, and stores this CTA's rows of a unit: columns of D.
template <int NTiles, class T, class Layout, class TD>
FOURSCALE_D void store_unit(weight_only_problem<T, Layout, TD> const& a, int unit, float factor,
                            float const* sums) {
  weight_only::plan const& p = a.plan;
  const int rows = p.rows_of_cta(), count = rows * static_cast<int>(a.x.rows), parts = p.ctas * p.parts;
  const i64 first = i64{unit} * p.unit_rows + cta_team::rank() * rows;
  for (int e = static_cast<int>(threadIdx.x); e < count; e += static_cast<int>(blockDim.x)) {
    const int m = e / rows, local = e - m * rows;
    const i64 n = first + local;
    if (n >= a.d.cols) continue;
    float const* const from = sums + m * p.sum_pitch() + local;
    float sum = *from;
#pragma unroll 8
    for (int part = 1; part < parts; ++part)
      sum = ptx::add_rn_f32(sum, from[part * NTiles * 8 * p.sum_pitch()]);
    if (a.w.amax.by_row()) factor = weight_factor(a.factors.alpha, a.w.amax.range, amax_of_row(a.w, n));
    store_output(a.d.at(m, n), factor, ptx::mul_rn_f32(sum, weight_only::sum_factor), a.factors.beta);
  }
}

/// Adds the stages of a pass to a warp's sums, and starts those that come `depth` later.
template <int NTiles, class T, class Layout>
FOURSCALE_D void add_stages(weight_only::weight_stream<Layout>& stream, weight_only::warp_stage* ring,
                            int& slot, int& stage, int pass_begin, int pass_end, u8 const* x,
                            weight_only::sums<NTiles>& sums) {
#pragma unroll 1
  for (; stage < pass_end; stage += stream.p.parts) {
    weight_only::warp_stage& here = ring[slot];
    u8 const* const x_here = x + (stage - pass_begin) * weight_only::x_stage_bytes(NTiles);
    ptx::cp_async_wait_group<2 * weight_only::depth - 1>();
    __syncwarp();
    weight_only::add_half<T>(here, 0, x_here, sums);
    ptx::cp_async_wait_group<2 * weight_only::depth - 2>();
    __syncwarp();
    weight_only::add_half<T>(here, 1, x_here, sums);
    __syncwarp();
    stream.start(here);
    slot = slot + 1 == weight_only::depth ? 0 : slot + 1;
  }
}

/// A cluster takes every clusters-th unit of rows of W, a CTA of it a part of K.
template <int NTiles, class T, class Layout, class TD>
FOURSCALE_KERNEL void __launch_bounds__(32 * weight_only::most_warps(NTiles), 1)
    weight_only_kernel(__grid_constant__ weight_only_problem<T, Layout, TD> const a) {
  extern __shared__ __align__(128) u8 weight_only_memory[];
  weight_only::plan const& p = a.plan;
  auto* const ring =
      reinterpret_cast<weight_only::warp_stage*>(weight_only_memory) + threadIdx.x / 32 * weight_only::depth;
  float* const parts = reinterpret_cast<float*>(weight_only_memory + p.ring_bytes());
  u8* const x = weight_only_memory + p.ring_bytes() + p.sum_bytes();
  const int first_unit = static_cast<int>(blockIdx.x) / p.ctas;
  if constexpr (weight_only::programmatic_launch && arch::has_cluster) ptx::griddepcontrol_wait();
  weight_only::weight_stream<Layout> stream(a.w, p, a.wide_codes, a.wide_scales, cta_team::rank(),
                                            first_unit);
  for (int i = 0; i < weight_only::depth; ++i) stream.start(ring[i]);
  cta_team::arrive();
  const float factor =
      a.w.amax.by_row() ? 0.0f : weight_factor(a.factors.alpha, a.w.amax.range, amax_of_row(a.w, 0));
  weight_only::sums<NTiles> sums;
  int slot = 0;
#pragma unroll 1
  for (int unit = first_unit; unit < p.units; unit += p.clusters) {
    sums.clear();
    int stage = stream.part;
#pragma unroll 1
    for (int begin = 0; begin < stream.stages; begin += p.pass_stages) {
      const int left = stream.stages - begin, count = left < p.pass_stages ? left : p.pass_stages;
      if (!p.one_pass() || unit == first_unit) {
        __syncthreads();
        weight_only::fill_x<NTiles>(a.x, stream.first_stage + begin, count, a.wide_x, x);
        __syncthreads();
      }
      add_stages<NTiles, T>(stream, ring, slot, stage, begin, begin + count, x, sums);
    }
    cta_team::wait();  // all have stored the unit before
    hand_over<NTiles>(p, sums, parts);
    cta_team::arrive();
    cta_team::wait();
    store_unit<NTiles>(a, unit, factor, parts);
    if (unit + p.clusters < p.units) cta_team::arrive();
  }
}

/// What the current device offers.
inline errc weight_only_machine(weight_only::machine& m) {
  int device = 0, major = 0;
  const bool ok = cudaGetDevice(&device) == cudaSuccess &&
                  cudaDeviceGetAttribute(&m.sms, cudaDevAttrMultiProcessorCount, device) == cudaSuccess &&
                  cudaDeviceGetAttribute(&m.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
                      cudaSuccess &&
                  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess;
  return ok ? errc::ok : errc::cuda_failed;
}

/// A launch of a plan; the attributes must outlive it.
inline cudaLaunchConfig_t weight_only_config(weight_only::plan const& p, bool clusters,
                                             cudaLaunchAttribute (&attributes)[2], cudaStream_t stream) {
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = static_cast<unsigned>(p.ctas);
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(p.clusters * p.ctas));
  config.blockDim = dim3(static_cast<unsigned>(32 * p.warps));
  config.dynamicSmemBytes = static_cast<size_t>(p.bytes());
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = !clusters ? 0 : weight_only::programmatic_launch ? 2 : 1;
  return config;
}

/// Plans and launches the kernel for at most 64 rows of X.
template <int NTiles, class T, class Layout, class TD>
errc launch_weight_only(weight_only_problem<T, Layout, TD> a, cudaStream_t stream) {
  auto* const kernel = &weight_only_kernel<NTiles, T, Layout, TD>;
  weight_only::machine m;
  cudaFuncAttributes attributes{};
  if (const errc e = weight_only_machine(m); e != errc::ok) return e;
  if (cudaFuncGetAttributes(&attributes, reinterpret_cast<void const*>(kernel)) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return errc::no_instruction;
  }
  m.shared_bytes -= static_cast<int>(attributes.sharedSizeBytes);
  m.clusters = attributes.ptxVersion >= 90;  // the kernel was compiled for them
  const int rows = static_cast<int>(a.x.rows), ctas = weight_only::ctas_for(a.w.cols, m);
  int concurrent = m.sms / ctas > 0 ? m.sms / ctas : 1;
  a.plan = weight_only::make_plan(rows, a.w.rows, a.w.cols, m, concurrent);
  if (a.plan.warps == 0) return errc::no_instruction;
  cudaLaunchAttribute launch[2]{};
  if (cudaFuncSetAttribute(reinterpret_cast<void const*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                           m.shared_bytes) != cudaSuccess)
    return errc::cuda_failed;
  cudaLaunchConfig_t config = weight_only_config(a.plan, m.clusters, launch, stream);
  if (ctas > 1) {
    if (cudaOccupancyMaxActiveClusters(&concurrent, kernel, &config) != cudaSuccess || concurrent < 1)
      return errc::cuda_failed;
    a.plan = weight_only::make_plan(rows, a.w.rows, a.w.cols, m, concurrent);
    config = weight_only_config(a.plan, m.clusters, launch, stream);
  }
  if (cudaLaunchKernelEx(&config, kernel, a) != cudaSuccess) return errc::cuda_failed;
  return launched();
}

template <class T, class Layout, class TD>
errc launch_weight_only(weight_only_problem<T, Layout, TD> const& a, cudaStream_t stream) {
  if (a.x.rows <= 8) return launch_weight_only<1>(a, stream);
  if (a.x.rows <= 16) return launch_weight_only<2>(a, stream);
  if (a.x.rows <= 32) return launch_weight_only<4>(a, stream);
  return launch_weight_only<8>(a, stream);
}

/// True if four neighbouring scales, or 16 bytes of them in tiles, are whole words in memory.
template <class Layout>
bool scales_are_words(block_scaled_view<nvfp4, Layout, u8 const> const& w) {
  const u64 address = reinterpret_cast<u64>(w.scales);
  return Layout::has_padding ? address % 16 == 0 : address % 4 == 0 && w.blocks() % 4 == 0;
}

}  // namespace detail

/// D = alpha * X * W^T + beta * D for X (M x K) in bf16 or fp16, W (N x K) in NVFP4, D (M x N) in bf16, fp16
/// or float. Any M and N, K a multiple of 16. Meant for M <= 64, for which it is one kernel that reads W
/// once; more rows take one kernel for every 64.
///
/// A code times its scale is exact in either type of X, and so is its product with a value of X in FP32. They
/// are added in FP32 by the tensor cores, K in parts and the parts in order: the same device gives the same
/// bits every time, whatever the other rows of X hold. Then the epilogue of view/gemm_epilogue.hpp with
/// weight_factor(), the tensor scale included. A NaN scale makes its row of W, and so a column of D, NaN.
/// D is not read when beta = 0.
///
/// All pointers are device memory, that of the amax included. On the stream; never synchronises, never
/// allocates, needs no workspace. Fastest on sm_90 and later, where CTAs of a cluster share K, for K a
/// multiple of 256 and pointers that are multiples of 16; other rows and values go through slower loads.
///
/// Errors: see validate_gemm(); and no_instruction where the device cannot run this code. D is then
/// untouched.
template <class T, class LW, class BW, class TD>
errc gemm_weight_only(matrix_view<T> const& x, block_scaled_view<nvfp4, LW, BW> const& w,
                      matrix_view<TD> const& d, gemm_factors factors = {}, cudaStream_t stream = nullptr) {
  using own = typename detail::own_type<typename matrix_view<T>::value_type>::type;
  static_assert(same_type<own, bf16> || same_type<own, fp16>,
                "Activations of a weight-only GEMM are bf16 or fp16.");
  if (const errc e = validate_gemm(x, w, d); e != errc::ok) return e;
  const matrix_view<own const> input{reinterpret_cast<own const*>(x.data), x.rows, x.cols, x.ld};
  const auto output = detail::as_output(d);
  using out = typename decltype(output)::value_type;
  for (i64 row = 0; row < x.rows; row += mma::weight_only::most_rows_of_x) {
    const i64 left = x.rows - row,
              rows = left < mma::weight_only::most_rows_of_x ? left : i64{mma::weight_only::most_rows_of_x};
    detail::weight_only_problem<own, LW, out> a{
        {&input.at(row, 0), rows, x.cols, x.ld}, w, {&output.at(row, 0), rows, d.cols, d.ld}, factors};
    a.wide_x = detail::rows_are_vectors(a.x);
    a.wide_codes = reinterpret_cast<u64>(w.codes) % 16 == 0 && w.cols % 32 == 0;
    a.wide_scales = detail::scales_are_words(a.w);
    if (const errc e = detail::launch_weight_only(a, stream); e != errc::ok) return e;
  }
  return errc::ok;
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
