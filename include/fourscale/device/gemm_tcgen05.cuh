// SPDX-License-Identifier: Apache-2.0
// gemm_tcgen05(): D = alpha * A * B^T + beta * D on the tensor cores of sm_100, sm_103 and sm_110. With
// another instruction set, the same kernel runs on their model. The kernel is in mma/tcgen05_roles.cuh (who
// does what) and tcgen05_store.cuh (the epilogue); its numbers are in tcgen05_tile.cuh, its instructions in
// tcgen05_hardware.cuh.
//
// With mma::tcgen05::model the kernel ran on an H200 and gave, bit for bit, what the chained model gives on
// the host (clusters of four: see docs/blackwell.md). With mma::tcgen05::hardware it was assembled and its
// machine code was read, but it never ran.
#pragma once

#include <cuda_runtime_api.h>

#include "../mma/tcgen05_model.cuh"
#include "../mma/tcgen05_roles.cuh"
#include "gemm_mma_sync.cuh"
#include "tensor_map.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The kernel is persistent: there are as many CTAs as SMs, and each takes tile after tile. In a compiler
/// pass without the instructions the kernel is empty, and gemm_tcgen05() refuses to launch it.
template <class Tile, class Set, class P>
FOURSCALE_KERNEL void __launch_bounds__(32 * (mma::tcgen05::warps + Set::helper_warps), 1)
    gemm_tcgen05_kernel([[maybe_unused]] const __grid_constant__ P p,
                        [[maybe_unused]] typename Set::state state) {
  if constexpr (Set::available()) {
    namespace tc = mma::tcgen05;
    extern __shared__ __align__(1024) u8 stages[];
    // `stages` begins behind `own`, so `own` takes whole KiB: in debug builds nvcc aligns `stages` no
    // further.
    __shared__ struct alignas(1024) own_memory {
      std::uint64_t barriers[Tile::barriers];
      alignas(16) u8 of_set[sizeof(typename Set::shared)];
      u32 tmem;
    } own;
    const Set set(state, reinterpret_cast<typename Set::shared&>(own.of_set), own.barriers, stages,
                  Tile::boxes_at);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp == tc::issue_warp) {
      set.alloc(&own.tmem, Tile::tmem_columns);
      set.relinquish_alloc_permit();
    }
    if (warp == tc::load_warp && set.issues()) tc::init_barriers<Tile>(set);
    __syncwarp();
    set.fence_before_thread_sync();
    set.sync();
    set.fence_after_thread_sync();

    if (warp < tc::epilogue_warps)
      tc::store<Tile>(set, p, stages + Tile::boxes_at, own.tmem);
    else if (warp == tc::load_warp)
      tc::load<Tile>(set, p, stages);
    else if (warp == tc::issue_warp)
      tc::issue<Tile>(set, p, stages, own.tmem);
    else
      set.help();
    __syncwarp();
    set.fence_before_thread_sync();
    set.sync();
    if (warp == tc::issue_warp) {
      set.fence_after_thread_sync();
      set.dealloc(own.tmem, Tile::tmem_columns);
      set.finish();
    }
  }
}

/// The codes of a matrix as TMA sees them: rows of bytes, since 4-bit codes are packed in bytes.
template <class Q>
ptx::tma_matrix tma_matrix_of(Q const& q) {
  const u64 row_bytes = static_cast<u64>(q.cols * Q::block_format_type::element::width / 8);
  return {reinterpret_cast<u64>(q.codes), row_bytes, static_cast<u64>(q.rows), row_bytes};
}
template <class Q>
errc encode_map(Q const& q, ptx::tma_box const& box, CUtensorMap& map) {
  return encode_map(tma_matrix_of(q), box, CU_TENSOR_MAP_DATA_TYPE_UINT8, map);
}
template <class Tile, class P>
errc encode_maps(P& p) {
  constexpr ptx::tma_box box_a{ptx::tma_type::bytes, Tile::stage_bytes, Tile::codes_a.rows},
      box_b{ptx::tma_type::bytes, Tile::stage_bytes, Tile::codes_b_loaded.rows};
  const errc e = encode_map(p.a, ptx::checked_box<box_a>(), p.codes_a);
  return e != errc::ok ? e : encode_map(p.b, ptx::checked_box<box_b>(), p.codes_b);
}

/// Sets p.by_boxes, and p.map_d if TMA can store D. It can if rows begin at multiples of 16 bytes and are
/// whole multiples of 16 bytes long, nothing is added (beta = 0), and one factor holds for all rows.
template <class Tile, class P>
errc encode_output(P& p) {
  constexpr i64 bytes = sizeof(*p.d.data);
  const ptx::tma_matrix m{reinterpret_cast<u64>(p.d.data), static_cast<u64>(p.d.cols),
                          static_cast<u64>(p.d.rows), static_cast<u64>(p.d.ld * bytes)};
  const bool by_row = p.a.amax.kind == amax_kind::per_row || p.b.amax.kind == amax_kind::per_row;
  p.by_boxes = p.factors.beta == 0.0f && !by_row && p.d.cols * bytes % 16 == 0 &&
               ptx::refusal(m, ptx::tma_type::bytes) == nullptr;
  if (!p.by_boxes) return errc::ok;
  constexpr ptx::tma_box box{ptx::tma_type::bytes, Tile::box_row_bytes / static_cast<int>(bytes),
                             Tile::box_rows, ptx::swizzle::b128};
  return encode_map(m, box, bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16 : CU_TENSOR_MAP_DATA_TYPE_UINT32,
                    p.map_d);
}

