// SPDX-License-Identifier: Apache-2.0
// Tensor maps for TMA, made by the driver's cuTensorMapEncodeTiled.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "../ptx/tma_box.hpp"
#include "../view/errc.hpp"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The driver's encoder of tensor maps, found without linking to the driver; nullptr if it has none.
inline decltype(&cuTensorMapEncodeTiled) tensor_map_encoder() {
  static const auto encoder = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    const cudaError_t e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                           cudaEnableDefault, &found);
    if (e != cudaSuccess) static_cast<void>(cudaGetLastError());
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(
        e == cudaSuccess && found == cudaDriverEntryPointSuccess ? function : nullptr);
  }();
  return encoder;
}

/// A map of N dimensions, the innermost one first. Extents and boxes count elements, strides count bytes.
template <int N>
errc encode_map(void const* data, cuuint64_t const (&extents)[N], cuuint64_t const (&strides)[N - 1],
                cuuint32_t const (&box)[N], ptx::swizzle pattern, CUtensorMapDataType type,
                CUtensorMap& map) {
  const auto encode = tensor_map_encoder();
  if (encode == nullptr) return errc::cuda_failed;
  cuuint32_t steps[N];
  for (cuuint32_t& step : steps) step = 1;
  const CUresult e =
      encode(&map, type, N, const_cast<void*>(data), extents, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, static_cast<CUtensorMapSwizzle>(ptx::tma_swizzle(pattern)),
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return e == CUDA_SUCCESS ? errc::ok : errc::cuda_failed;
}

// Both functions below refuse by themselves what the driver would refuse: compute-sanitizer reports each
// call of the driver that fails.

/// A map of the rows of a matrix. The extents of `m` and of `box` count elements of `type`.
inline errc encode_map(ptx::tma_matrix const& m, ptx::tma_box const& box, CUtensorMapDataType type,
                       CUtensorMap& map) {
  if (ptx::refusal(m, box.type) != nullptr) return errc::cuda_failed;
  return encode_map<2>(reinterpret_cast<void const*>(m.address), {m.k, m.rows}, {m.stride},
                       {static_cast<cuuint32_t>(box.box_k), static_cast<cuuint32_t>(box.box_rows)},
                       box.pattern, type, map);
}

/// A map of a tensor of three dimensions that begins at `data`.
inline errc encode_map(void const* data, ptx::tma_tensor const& t, CUtensorMapDataType type,
                       CUtensorMap& map) {
  if (ptx::refusal(t, reinterpret_cast<u64>(data)) != nullptr) return errc::cuda_failed;
  return encode_map<3>(data, {t.extent[0], t.extent[1], t.extent[2]}, {t.stride[0], t.stride[1]},
                       {t.box[0], t.box[1], t.box[2]}, t.swizzled ? ptx::swizzle::b128 : ptx::swizzle::none,
                       type, map);
}

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
