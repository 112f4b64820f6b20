// SPDX-License-Identifier: Apache-2.0
// Maps for TMA, by the driver's encoder.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "../ptx/tma_box.hpp"
#include "../view/errc.hpp"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The driver's encoder of TMA maps, without linking to the driver; nullptr if it has none.
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

// Both refuse by themselves what the driver would: compute-sanitizer reports each call that fails.

/// A map of rows of `type`, which is what `m` and `box` count in.
inline errc encode_map(ptx::tma_matrix const& m, ptx::tma_box const& box, CUtensorMapDataType type,
                       CUtensorMap& map) {
  const auto encode = tensor_map_encoder();
  if (encode == nullptr || ptx::refusal(m, box.type) != nullptr) return errc::cuda_failed;
  const cuuint64_t extents[2] = {m.k, m.rows}, strides[1] = {m.stride};
  const cuuint32_t counts[2] = {static_cast<cuuint32_t>(box.box_k), static_cast<cuuint32_t>(box.box_rows)},
                   steps[2] = {1, 1};
  const CUresult e =
      encode(&map, type, 2, reinterpret_cast<void*>(m.address), extents, strides, counts, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, static_cast<CUtensorMapSwizzle>(ptx::tma_swizzle(box.pattern)),
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return e == CUDA_SUCCESS ? errc::ok : errc::cuda_failed;
}

inline errc encode_map(void const* data, ptx::tma_tensor const& t, CUtensorMapDataType type,
                       CUtensorMap& map) {
  const auto encode = tensor_map_encoder();
  if (encode == nullptr || ptx::refusal(t, reinterpret_cast<u64>(data)) != nullptr) return errc::cuda_failed;
  const cuuint64_t extents[3] = {t.extent[0], t.extent[1], t.extent[2]},
                   strides[2] = {t.stride[0], t.stride[1]};
  const cuuint32_t counts[3] = {t.box[0], t.box[1], t.box[2]}, steps[3] = {1, 1, 1};
  const CUresult e = encode(&map, type, 3, const_cast<void*>(data), extents, strides, counts, steps,
                            CU_TENSOR_MAP_INTERLEAVE_NONE,
                            t.swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return e == CUDA_SUCCESS ? errc::ok : errc::cuda_failed;
}

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
