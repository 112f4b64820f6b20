// SPDX-License-Identifier: Apache-2.0
// Sums of a tile from the cluster that makes its first part along K to the one that goes on with it, by
// global memory: see tile_parts.cuh.
#pragma once

#include "../ptx/memory_order.cuh"

namespace FOURSCALE_NAMESPACE::mma {

/// Where CTAs leave their sums, and words that count the warps which have: 0 when a kernel begins and when it
/// ends.
struct carried_sums {
  float* sums = nullptr;  ///< [CTA][four sums of a thread][thread][sum]
  u32* there = nullptr;   ///< [CTA]

  static constexpr i64 bytes_of_cta(int threads, int sums_of_thread) {
    return i64{4} * threads * sums_of_thread;
  }

  /// One warp, number `thread` / 32 of `Threads` / 32, to the memory of this CTA.
  template <int Threads, int N>
  FOURSCALE_D void leave(int cta, int thread, float const (&x)[N]) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < N / 4; ++i)
      __stcg(fours<Threads, N>(cta, thread) + i * Threads,
             float4{x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]});
    __syncwarp();  // all lanes have left theirs, and the release is of them all
    if (thread % 32 == 0) ptx::red_release_gpu_add(there + cta, 1);
    __syncwarp();
  }
  /// One thread: until all `Warps` of that CTA have left their sums. Whoever waits for this thread may take
  /// them.
  template <int Warps>
  FOURSCALE_D void wait_for(int cta) const {
    while (ptx::ld_acquire_gpu(there + cta) != Warps) __nanosleep(100);
    there[cta] = 0;
  }
  /// What the warp of this number in that CTA has left.
  template <int Threads, int N>
  FOURSCALE_D void take(int cta, int thread, float (&x)[N]) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < N / 4; ++i) {
      const float4 four = __ldcg(fours<Threads, N>(cta, thread) + i * Threads);
      x[4 * i] = four.x, x[4 * i + 1] = four.y, x[4 * i + 2] = four.z, x[4 * i + 3] = four.w;
    }
  }

 private:
  template <int Threads, int N>
  FOURSCALE_D float4* fours(int cta, int thread) const {
    static_assert(N % 4 == 0);
    return reinterpret_cast<float4*>(sums) + (i64{cta} * (N / 4) * Threads + thread);
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma
