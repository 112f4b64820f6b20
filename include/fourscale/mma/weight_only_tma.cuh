// SPDX-License-Identifier: Apache-2.0
// The loads of the weight-only GEMM by mma.sync, by TMA (PTX ISA 9.7.9.27), sm_90 and later. One lane starts
// the copies of a stage, which otherwise take all lanes 9 instructions for each half. X arrives in the order
// of memory. Outside of a matrix TMA writes zeros. The wgmma kernel has the same tensors, with other boxes.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "../ptx/elect.cuh"
#include "../ptx/mbarrier.cuh"
#include "../ptx/tma_box.hpp"
#include "weight_only_stream.cuh"

namespace FOURSCALE_NAMESPACE::mma::weight_only {

using ptx::tma_tensor;

/// Codes: {bytes along K, rows, 1}. With scales in the layout swizzled_128x4 they are {bytes along K, 32
/// rows, groups of 32 rows}, because a tile then is eight rows of each of four neighbouring groups.
FOURSCALE_HD constexpr tma_tensor tensor_of_codes(bool swizzled, i64 rows, i64 k) {
  const u64 bytes = static_cast<u64>(k) / 2, all = static_cast<u64>(rows);
  if (!swizzled) return {{bytes, all, 1}, {bytes, bytes * all}, {stage_bytes, warp_rows, 1}, true};
  return {{bytes, 32, all / 32}, {bytes, 32 * bytes}, {stage_bytes, 8, 4}, true};
}
/// Scales: {K / 16, rows, 1}; in the layout swizzled_128x4 {the 512 bytes of a tile of 128 x 4 scales, tiles
/// along K, tiles along the rows}.
FOURSCALE_HD constexpr tma_tensor tensor_of_scales(bool swizzled, i64 rows, i64 k) {
  const u64 scales = static_cast<u64>(k) / 16, all = static_cast<u64>(rows);
  if (!swizzled) return {{scales, all, 1}, {scales, scales * all}, {stage_scales, warp_rows, 1}, false};
  const u64 along_k = ceil_div<u64>(scales, 4);
  return {{512, along_k, ceil_div<u64>(all, 128)}, {512, 512 * along_k}, {128, stage_scales / 4, 1}, false};
}
/// X: {K, rows, 1}, in elements. A box is a slice of all rows.
FOURSCALE_HD constexpr tma_tensor tensor_of_x(int n_tiles, i64 rows, i64 k, i64 ld) {
  const u64 bytes = 2 * static_cast<u64>(ld), all = static_cast<u64>(rows);
  return {{static_cast<u64>(k), all, 1},
          {bytes, bytes * all},
          {slice_values, static_cast<u32>(8 * n_tiles), 1},
          true};
}
/// Whether TMA can read W. Rows of codes and of linear scales must be multiples of 16 bytes. With swizzled
/// scales, rows must be whole groups of 32, and TMA must read no padding along K, which need not be zero.
FOURSCALE_HD constexpr bool tma_can_read(bool swizzled, i64 rows, i64 k) {
  return swizzled ? rows % 32 == 0 && k % 64 == 0 : k % stage_values == 0;
}

/// The tensor maps that the kernel needs.
struct tma_maps {
  CUtensorMap codes, scales, x;
};

/// Loads the stages of a warp: one lane starts two copies for a stage, of codes and of scales.
template <class Layout>
struct tma_stream {
  tma_maps const& maps;
  weight_walk walk;
  std::uint64_t* full;  ///< barriers of the warp, one for each slot of its rings

  FOURSCALE_D tma_stream(tma_maps const& the_maps, plan const& p, i64 k, int rank, int cluster,
                         std::uint64_t* barriers)
      : maps(the_maps), walk(p, k, rank, cluster), full(barriers) {}

  /// A whole warp starts the copies of its next stage, if there is one, to slot `slot` of the rings.
  FOURSCALE_D void start(u8* codes, u8* scales, int slot) {
    if (!walk.more()) return;
    if (ptx::elect_sync()) {
      using namespace cuda::ptx;
      const int stage = walk.stage_of_matrix(), tile = walk.at.tile;
      mbarrier_arrive_expect_tx(sem_release, scope_cta, space_shared, full + slot, code_bytes + scales_bytes);
      if constexpr (Layout::has_padding) {
        copy(codes + slot * code_bytes, maps.codes, {stage * stage_bytes, tile % 4 * 8, tile / 4 * 4}, slot);
        copy(scales + slot * scales_bytes, maps.scales, {tile % 4 * 128, stage * 4, tile / 4}, slot);
      } else {
        copy(codes + slot * code_bytes, maps.codes, {stage * stage_bytes, tile * warp_rows, 0}, slot);
        copy(scales + slot * scales_bytes, maps.scales, {stage * stage_scales, tile * warp_rows, 0}, slot);
      }
    }
    walk.next();
  }

 private:
  FOURSCALE_D void copy(u8* to, CUtensorMap const& map, std::int32_t const (&at)[3], int slot) const {
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to, &map, at,
                                    full + slot);
  }
};

/// Starts the copies of `stages` stages of X from stage `first` on. All warps of the CTA call it and share
/// the slices. The barrier `arrived` takes one arrival, that of warp 0, and the bytes of all slices.
template <int NTiles>
FOURSCALE_D void start_x(tma_maps const& maps, int first, int stages, u8* to, std::uint64_t* arrived) {
  const int warp = weight_walk::warp(), warps = static_cast<int>(blockDim.x) / 32;
  if (!ptx::elect_sync()) return;
  if (warp == 0)
    cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                         cuda::ptx::space_shared, arrived,
                                         static_cast<u32>(stages * x_stage_bytes(NTiles)));
#pragma unroll 1
  for (int i = warp; i < stages * slices; i += warps)
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global,
                                    to + i * slice_bytes(NTiles), &maps.x,
                                    {first * stage_values + i * slice_values, 0, 0}, arrived);
}

}  // namespace FOURSCALE_NAMESPACE::mma::weight_only
