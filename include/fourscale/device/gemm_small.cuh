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

/// Floats in the shared memory of CTA `of` of the team, at the place that `mine` has in this one.
struct floats_of_team {
  float const* mine;
  u32 there = 0;

  FOURSCALE_D floats_of_team(float const* from, [[maybe_unused]] int of) : mine(from) {
    if constexpr (arch::has_cluster)
      there = ptx::mapa_shared_cluster(ptx::shared_address(from), static_cast<u32>(of));
  }
  FOURSCALE_D float load() const {
    if constexpr (arch::has_cluster) return ptx::ld_shared_cluster_f32(there);
    return *mine;
  }
};

/// A warp's sums of a tile to their slot, [row of X][row of W], or added to it.
template <int NTiles>
FOURSCALE_D void keep(weight_only::sums<NTiles> const& from, float* slot, bool add) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* const mine = slot + lane % 4 * 2 * weight_only::plan::sum_pitch + lane / 4;
  FOURSCALE_UNROLL
  for (int j = 0; j < weight_only::lane_rows; ++j) {
    FOURSCALE_UNROLL
    for (int i = 0; i < 2 * NTiles; ++i) {
      float& to = mine[(i / 2 * 8 + i % 2) * weight_only::plan::sum_pitch + 8 * j];
      const float x = from.d[j / 2][i / 2][j % 2 * 2 + i % 2];
      to = add ? ptx::add_rn_f32(to, x) : x;
    }
  }
}

/// Adds up the parts of K, in order, and stores this CTA's elements of a unit.
template <int NTiles, class T, class Layout, class TD>
FOURSCALE_D void store_unit(weight_only_problem<T, Layout, TD> const& a, weight_only::span_of tiles,
                            float factor, float const* slots) {
  weight_only::plan const& p = a.plan;
  constexpr int stride = weight_only::row_stride(Layout::has_padding);
  const int count = tiles.end - tiles.begin, rows = count * weight_only::warp_rows;
  const int all = rows * static_cast<int>(a.x.rows), threads = static_cast<int>(blockDim.x);
#pragma unroll 1
  for (int e = cta_team::rank() * threads + static_cast<int>(threadIdx.x); e < all; e += p.ctas * threads) {
    const int m = e / rows, row = e - m * rows, tile = row / 32, local = row % 32;
    const i64 n = weight_only::row_of(tiles.begin + tile, local % 8 * 4, local / 8, stride);
    if (n >= a.d.cols) continue;
    const weight_only::span_of warps = p.warps_of(tile, count);
    float sum = 0.0f;
#pragma unroll 1
    for (int warp = warps.begin; warp < warps.end; ++warp) {
      float const* const slot = slots + p.slot_of(warp, tile, count) * (p.slot_bytes() / 4) +
                                m * weight_only::plan::sum_pitch + local;
      float part[weight_only::most_ctas];
      FOURSCALE_UNROLL
      for (int i = 0; i < weight_only::most_ctas; ++i)
        part[i] = i < p.ctas ? floats_of_team(slot, i).load() : 0.0f;
      FOURSCALE_UNROLL
      for (int i = 0; i < weight_only::most_ctas; ++i) sum = ptx::add_rn_f32(sum, part[i]);
    }
    if (a.w.amax.by_row()) factor = weight_factor(a.factors.alpha, a.w.amax.range, amax_of_row(a.w, n));
    store_output(a.d.at(m, n), factor, ptx::mul_rn_f32(sum, weight_only::sum_factor), a.factors.beta);
  }
}

/// Waits until of the `depth` latest groups of copies the first has arrived.
FOURSCALE_D inline void wait_for_first(int depth) {
  static_assert(weight_only::least_depth == 2 && weight_only::most_depth == 4, "as below");
  if (depth == 3)
    ptx::cp_async_wait_group<2>();
  else if (depth == 4)
    ptx::cp_async_wait_group<3>();
  else
    ptx::cp_async_wait_group<1>();
  __syncwarp();
}

/// A warp's ring and its sums, and what lies where in shared memory.
template <int NTiles, class T, class Layout>
struct weight_only_warp {
  weight_only::plan const& p;
  weight_only::weight_stream<Layout> stream;
  u8* ring;
  float* slots;
  u8* x;
  weight_only::sums<NTiles> sums;
  int slot = 0, scale_slot = 0;
  int tile = -1, of_pass = 0;    ///< of a unit, whose sums these are, and the first pass in them
  bool others_may_read = false;  ///< sums of the unit before

