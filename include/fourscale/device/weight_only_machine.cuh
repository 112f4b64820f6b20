// SPDX-License-Identifier: Apache-2.0
// What the current device offers to the kernels of the weight-only GEMM, whose plans depend on it.
#pragma once

#include "../mma/weight_only_plan.hpp"
#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

namespace weight_only = mma::weight_only;

/// Finds a device's SMs, and the shared memory that a CTA may ask for.
inline errc weight_only_machine(int device, weight_only::machine& m) {
  const bool ok =
      cudaDeviceGetAttribute(&m.sms, cudaDevAttrMultiProcessorCount, device) == cudaSuccess &&
      cudaDeviceGetAttribute(&m.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess;
  return ok ? errc::ok : errc::cuda_failed;
}

/// Finds how many clusters of each size the device runs at a time. Sizes above m.most_ctas cannot run, as
/// where a process has only a few of the device's SMs.
template <class Kernel>
void find_clusters(Kernel* kernel, int warps, weight_only::machine& m) {
  m.most_ctas = 1;
  for (int size = 1; m.clusters && 1 << size <= weight_only::most_ctas; ++size) {
    m.at_once[size] = clusters_that_fit(kernel, 1 << size, 32 * warps, m.shared_bytes);
    if (m.at_once[size] < 1) return;
    m.most_ctas = 1 << size;
  }
}

/// What the current device offers to the kernel of a variant, and allows the kernel that much shared memory.
/// A kernel that `may_be_empty` has static shared memory where it is not empty. Each thread of the CPU keeps
/// the answer for the last device, because asking takes longer than a launch. no_instruction: no code for it.
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
    // Whether the kernel was compiled for clusters.
    m.clusters = attributes.ptxVersion >= 90 &&
                 (!Variant::may_be_empty || (!arch::is_relocatable && has_code(attributes, 1)));
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
