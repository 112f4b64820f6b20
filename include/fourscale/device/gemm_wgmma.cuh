// SPDX-License-Identifier: Apache-2.0
// The GEMM with Blackwell's bits on Hopper, decoded operands in, D out: the kernel, how D is cut into tiles
// for clusters of two CTAs (wgmma_plan), and a prepared call with its workspace (wgmma_call). How the kernel
// works: mma/wgmma_roles.cuh and, for data whose block scales spread, mma/wgmma_by_blocks.cuh.
#pragma once

#include "../mma/wgmma_by_blocks.cuh"
#include "../mma/wgmma_roles.cuh"
#include "gemm_certify_products.cuh"
#include "gemm_decode.cuh"
#include "gemm_mma_sync.cuh"
#include "tensor_map.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The kernel's body: from decoded operands to D, by certificates or by blocks. All threads of a CTA call
/// it. By certificates, one thread of warp 0 loads, warps 1 to 3 certify, and two warpgroups multiply.
template <class P, template <int> class Memory, int Cols>
FOURSCALE_D void multiply_decoded(P const& p, Memory<Cols>& m) {
  namespace w = mma::wgmma;
  auto& m_of_blocks = reinterpret_cast<w::by_blocks::shared_memory<Cols>&>(m);
  static_assert(sizeof(m_of_blocks) <= offsetof(w::shared_memory<Cols>, walks), "Barriers lie behind it.");
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const bool low = w::has_low_tiles<Cols>(p);
  w::begin(p, m, low);
  if (p.steps != nullptr && threadIdx.x == 0 && blockIdx.x == 0)
    mma::detail::add_count(p.steps->in_f32, p.d.rows * p.d.cols * p.a.steps);
  ptx::barrier_cluster_wait();
  cudaGridDependencySynchronize();  // until the operands are decoded, and strips certified
  const w::gemm_way way = w::way_of(p);
  __syncthreads();  // the tiles are found
  if (way.refused) return;
  if (way.by_blocks) {
    if (threadIdx.x == 0) w::by_blocks::init_barriers(m_of_blocks);
    __syncthreads();
    w::by_blocks::run(p, m_of_blocks, warp);
  } else if (warp < 4) {
    ptx::setmaxnreg_dec<w::other_registers>();
    if (warp == 0 && ptx::elect_sync()) w::load(p, m);
    if (warp > 0 && !way.by_strips) w::certify<false>(p, m, static_cast<u32>(warp) - 1);
    if constexpr (!P::grouped)
      if (warp > 0 && way.by_strips) w::certify<true>(p, m, static_cast<u32>(warp) - 1);
  } else {
    ptx::setmaxnreg_inc<w::multiply_registers>();
    if (warp < 8 || !low) w::multiply(p, m, warp / 4 - 1);
  }
}

/// Persistent, in clusters of two. In a compilation pass without the instructions the kernel is empty.
template <int Cols, class P>
FOURSCALE_KERNEL void __launch_bounds__(mma::wgmma::threads, 1)
    gemm_wgmma_kernel([[maybe_unused]] const __grid_constant__ P p) {
  if constexpr (arch::has_wgmma) {
    namespace w = mma::wgmma;
    extern __shared__ __align__(1024) u8 bytes[];
    __shared__ own_kilobyte own;
    own.keep();
    auto& m = *reinterpret_cast<w::shared_memory<Cols>*>(bytes);
    static_assert(sizeof(m) + sizeof(own) <= mma::hopper_shared_bytes);
    multiply_decoded(p, m);
  }
}

/// The map of an operand's values: boxes of one step by `box_rows` rows.
inline errc encode_decoded(mma::decoded_operand const& x, int box_rows, CUtensorMap& map) {
  const u64 k = static_cast<u64>(x.padded_k());
  return encode_map({reinterpret_cast<u64>(x.values), k, static_cast<u64>(x.rows), 2 * k},
                    {ptx::tma_type::bytes, mma::decoded_step, box_rows, ptx::swizzle::b128},
                    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, map);
}

