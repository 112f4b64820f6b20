// SPDX-License-Identifier: Apache-2.0
// D = alpha * X * W^T + beta * D for few rows of X, as when tokens are generated one at a time: W is NVFP4
// and X is not quantized. All time goes to reading W, so it is read once, codes and scales, and decoded in
// registers; X is copied to shared memory.
#pragma once

#include "../mma/weight_only_tma.cuh"
#include "../ptx/cluster.cuh"
#include "../view/gemm_epilogue.hpp"
#include "../view/gemm_factors.hpp"
#include "../view/validate.hpp"
#include "launch.cuh"
#include "tensor_map.cuh"

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
  weight_only::tma_maps maps = {};  ///< if the plan is by TMA
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

/// Four floats in the shared memory of CTA `of` of the team, at the place that `mine` has in this one.
FOURSCALE_D inline float4 load_of_team(float const* mine, [[maybe_unused]] int of) {
  if constexpr (arch::has_cluster)
    return ptx::ld_shared_cluster_f32x4(
        ptx::mapa_shared_cluster(ptx::shared_address(mine), static_cast<u32>(of)));
  return *reinterpret_cast<float4 const*>(mine);
}

FOURSCALE_D inline float4 add(float4 a, float4 b) {
  return {ptx::add_rn_f32(a.x, b.x), ptx::add_rn_f32(a.y, b.y), ptx::add_rn_f32(a.z, b.z),
          ptx::add_rn_f32(a.w, b.w)};
}

