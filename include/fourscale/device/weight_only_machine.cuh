// SPDX-License-Identifier: Apache-2.0
// What the current device offers to the kernels of a weight-only GEMM, and how they are launched.
#pragma once

#include <cuda_runtime_api.h>

#include "../mma/weight_only_plan.hpp"
#include "../view/errc.hpp"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

namespace weight_only = mma::weight_only;

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

/// What the current device offers to the kernel of a variant. Asked once by each thread of the CPU, for it
/// takes longer than a launch.
template <class Variant>
errc weight_only_machine_of(weight_only::machine& m) {
  auto* const kernel = Variant::kernel();
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
    m.not_empty = attributes.sharedSizeBytes > 0;
    m.clusters = attributes.ptxVersion >= 90;  // the kernel was compiled for them
  } else {
    m = of_known;
  }
  if (cudaFuncSetAttribute(reinterpret_cast<void const*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                           m.shared_bytes) != cudaSuccess)
    return errc::cuda_failed;
  if (device == known) return errc::ok;
  find_clusters(kernel, Variant::warps, m);
  known = device, of_known = m;
  return errc::ok;
}

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