/// The map of D where outputs go by boxes; else `map` is left alone. P: .d, .beta, .factor_of.
template <class P>
errc encode_outputs(P const& p, int tile_cols, CUtensorMap& map) {
  auto const& d = p.d;
  using T = typename decltype(p.d)::value_type;
  if (mma::way_of_outputs(d, p.beta, p.factor_of.same_for_all()) != mma::output_way::boxes) return errc::ok;
  return encode_map(d.data, mma::tensor_of_outputs(d, tile_cols),
                    sizeof(T) == 4 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_UINT16, map);
}

/// Clusters that run at once, a CTA on each SM; 0 if the device does not tell.
inline int clusters_at_once() {
  return device_attribute(cudaDevAttrMultiProcessorCount) / mma::wgmma::cluster_ctas;
}

inline constexpr int tile_rows_of(mma::cluster_tiles lie) {
  return lie == mma::cluster_tiles::low ? mma::wgmma::low_tile_rows : mma::wgmma::tile_rows;
}
/// How many tiles of clusters D has, below each other and side by side.
struct cluster_counts {
  i64 down, along;

  cluster_counts(i64 rows, i64 cols, int tile_cols, mma::cluster_tiles lie) {
    using mma::wgmma::cluster_ctas;
    const bool stacked = lie == mma::cluster_tiles::stacked;
    down = ceil_div<i64>(rows, tile_rows_of(lie) * (stacked ? cluster_ctas : 1));
    along = ceil_div<i64>(cols, tile_cols * (stacked ? 1 : cluster_ctas));
  }
};
/// How many tiles of clusters D has.
inline i64 clusters_of(i64 rows, i64 cols, int tile_cols,
                       mma::cluster_tiles lie = mma::cluster_tiles::stacked) {
  const cluster_counts counts(rows, cols, tile_cols, lie);
  return counts.down * counts.along;
}
/// How D is cut: columns of a CTA's tile, how many clusters multiply, whether they share the last tiles
/// along K (mma/tile_parts.cuh), and how the tiles of a cluster's CTAs lie.
struct wgmma_plan {
  using cluster_tiles = mma::cluster_tiles;
  int tile_cols, clusters;
  bool split;
  cluster_tiles lie;

  /// One way to cut D, and the relative time of a step of such a tile.
  struct cut {
    int cols;
    cluster_tiles lie;
    int time;
  };
  /// Narrower tiles copy as many rows of A for fewer columns. CTAs side by side share the rows of A in place
  /// of those of B, which are more in tiles of 192 columns. As measured: docs/gemm_experiments.md.
  static constexpr cut cuts[] = {{192, cluster_tiles::stacked, 40}, {192, cluster_tiles::side_by_side, 44},
                                 {128, cluster_tiles::stacked, 32}, {128, cluster_tiles::side_by_side, 32},
                                 {64, cluster_tiles::stacked, 25},  {64, cluster_tiles::side_by_side, 25},
                                 {64, cluster_tiles::low, 20}};