/// A warp's sums of a tile to their slot, [row of X][row of W], or added to it.
template <int NTiles>
FOURSCALE_D void keep(weight_only::sums<NTiles> const& from, float* slot, bool add) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* const mine = slot + lane % 4 * 2 * weight_only::plan::sum_pitch + weight_only::lane_row(lane);
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
                            float amax, float const* slots) {
  weight_only::plan const& p = a.plan;
  constexpr int stride = weight_only::row_stride(Layout::has_padding);
  const int count = tiles.end - tiles.begin, rows = count * weight_only::warp_rows;
  constexpr int at_once = 4;  // neighbouring rows of W
  const float factor_of_all = weight_factor(a.factors.alpha, a.w.amax.range, amax);
  const int all = rows / at_once * static_cast<int>(a.x.rows), threads = static_cast<int>(blockDim.x);
#pragma unroll 1
  for (int e = cta_team::rank() * threads + static_cast<int>(threadIdx.x); e < all; e += p.ctas * threads) {
    const int m = e / (rows / at_once), row = (e - m * (rows / at_once)) * at_once, tile = row / 32;
    const i64 n = weight_only::row_at(tiles.begin + tile, row % 32, stride);
    const weight_only::span_of warps = p.warps_of(tile, count);
    float4 sum{};
#pragma unroll 1
    for (int warp = warps.begin; warp < warps.end; ++warp) {
      float const* const slot = slots + p.slot_of(warp, tile, count) * (p.slot_bytes() / 4) +
                                m * weight_only::plan::sum_pitch + row % 32;
      float4 part[weight_only::most_ctas];
      FOURSCALE_UNROLL
      for (int i = 0; i < weight_only::most_ctas; ++i)
        part[i] = i < p.ctas ? load_of_team(slot, i) : float4{};
      FOURSCALE_UNROLL
      for (int i = 0; i < weight_only::most_ctas; ++i) sum = add(sum, part[i]);
    }
    const float sums[at_once] = {sum.x, sum.y, sum.z, sum.w};
    FOURSCALE_UNROLL
    for (int i = 0; i < at_once; ++i) {
      if (n + i >= a.d.cols) break;
      const float factor =
          a.w.amax.by_row() ? weight_factor(a.factors.alpha, a.w.amax.range, amax_of_row(a.w, n + i))
                            : factor_of_all;
      store_output(a.d.at(m, n + i), factor, ptx::mul_rn_f32(sums[i], weight_only::sum_factor),
                   a.factors.beta);
    }
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

/// Under a programmatic launch: until here nothing was read that a kernel before may have written.
FOURSCALE_D inline void wait_for_kernel_before() {
  if constexpr (weight_only::programmatic_launch && arch::has_cluster) ptx::griddepcontrol_wait();
}

/// How weights and X come to shared memory by copies of all lanes, and how a stage of them is added.
template <int NTiles, class T, class Layout>
struct weight_only_copies {
  weight_only::plan const& p;
  weight_only::weight_stream<Layout> stream;
  u8 *ring, *scale_ring, *x;
  int slot = 0, scale_slot = 0;

  template <class TD>
  FOURSCALE_D weight_only_copies(weight_only_problem<T, Layout, TD> const& a, u8* memory, int cluster)
      : p(a.plan),
        stream(a.w, a.plan, a.wide_codes, a.wide_scales, cta_team::rank(), cluster),
        ring(memory + weight_only::weight_walk::warp() * p.code_ring_bytes()),
        scale_ring(memory + p.scales_at() + weight_only::weight_walk::warp() * p.scale_ring_bytes()),
        x(memory + p.x_at()) {
    wait_for_kernel_before();
    for (int i = 0; i < p.depth; ++i) stream.start(ring, scale_ring, i);
  }
  FOURSCALE_D weight_only::weight_walk const& walk() const { return stream.walk; }

  /// X of a pass, for all warps.
  template <class TD>
  FOURSCALE_D void fill_x(weight_only_problem<T, Layout, TD> const& a, int pass) {
    __syncthreads();
    weight_only::fill_x<NTiles>(a.x, walk().first_stage() + pass * p.pass_stages, walk().count_of(pass), a.wide_x,
                                x);
    __syncthreads();
  }

  /// Adds a stage times stage `of_x` of X; halves are refilled as they are read.
  FOURSCALE_D void add_stage(int of_x, weight_only::sums<NTiles>& sums) {
    const weight_only::filled_x<NTiles> x_stage{x + of_x * weight_only::x_stage_bytes(NTiles)};
#pragma unroll 1
    for (int half = 0; half < weight_only::halves; ++half) {
      wait_for_first(p.depth);
      weight_only::lane_weights<T> w;
      w.load(ring + slot * weight_only::half_bytes, scale_ring + scale_slot * weight_only::scales_bytes, half,
             Layout::has_padding);
      __syncwarp();
      constexpr bool refill_first = arch::has_cluster;  // sm_80 has too few registers
      if constexpr (refill_first) stream.start(ring, scale_ring, slot);
      weight_only::add_half(w, x_stage, half, sums);
      if constexpr (!refill_first) stream.start(ring, scale_ring, slot);
      slot = slot + 1 == p.depth ? 0 : slot + 1;
    }
    scale_slot = scale_slot + 1 == weight_only::scale_depth(p.depth) ? 0 : scale_slot + 1;
  }
};

/// The same by TMA. X is asked for before W, or it would wait for all that the rings hold.
template <int NTiles, class T, class Layout>
struct weight_only_tma {
  weight_only::plan const& p;
  u8 *ring, *scale_ring, *x;
  std::uint64_t* x_arrived;
  weight_only::tma_stream<Layout> stream;
  int slot = 0;
  u32 parity = 0, x_parity = 0;

  template <class TD>
  FOURSCALE_D weight_only_tma(weight_only_problem<T, Layout, TD> const& a, u8* memory, int cluster)
      : p(a.plan),
        ring(memory + weight_only::weight_walk::warp() * p.code_ring_bytes()),
        scale_ring(memory + p.scales_at() + weight_only::weight_walk::warp() * p.scale_ring_bytes()),
        x(memory + p.x_at()),
        x_arrived(barriers(a.plan, memory)),
        stream(a.maps, p, a.w.cols, cta_team::rank(), cluster,
               x_arrived + 1 + weight_only::weight_walk::warp() * p.depth) {
    __syncthreads();
    wait_for_kernel_before();
    start_x(0);
#pragma unroll 1
    for (int i = 0; i < p.depth; ++i) stream.start(ring, scale_ring, i);
  }
  FOURSCALE_D weight_only::weight_walk const& walk() const { return stream.walk; }

  template <class TD>
  FOURSCALE_D void fill_x(weight_only_problem<T, Layout, TD> const&, int pass) {
    if (!first_fill) {
      __syncthreads();
      start_x(pass);
    }
    first_fill = false;
    ptx::mbarrier_wait(ptx::shared_address(x_arrived), x_parity);
    x_parity ^= 1;
  }

  FOURSCALE_D void add_stage(int of_x, weight_only::sums<NTiles>& sums) {
    const weight_only::tma_x<NTiles> x_stage{x + of_x * weight_only::x_stage_bytes(NTiles)};
    ptx::mbarrier_wait(ptx::shared_address(stream.full + slot), parity);
#pragma unroll 1
    for (int half = 0; half < weight_only::halves; ++half) {
      weight_only::lane_weights<T> w;
      w.load_tma(ring + slot * weight_only::code_bytes, scale_ring + slot * weight_only::scales_bytes, half,
                 Layout::has_padding);
      if (half == 1) {
        __syncwarp();
        stream.start(ring, scale_ring, slot);
      }
      weight_only::add_half(w, x_stage, half, sums);
    }
    if (++slot == p.depth) slot = 0, parity ^= 1;
  }

 private:
  bool first_fill = true;

  FOURSCALE_D static std::uint64_t* barriers(weight_only::plan const& p, u8* memory) {
    auto* const all = reinterpret_cast<std::uint64_t*>(memory + p.barriers_at());
    if (threadIdx.x < static_cast<unsigned>(p.barriers())) cuda::ptx::mbarrier_init(all + threadIdx.x, 1);
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
    return all;
  }
  FOURSCALE_D void start_x(int pass) {
    weight_only::start_x<NTiles>(stream.maps, walk().first_stage() + pass * p.pass_stages, walk().count_of(pass),
                                 x, x_arrived);
  }
};

/// A warp's sums, and where they go.
template <int NTiles, class Loads>
struct weight_only_warp {
  weight_only::plan const& p;
  Loads loads;
  float* slots;
  weight_only::sums<NTiles> sums;
  int tile = -1, of_pass = 0;    ///< of a unit, whose sums these are, and the first pass in them
  bool others_may_read = false;  ///< sums of the unit before

  template <class P>
  FOURSCALE_D weight_only_warp(P const& a, u8* memory, int cluster)
      : p(a.plan), loads(a, memory, cluster), slots(reinterpret_cast<float*>(memory + p.slots_at())) {}

  /// Items of a pass in a unit of `count` tiles.
  FOURSCALE_D void add_pass(int pass, int count) {
    const weight_only::span_of items = p.items_of(weight_only::weight_walk::warp(), count);
    const int stages = loads.walk().count_of(pass);
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
#pragma unroll 1
      for (; stage < end; ++stage) loads.add_stage(stage, sums);
    }
  }

  /// Sums of a tile, if there is one, to their slot.
  FOURSCALE_D void keep_tile(int count) {
    if (tile < 0) return;
    wait_for_readers();
    keep(sums, slots + p.slot_of(weight_only::weight_walk::warp(), tile, count) * (p.slot_bytes() / 4),
         of_pass > 0);
    tile = -1;
  }
  FOURSCALE_D void wait_for_readers() {
    if (others_may_read) cta_team::wait();
    others_may_read = false;
  }
};

/// A cluster takes a run of tiles of W, a CTA of it a part of K. Weights are on their way before X is.
template <int NTiles, class Loads, class P>
FOURSCALE_D void multiply_weights(P const& a, u8* memory) {
  weight_only::plan const& p = a.plan;
  const int cluster = static_cast<int>(blockIdx.x) / p.ctas;
  weight_only_warp<NTiles, Loads> warp(a, memory, cluster);
  const float amax = a.w.amax.by_row() ? 0.0f : amax_of_row(a.w, 0);  // needed at the end only
#pragma unroll 1
  for (int unit = 0; unit < p.units; ++unit) {
    const weight_only::span_of tiles = p.tiles_of(cluster, unit);
    const int count = tiles.end - tiles.begin;
    if constexpr (!arch::has_cluster) warp.wait_for_readers();  // __syncthreads()
#pragma unroll 1
    for (int pass = 0; pass < p.passes(); ++pass) {
      if (!p.one_pass() || unit == 0) warp.loads.fill_x(a, pass);
      warp.add_pass(pass, count);
    }
    warp.keep_tile(count);
    warp.wait_for_readers();
    cta_team::arrive();
    cta_team::wait();
    store_unit<NTiles>(a, tiles, amax, warp.slots);
    cta_team::arrive();
    warp.others_may_read = true;
  }
  if constexpr (arch::has_cluster) warp.wait_for_readers();
}

template <int NTiles, bool Tma, class T, class Layout, class TD>
FOURSCALE_KERNEL void __launch_bounds__(32 * weight_only::most_warps(NTiles, Tma), 1)
    weight_only_kernel(__grid_constant__ weight_only_problem<T, Layout, TD> const a) {
  extern __shared__ __align__(1024) u8 weight_only_memory[];
  if constexpr (!Tma)
    multiply_weights<NTiles, weight_only_copies<NTiles, T, Layout>>(a, weight_only_memory);
  else if constexpr (arch::has_cluster)
    multiply_weights<NTiles, weight_only_tma<NTiles, T, Layout>>(a, weight_only_memory);
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
template <int NTiles, bool Tma, class T, class Layout, class TD>
errc weight_only_machine_of(weight_only::machine& m) {
  auto* const kernel = &weight_only_kernel<NTiles, Tma, T, Layout, TD>;
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
    const cudaLaunchConfig_t config = weight_only_config(m.sms, 1 << size, weight_only::most_warps(NTiles, Tma),
                                                         m.shared_bytes, true, launch, nullptr);
    if (cudaOccupancyMaxActiveClusters(&m.at_once[size], kernel, &config) != cudaSuccess)
      return errc::cuda_failed;
  }
  known = device, of_known = m;
  return errc::ok;
}

/// Maps for TMA; false if it cannot read what they describe.
template <int NTiles, class T, class Layout, class TD>
bool make_maps(weight_only_problem<T, Layout, TD>& a) {
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
errc launch_weight_only(weight_only_problem<T, Layout, TD> a, weight_only::tuning const& tuning,
                        cudaStream_t stream) {
  weight_only::machine m;
  if (const errc e = weight_only_machine_of<NTiles, Tma, T, Layout, TD>(m); e != errc::ok) return e;
  if constexpr (Tma)
    if (!m.clusters || !make_maps<NTiles>(a)) return launch_weight_only<NTiles, false>(a, tuning, stream);
  const int tiles = weight_only::tiles_of(a.w.rows, weight_only::row_stride(Layout::has_padding));
  a.plan = weight_only::make_plan(static_cast<int>(a.x.rows), tiles, a.w.cols, m, tuning, Tma);
  if (a.plan.warps == 0) return errc::no_instruction;
  cudaLaunchAttribute launch[2]{};
  const cudaLaunchConfig_t config = weight_only_config(a.plan.clusters, a.plan.ctas, a.plan.warps,
                                                       a.plan.bytes(), m.clusters, launch, stream);
  if (cudaLaunchKernelEx(&config, &weight_only_kernel<NTiles, Tma, T, Layout, TD>, a) != cudaSuccess)
    return errc::cuda_failed;
  return launched();
}

template <class T, class Layout, class TD>
errc launch_weight_only(weight_only_problem<T, Layout, TD> const& a, weight_only::tuning const& tuning,
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
