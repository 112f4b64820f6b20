// SPDX-License-Identifier: Apache-2.0
// Sums of a tile from the cluster that makes its first part along K to the one that goes on with it, by
// global memory: see tile_parts.cuh. A warp waits for the warp of the same number, and for nobody else.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::mma {

/// Where CTAs leave their sums, and words that say so: 0 when a kernel begins and when it ends.
struct carried_sums {
  float* sums = nullptr;  ///< [CTA][sum of a thread][thread]
  u32* there = nullptr;   ///< [CTA][warp]

  static constexpr i64 bytes_of_cta(int threads, int sums_of_thread) {
    return i64{4} * threads * sums_of_thread;
  }

  /// One warp, number `thread` / 32 of `Threads` / 32, to the memory of this CTA.
  template <int Threads, int N>
  FOURSCALE_D void leave(int cta, int thread, float const (&x)[N]) const {
    float* const to = sums + (i64{cta} * N * Threads + thread);
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) __stcg(to + i * Threads, x[i]);
    __threadfence();
    __syncwarp();
    if (thread % 32 == 0) atomicExch(word<Threads>(cta, thread), 1u);
  }
  /// What the warp of this number in that CTA has left, once it has.
  template <int Threads, int N>
  FOURSCALE_D void take(int cta, int thread, float (&x)[N]) const {
    if (thread % 32 == 0) {
      while (atomicExch(word<Threads>(cta, thread), 0u) == 0u) __nanosleep(100);
      __threadfence();
    }
    __syncwarp();
    float const* const from = sums + (i64{cta} * N * Threads + thread);
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) x[i] = __ldcg(from + i * Threads);
  }

 private:
  template <int Threads>
  FOURSCALE_D u32* word(int cta, int thread) const {
    return there + (cta * (Threads / 32) + thread / 32);
  }
};

}  // namespace FOURSCALE_NAMESPACE::mma