/// Launches as many CTAs as there are SMs, or fewer where there are fewer tiles, in whole clusters. Clusters
/// of four on all SMs need not fit at once: a cluster runs within one group of SMs, whose size need not be a
/// multiple of four. So the driver is asked how many fit.
template <class Tile, class Set, class P>
errc launch_persistent(P const& p, typename Set::state const& state, int most_ctas, cudaStream_t stream) {
  auto* const kernel = &gemm_tcgen05_kernel<Tile, Set, P>;
  int device = 0, ctas = most_ctas;
  cudaError_t e = cudaGetDevice(&device);
  if (e == cudaSuccess && ctas == 0)
    e = cudaDeviceGetAttribute(&ctas, cudaDevAttrMultiProcessorCount, device);
  if (e == cudaSuccess)
    e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::shared_bytes);
  if (e != cudaSuccess) return errc::cuda_failed;
  constexpr int threads = 32 * (mma::tcgen05::warps + Set::helper_warps);
  i64 most = ctas / Set::ctas;
  if (Set::ctas > 2 && most_ctas == 0) {
    const i64 fit = clusters_that_fit(kernel, Set::ctas, threads, Tile::shared_bytes);
    if (fit == 0) return errc::cuda_failed;
    if (fit < most) most = fit;
  }
  const i64 tiles =
      ceil_div<i64>(p.d.rows, Tile::rows * Tile::sharing) * ceil_div<i64>(p.d.cols, Tile::columns);
  if (most == 0) most = 1;
  return launch_clusters(kernel, tiles < most ? tiles : most, Set::ctas, threads, Tile::shared_bytes, stream,
                         p, state);
}

}  // namespace detail

/// Why TMA cannot read this operand; null if it can. Codes must begin at a multiple of 16 bytes, and so must
/// each of their rows: for 4-bit formats K is then a multiple of 32. Scales must begin at a multiple of 16
/// bytes.
template <class F, class Byte>
char const* tcgen05_refusal(block_scaled_view<F, swizzled_128x4, Byte> const& q) {
  if (reinterpret_cast<u64>(q.scales) % 16 != 0)
    return "Scales that TMA reads start on a multiple of 16 bytes.";
  return ptx::refusal(detail::tma_matrix_of(q), ptx::tma_type::bytes);
}

/// Options that change the speed of a call, but no bit of its result.
template <class Set>
struct tcgen05_options {
  typename Set::state state = {};
  int most_ctas = 0;  ///< 0: as many as there are SMs
};

/// D = alpha * A * B^T + beta * D for A (M x K), B (N x K), D (M x N) in bf16, fp16 or float. Formats: NVFP4
/// by NVFP4, MXFP4 by MXFP4, MXFP8 by MXFP8 (E4M3 or E5M2, also one by the other), with scales in tiles of
/// 128 x 4. Any M and N. K is a multiple of 32; the kernel pads it with zeros to the K of the instruction,
/// whatever the padding of the scales holds. Bits and factors are those of gemm_mma_sync().
///
/// The tile is 128 x Columns for hardware<1>, and 256 x Columns, by two CTAs, for hardware<2>. With
/// hardware<2, 2> two such pairs, one tile below the other, share B: less comes from L2, but with an odd
/// number of rows of tiles the last pair works for nothing.
///
/// Errors: those of host::gemm; misaligned where tcgen05_refusal() says why; no_instruction where the device
/// has no such instructions, or this code was not compiled for sm_100f, 103f, 110f or their `a` targets. D is
/// then untouched. One kernel on the stream; never synchronises, never allocates.
template <class Set = mma::tcgen05::hardware<2>, int Columns = 256, class F, class BA, class G, class BB,
          class T>
errc gemm_tcgen05(block_scaled_view<F, swizzled_128x4, BA> const& a,
                  block_scaled_view<G, swizzled_128x4, BB> const& b, matrix_view<T> const& d,
                  gemm_factors factors = {}, tcgen05_options<Set> const& options = {},
                  cudaStream_t stream = nullptr) {
  using tile = mma::tcgen05::tile<F, G, Set::cta_group, Columns, Set::sharing>;
  using problem = mma::tcgen05::problem<F, G, T>;
  if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
  if (tcgen05_refusal(a) != nullptr || tcgen05_refusal(b) != nullptr) return errc::misaligned;
  if (const errc e = detail::check_available(&detail::gemm_tcgen05_kernel<tile, Set, problem>, 1);
      e != errc::ok)
    return e;
  problem p{{}, {}, {}, a, b, d, factors, detail::rows_are_vectors(d), false};
  if (const errc e = detail::encode_maps<tile>(p); e != errc::ok) return e;
  if (const errc e = detail::encode_output<tile>(p); e != errc::ok) return e;
  return detail::launch_persistent<tile, Set>(p, options.state, options.most_ctas, stream);
}

namespace detail {

/// Whether two pairs should share B. Then a quarter less comes from L2, but with an odd number of rows of
/// tiles one pair of the last cluster works for nothing. `rows`: of D.
constexpr bool pairs_share_b(i64 rows) {
  const i64 row_tiles = ceil_div<i64>(rows, 256);
  return row_tiles % 2 == 0 || row_tiles > 4;
}

/// A GEMM by pairs of CTAs, in clusters of one or two pairs, whichever is faster.
template <class A, class B, class T>
errc gemm_by_pairs(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors,
                   cudaStream_t stream) {
  return pairs_share_b(d.rows) ? gemm_tcgen05<mma::tcgen05::hardware<2, 2>>(a, b, d, factors, {}, stream)
                               : gemm_tcgen05<mma::tcgen05::hardware<2>>(a, b, d, factors, {}, stream);
}

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
