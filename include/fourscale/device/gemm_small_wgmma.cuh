// SPDX-License-Identifier: Apache-2.0
// The kernel of gemm_weight_only() for Hopper, and its launch. How it works: mma/weight_only_wgmma.cuh.
#pragma once

#include "../mma/weight_only_wgmma.cuh"
#include "tensor_map.cuh"
#include "weight_only_machine.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// In a compilation pass without wgmma the kernel is empty.
template <int NTiles, class P>
FOURSCALE_KERNEL void __launch_bounds__(weight_only::by_wgmma::threads(NTiles), 1)
    weight_only_wgmma_kernel([[maybe_unused]] __grid_constant__ P const a) {
  if constexpr (arch::has_wgmma) {
    extern __shared__ __align__(1024) u8 weight_only_bytes[];
    __shared__ own_kilobyte own;
    own.keep();
    weight_only::by_wgmma::run(a,
                               *reinterpret_cast<weight_only::by_wgmma::memory<NTiles>*>(weight_only_bytes));
  }
}

/// The same as a variant of weight_only_machine_of().
template <int NTiles, class P>
struct weight_only_by_wgmma {
  using memory = weight_only::by_wgmma::memory<NTiles>;
  static constexpr int warps = weight_only::by_wgmma::threads(NTiles) / 32;
  static constexpr bool may_be_empty = true;

  static auto* kernel() { return &weight_only_wgmma_kernel<NTiles, P>; }
};

/// Makes the tensor maps of codes, scales and X. False if TMA cannot read one of these tensors.
template <class P>
bool make_maps(P& a, ptx::tma_tensor const& codes, ptx::tma_tensor const& scales, ptx::tma_tensor const& x) {
  return encode_map(a.w.codes, codes, CU_TENSOR_MAP_DATA_TYPE_UINT8, a.maps.codes) == errc::ok &&
         encode_map(a.w.scales, scales, CU_TENSOR_MAP_DATA_TYPE_UINT8, a.maps.scales) == errc::ok &&
         encode_map(a.x.data, x, CU_TENSOR_MAP_DATA_TYPE_UINT16, a.maps.x) == errc::ok;
}
template <int NTiles, class T, class Layout, class TD>
bool make_maps(weight_only::by_wgmma::problem<T, Layout, TD>& a) {
  namespace w = weight_only::by_wgmma;
  constexpr bool swizzled = Layout::has_padding;
  return weight_only::tma_can_read(swizzled, a.w.rows, a.w.cols) &&
         make_maps(a, w::tensor_of_codes(swizzled, a.w.rows, a.w.cols),
                   w::tensor_of_scales(swizzled, a.w.rows, a.w.cols),
                   w::tensor_of_x(NTiles, a.x.rows, a.x.cols, a.x.ld));
}

/// Launches the kernel for at most 8 NTiles rows of X. Where it cannot run, returns no_instruction without a
/// launch. `ctas`: CTAs of a cluster, or 0: see make_plan().
template <int NTiles, class T, class Layout, class TD>
errc launch_weight_only_wgmma(weight_only::by_wgmma::problem<T, Layout, TD> a, int ctas,
                              cudaStream_t stream) {
  using variant = weight_only_by_wgmma<NTiles, weight_only::by_wgmma::problem<T, Layout, TD>>;
  weight_only::machine m;
  if (const errc e = weight_only_machine_of<variant>(m); e != errc::ok) return e;
  constexpr int bytes = static_cast<int>(sizeof(typename variant::memory));
  if (!weight_only::by_wgmma::has_plan(a.w.cols, m, ctas) || m.shared_bytes < bytes || !make_maps<NTiles>(a))
    return errc::no_instruction;
  const i64 tiles = weight_only::by_wgmma::tiles_of(Layout::has_padding, a.w.rows);
  a.plan = weight_only::by_wgmma::make_plan(NTiles, tiles, a.w.cols, m, ctas);
  return launch_clusters(variant::kernel(), a.plan.clusters(), a.plan.ctas(), 32 * variant::warps, bytes,
                         stream, a);
}

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