  /// Chooses the cut that should take the least time. `runs`: of a tile along K. `at_once`: clusters that
  /// run at once; `shared_at_once`: those that have memory to hand over accumulators. To hand them over
  /// takes a run. Clusters that share tiles are at different places of K, so that a run takes a quarter
  /// more. Of cuts that take the same time it chooses the one with fewer clusters, and tiles side by side if
  /// they fill more than half of the GPU: they copy less. `may(cut)`: whether a cut may be chosen.
  template <class May>
  static wgmma_plan of(i64 rows, i64 cols, i64 runs, i64 at_once, i64 shared_at_once, May const& may) {
    wgmma_plan best{};
    i64 least = 0;
    for (cut const& c : cuts) {
      if (!may(c)) continue;
      const i64 tiles = clusters_of(rows, cols, c.cols, c.lie), shared = tiles % at_once + at_once,
                whole = 100 * runs * ceil_div<i64>(tiles, at_once),
                even = 100 * ceil_div<i64>(tiles * runs, at_once) +
                       25 * ceil_div<i64>(shared * runs, at_once) + 100;
      const bool split =
          tiles > at_once && at_once <= shared_at_once && even < whole && c.lie != cluster_tiles::low;
      const i64 time = (split ? even : whole) * c.time;
      const int clusters = static_cast<int>(tiles < at_once ? tiles : at_once);
      const bool instead = clusters < best.clusters || (clusters == best.clusters && 2 * clusters > at_once);
      if (best.tile_cols != 0 && (time > least || (time == least && !instead))) continue;
      best = {c.cols, clusters, split, c.lie};
      least = time;
    }
    return best;
  }
};

/// Memory for accumulators that are handed over (mma/carried_sums.cuh): a part for each cluster's tile of
/// 128 columns, at most for as many clusters as Hopper has, and none for fewer than `fewest` tiles.
struct carried_memory {
  static constexpr i64 most_clusters = 72, fewest = 33,
                       sum_bytes = mma::carried_sums::bytes_of_cta(mma::wgmma::multiply_threads, 96),
                       ctas = mma::wgmma::cluster_ctas;
  static i64 clusters(i64 rows, i64 cols) {
    const i64 tiles = clusters_of(rows, cols, 128);
    return tiles < fewest ? 0 : tiles < most_clusters ? tiles : most_clusters;
  }
  static int words(i64 clusters) { return static_cast<int>(clusters * ctas); }
  static i64 word_bytes(i64 clusters) {
    return round_up<i64>(i64{words(clusters)} * 4, mma::decoded_operand::alignment);
  }
  static i64 bytes(i64 clusters) { return clusters * ctas * sum_bytes + word_bytes(clusters); }
  static mma::carried_sums in(u8* at, i64 clusters) {
    return {reinterpret_cast<float*>(at), reinterpret_cast<u32*>(at + clusters * ctas * sum_bytes)};
  }
};

/// Bytes of the samples that say which way the kernel goes. They lie before carried_memory.
inline constexpr i64 sample_bytes =
    round_up<i64>(mma::wgmma::way_samples * sizeof(mma::wgmma::way_sample), mma::decoded_operand::alignment);

/// The strips that are certified ahead (gemm_certify.cuh), in memory at `at`; none where that does not pay.
inline mma::wgmma::certified_strips strips_of(u8* at, i64 rows, i64 cols, i64 steps) {
  using mma::wgmma::certifies_ahead;
  if (!certifies_ahead(rows, cols, steps)) return {};
  auto strips = mma::wgmma::certified_strips::in(at, rows, cols);
  strips.by_products = certifies_ahead(rows, cols, steps, true);
  return strips;
}

/// action.template operator()<Cols>() for a tile of `cols` columns: 192, 128 or 64.
template <class Action>
errc for_tile_cols(int cols, Action const& action) {
  switch (cols) {
    case 192:
      return action.template operator()<192>();
    case 128:
      return action.template operator()<128>();
    default:
      return action.template operator()<64>();
  }
}
/// Launches `clusters` clusters, which run at once, a `Memory` for each CTA. The kernel begins early.
template <class Memory, class P>
errc launch_wgmma(void (*kernel)(const P), P const& p, int clusters, cudaStream_t stream) {
  namespace w = mma::wgmma;
  constexpr int bytes = sizeof(Memory);
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess)
    return errc::cuda_failed;
  return launch_clusters<begins::early>(kernel, clusters, w::cluster_ctas, w::threads, bytes, stream, p);
}

/// Lets wgmma_plan choose from all cuts.
struct any_cut {
  constexpr bool operator()(wgmma_plan::cut const&) const { return true; }
};