  template <class TD>
  FOURSCALE_D weight_only_warp(weight_only_problem<T, Layout, TD> const& a, u8* memory)
      : p(a.plan),
        stream(a.w, a.plan, a.wide_codes, a.wide_scales, cta_team::rank(),
               static_cast<int>(blockIdx.x) / a.plan.ctas),
        ring(memory + threadIdx.x / 32 * static_cast<unsigned>(weight_only::ring_bytes(a.plan.depth))),
        slots(reinterpret_cast<float*>(memory + a.plan.rings_bytes())),
        x(memory + a.plan.rings_bytes() + a.plan.slots() * a.plan.slot_bytes()) {
    for (int i = 0; i < p.depth; ++i) stream.start(ring, i);
  }

  /// Adds half a stage times the same half of X, and starts one that comes `depth` later.
  FOURSCALE_D void add(int half, u8 const* x_half) {
    wait_for_first(p.depth);
    const weight_only::lane_weights<T> w(
        ring + slot * weight_only::half_bytes,
        ring + p.depth * weight_only::half_bytes + scale_slot * weight_only::scales_bytes, half,
        Layout::has_padding);
    __syncwarp();
    constexpr bool refill_first = arch::has_cluster;  // sm_80 has too few registers
    if constexpr (refill_first) stream.start(ring, slot);
    weight_only::add_half<T>(w, x_half, sums);
    if constexpr (!refill_first) stream.start(ring, slot);
    slot = slot + 1 == p.depth ? 0 : slot + 1;
    if (half == 1) scale_slot = scale_slot + 1 == weight_only::scale_depth(p.depth) ? 0 : scale_slot + 1;
  }

  /// Items of a pass in a unit of `count` tiles.
  FOURSCALE_D void add_pass(int pass, int count) {
    const weight_only::span_of items = p.items_of(stream.warp(), count);
    const int stages = stream.count_of(pass);
    int next = items.begin / p.pass_stages, stage = items.begin - next * p.pass_stages;
#pragma unroll 1
    for (int item = items.begin; item < items.end; ++next, stage = 0) {
      if (next != tile) {
        keep_tile(count);
        sums.clear();
        tile = next, of_pass = pass;
      }
      const int left = stage + items.end - item;
      int end = left < p.pass_stages ? left : p.pass_stages;
      item += end - stage;
      if (end > stages) end = stages;
      u8 const* x_half = x + stage * weight_only::x_stage_bytes(NTiles);
      const int halves = weight_only::halves * (end - stage);
#pragma unroll 1
      for (int i = 0; i < halves; ++i, x_half += weight_only::x_stage_bytes(NTiles) / 2) add(i % 2, x_half);
    }
  }

  /// Sums of a tile, if there is one, to their slot.
  FOURSCALE_D void keep_tile(int count) {
    if (tile < 0) return;
    wait_for_readers();
    keep(sums, slots + p.slot_of(stream.warp(), tile, count) * (p.slot_bytes() / 4), of_pass > 0);
    tile = -1;
  }
  FOURSCALE_D void wait_for_readers() {
    if (others_may_read) cta_team::wait();
    others_may_read = false;
  }
};

/// A cluster takes a run of tiles of W, a CTA of it a part of K. Weights are on their way before X is.
template <int NTiles, class T, class Layout, class TD>
FOURSCALE_KERNEL void __launch_bounds__(32 * weight_only::most_warps(NTiles), 1)
    weight_only_kernel(__grid_constant__ weight_only_problem<T, Layout, TD> const a) {
  extern __shared__ __align__(128) u8 weight_only_memory[];
  weight_only::plan const& p = a.plan;
  if constexpr (weight_only::programmatic_launch && arch::has_cluster) ptx::griddepcontrol_wait();
  weight_only_warp<NTiles, T, Layout> warp(a, weight_only_memory);
  const float factor =
      a.w.amax.by_row() ? 0.0f : weight_factor(a.factors.alpha, a.w.amax.range, amax_of_row(a.w, 0));
#pragma unroll 1
  for (int unit = 0; unit < p.units; ++unit) {
    const weight_only::span_of tiles = p.tiles_of(warp.stream.cluster, unit);
    const int count = tiles.end - tiles.begin;
    if constexpr (!arch::has_cluster) warp.wait_for_readers();  // __syncthreads()
#pragma unroll 1
    for (int pass = 0; pass < p.passes(); ++pass) {
      if (!p.one_pass() || unit == 0) {
        __syncthreads();
        weight_only::fill_x<NTiles>(a.x, warp.stream.first_stage + pass * p.pass_stages,
                                    warp.stream.count_of(pass), a.wide_x, warp.x);
        __syncthreads();
      }
      warp.add_pass(pass, count);
    }
    warp.keep_tile(count);
    warp.wait_for_readers();
    cta_team::arrive();
    cta_team::wait();
    store_unit<NTiles>(a, tiles, factor, warp.slots);
    cta_team::arrive();
    warp.others_may_read = true;
  }
  if constexpr (arch::has_cluster) warp.wait_for_readers();
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

/// A launch of CTAs in clusters; the attributes must outlive it.
inline cudaLaunchConfig_t weight_only_config(int clusters, int ctas, int warps, int bytes, bool has_clusters,
                                             cudaLaunchAttribute (&attributes)[2], cudaStream_t stream) {
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = static_cast<unsigned>(ctas);
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(clusters * ctas));
  config.blockDim = dim3(static_cast<unsigned>(32 * warps));
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = !has_clusters ? 0 : weight_only::programmatic_launch ? 2 : 1;
  return config;
}

