// SPDX-License-Identifier: Apache-2.0
// One test body, every machine. A body is a struct with `FOURSCALE_HD bool operator()(u64 i) const`, at
// namespace scope (nvcc names a lambda after its enclosing function, which Catch2 hides). check_everywhere()
// calls it for each i on all cores and, in a CUDA build with a GPU, in a kernel, and reports the first i that
// fails.
#pragma once

#include <cstdlib>
#include <fourscale/bits.hpp>

#include "catch.hpp"

#if FOURSCALE_CUDA
#include <cuda_runtime.h>
#endif

namespace fourscale::test {

inline constexpr u64 none = ~u64{0};

/// The lowest i in [0, n) with !body(i), or `none`.
template <class Body>
u64 first_failure_on_host(u64 n, Body body) {
  u64 first = none;
  const i64 count = static_cast<i64>(n);
#ifdef _OPENMP
#pragma omp parallel for reduction(min : first) if (count > 100000)
#endif
  for (i64 i = 0; i < count; ++i)
    if (const u64 u = static_cast<u64>(i); u < first && !body(u)) first = u;
  return first;
}

#if FOURSCALE_CUDA

/// True if this process can launch kernels.
inline bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

template <class Body>
__global__ void first_failure_kernel(u64 n, Body body, u64* first) {
  for (u64 i = blockIdx.x * u64{blockDim.x} + threadIdx.x; i < n; i += u64{gridDim.x} * blockDim.x)
    if (!body(i)) atomicMin(first, i);
}

/// As first_failure_on_host(), in a kernel.
template <class Body>
u64 first_failure_on_device(u64 n, Body body) {
  u64 first = none, *d_first = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&d_first), sizeof first) == cudaSuccess);
  REQUIRE(cudaMemcpy(d_first, &first, sizeof first, cudaMemcpyHostToDevice) == cudaSuccess);
  first_failure_kernel<<<2048, 256>>>(n, body, d_first);
  REQUIRE(cudaMemcpy(&first, d_first, sizeof first, cudaMemcpyDeviceToHost) == cudaSuccess);
  REQUIRE(cudaFree(d_first) == cudaSuccess);
  return first;
}

#else
inline bool has_gpu() { return false; }
#endif

/// has_gpu(), with a warning in the test's output where it is false.
inline bool gpu_or_warn() {
  if (!has_gpu()) WARN("no GPU here: not run");
  return has_gpu();
}

/// body(i) holds for every i in [0, n), on the CPU and on the GPU if there is one.
template <class Body>
void check_everywhere(u64 n, Body body) {
  CHECK(first_failure_on_host(n, body) == none);
#if FOURSCALE_CUDA
  if (has_gpu()) CHECK(first_failure_on_device(n, body) == none);
#endif
}

/// True if the user asked for every input instead of a sample: `./run test --exhaustive`.
inline bool exhaustive() { return std::getenv("FOURSCALE_EXHAUSTIVE") != nullptr; }

/// How many float patterns a sweep visits: all 2^32, or 65536 upper halves with `lows` lower halves each.
inline constexpr u64 lows = 8;
inline u64 float_count() { return exhaustive() ? u64{1} << 32 : (u64{1} << 16) * lows; }

/// Pattern i of the sweep. The sampled lower halves are the ones next to where rounding decides, and two
/// others.
FOURSCALE_HD constexpr float nth_float(u64 i, u64 count) {
  if (count == u64{1} << 32) return bit_cast<float>(static_cast<u32>(i));
  constexpr u32 low[lows] = {0x0000, 0x0001, 0x7fff, 0x8000, 0x8001, 0xffff, 0x2e5b, 0xd1a4};
  return bit_cast<float>(static_cast<u32>(i / lows) << 16 | low[i % lows]);
}

}  // namespace fourscale::test