/// A call whose arguments are checked: see decoded_call. Behind the operands the workspace has the samples,
/// the memory for accumulators and the certified strips.
template <class F, class LA, class G, class LB, class T>
struct wgmma_call : decoded_call<F, LA, G, LB, mma::wgmma::problem<T, mma::factor_of_output<F, G>>> {
  using problem = mma::wgmma::problem<T, mma::factor_of_output<F, G>>;
  using base = decoded_call<F, LA, G, LB, problem>;
  using base::p, base::state, base::behind;
  wgmma_plan plan{};
  i64 carries;  ///< clusters that have memory to hand over accumulators

  /// `may(cut)`: which cuts wgmma_plan chooses from. `most`: how many clusters run at once; 0: all that fit.
  template <class BA, class BB, class May = any_cut>
  wgmma_call(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
             matrix_view<T> const& d, gemm_factors factors, void* workspace, gemm_steps* steps,
             May const& may = {}, int most = 0)
      : base(a, b, {{}, {}, {}, {}, {}, d, {factors.alpha, a.amax, b.amax}, factors.beta, steps}, workspace),
        carries(most != 0 ? most : carried_memory::clusters(d.rows, d.cols)) {
    const int at_once = most != 0 ? most : clusters_at_once();
    if (at_once == 0) state = errc::cuda_failed;
    if (clusters_of(d.rows, d.cols, 128) >= i64{1} << 28) state = errc::too_large;
    if (state != errc::ok) return;
    plan = wgmma_plan::of(d.rows, d.cols, ceil_div<i64>(p.a.steps, mma::wgmma::run_steps), at_once, carries,
                          may);
    p.split = plan.split, p.lie = plan.lie;
    p.samples = reinterpret_cast<mma::wgmma::way_sample*>(behind());
    p.carried = carried_memory::in(behind() + sample_bytes, carries);
    p.certified =
        strips_of(behind() + sample_bytes + carried_memory::bytes(carries), d.rows, d.cols, p.a.steps);
    state = encode_decoded(p.a, tile_rows_of(p.lie), p.map_a);
    if (state == errc::ok) state = encode_decoded(p.b, plan.tile_cols / mma::wgmma::cluster_ctas, p.map_b);
    if (state == errc::ok) state = encode_outputs(p, plan.tile_cols, p.map_d);
  }
  /// Decodes the operands and, where that pays, certifies strips ahead.
  template <bool Certify = true>
  errc decode(cudaStream_t stream) const {
    const errc e = decode_operands<Certify>(stream);
    if (!Certify || e != errc::ok || p.certified.words == nullptr) return e;
    constexpr bool far_scales = !same_type<typename F::scale, e4m3> || !same_type<typename G::scale, e4m3>;
    const certify_problem<far_scales> ahead{p.a, p.b, p.samples, p.by_blocks_above, p.certified};
    const int processors = device_attribute(cudaDevAttrMultiProcessorCount);
    const errc certified = launch_certify(ahead, processors, stream);
    if (certified != errc::ok || !p.certified.by_products) return certified;
    return launch_certify_products(ahead, processors, stream);
  }
  template <bool Certify = true>
  errc decode_operands(cudaStream_t stream) const {
    return base::template decode<Certify>(stream, p.samples, zeros());
  }
  /// The words that the kernel which decodes has to leave as zeros.
  zero_words zeros() const {
    return p.split ? zero_words{p.carried.there, carried_memory::words(carries)} : zero_words{};
  }
  errc multiply(cudaStream_t stream) const {
    return for_tile_cols(plan.tile_cols, [&]<int Cols>() {
      return launch_wgmma<mma::wgmma::shared_memory<Cols>>(&gemm_wgmma_kernel<Cols, problem>, p,
                                                           plan.clusters, stream);
    });
  }
  static bool available() { return has_fast_wgmma(&gemm_wgmma_kernel<192, problem>); }
};

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