/// What the current device offers to a kernel. Asked once by each thread of the CPU, for it takes longer than
/// a launch.
template <int NTiles, class T, class Layout, class TD>
errc weight_only_machine_of(weight_only::machine& m) {
  auto* const kernel = &weight_only_kernel<NTiles, T, Layout, TD>;
  thread_local int known = -1;
  thread_local weight_only::machine of_known;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return errc::cuda_failed;
  if (device != known) {
    cudaFuncAttributes attributes{};
    if (const errc e = weight_only_machine(m); e != errc::ok) return e;
    if (cudaFuncGetAttributes(&attributes, reinterpret_cast<void const*>(kernel)) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return errc::no_instruction;
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
  for (int size = 1; m.clusters && 1 << size <= weight_only::most_ctas; ++size) {
    cudaLaunchAttribute launch[2]{};
    const cudaLaunchConfig_t config = weight_only_config(m.sms, 1 << size, weight_only::most_warps(NTiles),
                                                         m.shared_bytes, true, launch, nullptr);
    if (cudaOccupancyMaxActiveClusters(&m.at_once[size], kernel, &config) != cudaSuccess)
      return errc::cuda_failed;
  }
  known = device, of_known = m;
  return errc::ok;
}

/// Plans and launches the kernel for at most 8 NTiles rows of X.
template <int NTiles, class T, class Layout, class TD>
errc launch_weight_only(weight_only_problem<T, Layout, TD> a, weight_only::tuning const& tuning,
                        cudaStream_t stream) {
  weight_only::machine m;
  if (const errc e = weight_only_machine_of<NTiles, T, Layout, TD>(m); e != errc::ok) return e;
  const int tiles = weight_only::tiles_of(a.w.rows, weight_only::row_stride(Layout::has_padding));
  a.plan = weight_only::make_plan(static_cast<int>(a.x.rows), tiles, a.w.cols, m, tuning);
  if (a.plan.warps == 0) return errc::no_instruction;
  cudaLaunchAttribute launch[2]{};
  const cudaLaunchConfig_t config = weight_only_config(a.plan.clusters, a.plan.ctas, a.plan.warps,
                                                       a.plan.bytes(), m.clusters, launch, stream);
  if (cudaLaunchKernelEx(&config, &weight_only_kernel<NTiles, T, Layout, TD>, a) != cudaSuccess)
    return errc::cuda_failed;
  return launched();
}

template <class T, class Layout, class TD>
errc launch_weight_only(weight_only_problem<T, Layout, TD> const& a, weight_only::tuning const& tuning,
                        cudaStream_t stream) {
  if (a.x.rows <= 8) return launch_weight_only<1>(a, tuning, stream);
  if (a.x.rows <= 16) return launch_weight_only<2>(a, tuning, stream);
  if (a.x.rows <= 32) return launch_weight_only<4>(a, tuning, stream);
  return launch_weight_only<8>(a, tuning, stream);
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
  for (i64 row = 0; row < x.rows; row += tuning.rows) {
    const i64 left = x.rows - row, rows = left < tuning.rows ? left : i64{tuning.rows};
    weight_only_problem<own, LW, out> a{
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
/// or float. Any M and N, K a multiple of 16. Meant for M <= 32, for which it is one kernel that reads W
/// once; more rows take one kernel for every 32.
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
  return detail::gemm_weight_only_by({}, x, w, d, factors, stream);
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
